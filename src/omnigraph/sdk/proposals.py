"""Proposals as callers ask for them and as documents tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.ids import MAIN
from omnigraph.sdk.documents import iso_time

if TYPE_CHECKING:
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.proposals.proposal import Proposal
    from omnigraph.engine.proposals.standing import ProposalStanding


class ProposalMergeOptions(TypedDict, total=False):
    """The keywords of `proposals.merge`."""

    if_source: str | None
    """The head of the source that the caller saw; HeadMoved if it is another one."""
    if_target: str | None
    actor: str | None
    message: str | None
    """Why; by default, the title of the proposal."""
    detect: str
    """`row` or `property`, as for a merge."""
    on_conflict: str | Mapping[str, str] | None
    """`ours` or `theirs`, for all types or by type."""
    resolutions: str | Path | None
    """A conflict file in which every conflict is resolved."""
    dry_run: bool
    delete_branch: bool
    idempotency_key: str | None


class ProposalsClient(Protocol):
    """The proposals of a graph."""

    def open(
        self,
        source: str,
        target: str = MAIN,
        *,
        title: str,
        text: str = "",
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ProposalStanding: ...

    def list(
        self,
        *,
        state: str | None = None,
        author: str | None = None,
        branch: str | None = None,
    ) -> Sequence[Proposal]: ...

    def show(self, proposal_id: str, *, conflicts: bool = False) -> ProposalStanding: ...

    def comment(
        self,
        proposal_id: str,
        text: str,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ProposalStanding: ...

    def approve(
        self, proposal_id: str, *, actor: str | None = None, if_source: str | None = None
    ) -> ProposalStanding: ...

    def check(self, proposal_id: str, *, actor: str | None = None) -> ProposalStanding: ...

    def merge(self, proposal_id: str, **options: Unpack[ProposalMergeOptions]) -> MergeResult: ...

    def close(self, proposal_id: str, *, actor: str | None = None) -> ProposalStanding: ...


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def entry_document(proposal: Proposal) -> JsonObject:
    """A proposal as a list shows it."""
    return {
        "id": proposal.id,
        "title": proposal.title,
        "source": proposal.source,
        "target": proposal.target,
        "author": proposal.author,
        "state": proposal.state.value,
        **_times(proposal.created_at_us),
        "approval_count": len(proposal.approvals),
        "comment_count": len(proposal.comments),
        "merged_commit_id": proposal.merged_commit,
        "closed_by": proposal.closed_by,
    }


def proposal_document(standing: ProposalStanding) -> JsonObject:
    proposal = standing.proposal
    return {
        **entry_document(proposal),
        "text": proposal.text,
        "source_commit_id": standing.source_head,
        "target_commit_id": standing.target_head,
        "approvals": [
            {
                "actor_id": each.actor,
                **_times(each.at_us),
                "source_commit_id": each.source_head,
                "is_current": standing.is_current(each),
                "counts": each.actor in standing.counted,
            }
            for each in proposal.approvals
        ],
        "checks": [
            {
                "name": each.name,
                "passed": each.passed,
                "row_count": each.row_count,
                "reason": each.reason,
                "source_commit_id": each.source_head,
                "target_commit_id": each.target_head,
                **_times(each.at_us),
                "is_current": standing.is_current(each),
            }
            for each in proposal.checks
        ],
        "comments": [
            {"actor_id": each.actor, **_times(each.at_us), "text": each.text}
            for each in proposal.comments
        ],
        "required_approvals": standing.required_approvals,
        "missing_approvals": standing.missing_approvals,
        "required_checks": [*standing.required_checks],
        "failing_checks": [*standing.failing_checks],
        "conflict_count": standing.conflict_count,
        "is_mergeable": standing.is_mergeable,
    }


def _times(microseconds: int) -> JsonObject:
    return {"created_at": microseconds, "created_at_iso": iso_time(microseconds)}
