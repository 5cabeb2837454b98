"""The proposals of an embedded graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from omnigraph.engine.graph import Graph, ProposalDraft
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, CommitId, parse_branch
from omnigraph.sdk.files import read_text
from omnigraph.sdk.proposals import ProposalMergeOptions

if TYPE_CHECKING:
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.proposals.proposal import Proposal, ProposalState
    from omnigraph.engine.proposals.standing import ProposalStanding


class LocalProposals:
    """The proposals of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def open(
        self,
        source: str,
        target: str = MAIN,
        *,
        title: str,
        text: str = "",
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ProposalStanding:
        """Propose to merge a branch. Raises BranchNotFound, UsageError, OpenedReadOnly."""
        return self._graph.open_proposal(
            ProposalDraft(
                parse_branch(source), parse_branch(target), title, text, actor, idempotency_key
            )
        )

    def list(
        self,
        *,
        state: str | None = None,
        author: str | None = None,
        branch: str | None = None,
    ) -> Sequence[Proposal]:
        """The newest first; `branch` is the source or the target. Raises UsageError."""
        return self._graph.proposals(
            state=parse_state(state),
            author=author,
            branch=None if branch is None else parse_branch(branch),
        )

    def show(self, proposal_id: str, *, conflicts: bool = False) -> ProposalStanding:
        """A proposal and what it still lacks; `conflicts` counts those of the merge.

        Raises ProposalNotFound.
        """
        return self._graph.proposal(proposal_id, with_conflicts=conflicts)

    def comment(
        self,
        proposal_id: str,
        text: str,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ProposalStanding:
        """Raises ProposalNotFound, UsageError, OpenedReadOnly."""
        return self._graph.comment_proposal(proposal_id, text, actor=actor, key=idempotency_key)

    def approve(
        self, proposal_id: str, *, actor: str | None = None, if_source: str | None = None
    ) -> ProposalStanding:
        """Approve the present head of the source; `if_source` is the head that the caller saw.

        Raises ProposalNotFound, ProposalNotOpen, HeadMoved, BranchNotFound, OpenedReadOnly.
        """
        head = None if if_source is None else CommitId(if_source)
        return self._graph.approve_proposal(proposal_id, actor=actor, if_source=head)

    def check(self, proposal_id: str, *, actor: str | None = None) -> ProposalStanding:
        """Run the checks of the target branch on the merged graph, which is not published.

        Raises ProposalNotFound, ProposalNotOpen, MergeConflicts, BranchNotFound, OpenedReadOnly.
        """
        return self._graph.check_proposal(proposal_id, actor=actor)

    def merge(self, proposal_id: str, **options: Unpack[ProposalMergeOptions]) -> MergeResult:
        """Merge a proposal that has its approvals and passes its checks, or change nothing.

        Raises ProposalNotFound, ProposalNotOpen, ProposalBlocked, HeadMoved, and what
        `graph.merge` raises.
        """
        from omnigraph.sdk.embedded import merging

        proposal = self._graph.proposal(proposal_id).proposal
        resolutions = options.get("resolutions")
        request = merging.parse_merge(
            proposal.source,
            proposal.target,
            actor=options.get("actor"),
            detect=options.get("detect", "row"),
            on_conflict=options.get("on_conflict"),
            resolutions=None if resolutions is None else read_text(resolutions)[0],
            base=None,
            dry_run=options.get("dry_run", False),
            idempotency_key=options.get("idempotency_key"),
            message=options.get("message") or proposal.title,
        )
        return merging.merge_proposal(self._graph, proposal_id, request, options)

    def close(self, proposal_id: str, *, actor: str | None = None) -> ProposalStanding:
        """Close a proposal without merging it.

        Raises ProposalNotFound, ProposalNotOpen, OpenedReadOnly.
        """
        return self._graph.close_proposal(proposal_id, actor=actor)


def parse_state(text: str | None) -> ProposalState | None:
    """Raises UsageError."""
    from omnigraph.engine.proposals.proposal import ProposalState

    if text is None:
        return None
    try:
        return ProposalState(text)
    except ValueError:
        known = ", ".join(ProposalState)
        raise UsageError(f"the state of a proposal is one of {known}, not {text!r}") from None
