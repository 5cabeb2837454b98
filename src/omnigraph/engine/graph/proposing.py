"""Proposals of an open graph. Each method asks the gate first (D39)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.engine.gate import Action, MergeRule
from omnigraph.engine.graph.reads import GraphReads
from omnigraph.engine.graph.state import Mode
from omnigraph.engine.graph.writes import GraphWrites
from omnigraph.errors import (
    BranchNotFound,
    Forbidden,
    HeadMoved,
    KeyReused,
    StorageFailure,
    UsageError,
)
from omnigraph.ids import BranchName, CommitId

if TYPE_CHECKING:
    from omnigraph.commit.manifest.model import Manifest
    from omnigraph.commit.manifest.snapshot import ManifestSnapshot
    from omnigraph.engine.merge.plan import MergeRequest
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.merge.workers import BulkMerge
    from omnigraph.engine.proposals.proposal import Proposal, ProposalCheck, ProposalState
    from omnigraph.engine.proposals.standing import ProposalStanding
    from omnigraph.engine.proposals.vetting import Heads, Vetting


@dataclass(frozen=True, slots=True)
class ProposalDraft:
    """What a caller proposes."""

    source: BranchName
    target: BranchName
    title: str
    text: str = ""
    actor: str | None = None
    key: str | None = None
    """A repeated request with this key returns the proposal of the first."""


class GraphProposals(GraphReads, GraphWrites):
    def open_proposal(self, draft: ProposalDraft) -> ProposalStanding:
        """Propose to merge one branch into another. Changes neither.

        Raises BranchNotFound, UsageError, KeyReused, Forbidden, OpenedReadOnly.
        """
        from omnigraph.engine.proposals.proposal import (
            TEXT_BYTES_MAX,
            Proposal,
            check_text,
            check_title,
        )
        from omnigraph.engine.proposals.store import put_proposal

        self._check_signer(draft.actor)
        self._gate(draft.actor, Action.PROPOSE, draft.source, draft.target)
        if draft.source == draft.target:
            raise UsageError(f"'{draft.source}' cannot be merged into itself")
        proposal = Proposal(
            id=self._stores.effects.new_id(),
            title=check_title(draft.title),
            text=check_text(draft.text, TEXT_BYTES_MAX, "the text of a proposal"),
            source=draft.source,
            target=draft.target,
            author=draft.actor,
            created_at_us=self._now_us(),
            key=draft.key,
        )
        done = self._find_opened(proposal)
        if done is not None:
            return self._stand(done)
        for branch in (draft.source, draft.target):
            self._bases.current(branch)
        put_proposal(self._stores.objects, proposal)
        return self._stand(proposal)

    def _find_opened(self, wanted: Proposal) -> Proposal | None:
        """The proposal that a request with the same key opened. Raises KeyReused."""
        from omnigraph.engine.proposals.store import find_proposals

        if wanted.key is None:
            return None
        for each in find_proposals(self._stores.objects):
            if (each.key, each.author) == (wanted.key, wanted.author):
                asked = (wanted.title, wanted.text, wanted.source, wanted.target)
                if (each.title, each.text, each.source, each.target) != asked:
                    raise KeyReused(wanted.key)
                return each
        return None

    def proposals(
        self,
        *,
        state: ProposalState | None = None,
        author: str | None = None,
        branch: BranchName | None = None,
    ) -> tuple[Proposal, ...]:
        """Those that the actor may read, newest first; `branch` is the source or the target.

        Raises Forbidden.
        """
        from omnigraph.engine.proposals.store import find_proposals

        self._check_readable(None)
        found = []
        for each in find_proposals(self._stores.objects):
            if branch not in (None, each.source, each.target) or author not in (None, each.author):
                continue
            with suppress(Forbidden):
                self._check_readable(each.target)
                known = self._derived(each)
                if state in (None, known.state):
                    found.append(known)
        return tuple(found)

    def proposal(self, proposal_id: str, *, with_conflicts: bool = False) -> ProposalStanding:
        """One proposal and what it still lacks. Raises ProposalNotFound, Forbidden."""
        proposal = self._read_proposal(proposal_id)
        self._check_readable(proposal.target)
        standing = self._stand(proposal)
        if not with_conflicts or None in (standing.source_head, standing.target_head):
            return standing
        from omnigraph.engine.merge.plan import MergeRequest

        found = self._merge(MergeRequest(proposal.source, proposal.target, dry_run=True), None)
        return replace(standing, conflict_count=len(found.conflicts))

    def comment_proposal(
        self, proposal_id: str, text: str, *, actor: str | None = None, key: str | None = None
    ) -> ProposalStanding:
        """Add a comment. Raises ProposalNotFound, UsageError, Forbidden, OpenedReadOnly."""
        from omnigraph.engine.proposals.proposal import COMMENT_BYTES_MAX, Comment, check_text

        self._enter(proposal_id, actor, Action.PROPOSE, Action.APPROVE)
        if not text.strip():
            raise UsageError("a comment needs a text")
        check_text(text, COMMENT_BYTES_MAX, "a comment")
        comment = Comment(actor, self._now_us(), text, key)
        return self._edit(proposal_id, lambda each: each.with_comment(comment))

    def approve_proposal(
        self, proposal_id: str, *, actor: str | None = None, if_source: CommitId | None = None
    ) -> ProposalStanding:
        """Approve the present head of the source; `if_source` is the head that the actor saw.

        Raises ProposalNotFound, ProposalNotOpen, HeadMoved, BranchNotFound, Forbidden,
        OpenedReadOnly.
        """
        from omnigraph.engine.proposals.heads import effective_head, find_effective_id
        from omnigraph.engine.proposals.proposal import Approval

        proposal = self._enter(proposal_id, actor, Action.APPROVE)
        rule = self._find_rule(proposal.target)
        if rule is not None and not rule.author_may_approve and actor == proposal.author:
            raise Forbidden(actor, action="approve their own proposal", branch=proposal.target)
        manifest = self._bases.current(proposal.source).manifest
        head = effective_head(manifest)
        if head is None or (
            if_source is not None and find_effective_id(manifest.log, if_source) != head
        ):
            raise HeadMoved(proposal.source, expected=str(if_source), actual=head)
        approval = Approval(actor, self._now_us(), head)
        return self._edit(proposal_id, lambda each: each.with_approval(approval))

    def check_proposal(self, proposal_id: str, *, actor: str | None = None) -> ProposalStanding:
        """Run the checks of the target's rule on the merged graph, which is not published.

        Raises ProposalNotFound, ProposalNotOpen, MergeConflicts, BranchNotFound, Forbidden,
        OpenedReadOnly.
        """
        from omnigraph.engine.merge.plan import MergeRequest
        from omnigraph.engine.merge.run import inspect_merge

        proposal = self._enter(proposal_id, actor, Action.PROPOSE, Action.APPROVE)
        self._gate(actor, Action.READ, proposal.source)
        proposal.check_open()
        request = MergeRequest(proposal.source, proposal.target, dry_run=True)
        vetting = replace(self._vetting(proposal), needs_rule_met=False)
        inspect_merge(self._context, self.active_schema(), request, vetting)
        return self._stand(self._read_proposal(proposal_id))

    def close_proposal(self, proposal_id: str, *, actor: str | None = None) -> ProposalStanding:
        """Close without merging: the author may, and any actor that may approve.

        Raises ProposalNotFound, ProposalNotOpen, Forbidden, OpenedReadOnly.
        """
        proposal = self._read_proposal(proposal_id)
        action = Action.PROPOSE if actor == proposal.author else Action.APPROVE
        self._enter(proposal_id, actor, action)
        return self._edit(proposal_id, lambda each: each.closed(actor))

    def merge_proposal(
        self,
        proposal_id: str,
        request: MergeRequest,
        bulk: BulkMerge | None = None,
        *,
        if_source: CommitId | None = None,
        if_target: CommitId | None = None,
    ) -> MergeResult:
        """Merge a proposal that has its approvals and passes its checks, or change nothing.

        Raises ProposalNotFound, ProposalNotOpen, ProposalBlocked, HeadMoved, and what `merge`
        raises.
        """
        from omnigraph.engine.write.idempotency import find_done

        if not request.dry_run:
            self._check_signer(request.actor, request.message)
        proposal = self._read_proposal(proposal_id)
        self._gate(request.actor, Action.BRANCH_MERGE, proposal.source, proposal.target)
        if request.dry_run:
            return self._merge(request, bulk)
        manifest = self._bases.current(proposal.target).manifest
        if find_done(manifest, request.idempotency, request.actor) is None:
            proposal.check_open()
        vetting = replace(self._vetting(proposal), expected=(if_source, if_target))
        request = replace(request, proposal=proposal_id)
        merged = self._merge(request, bulk, vet=vetting)
        with suppress(StorageFailure):  # the commit tells; the next reader corrects the file
            self._read_proposal(proposal_id)
        return merged

    # what they share

    def _now_us(self) -> int:
        return self._stores.effects.now_ms() * 1000

    def _enter(self, proposal_id: str, actor: str | None, *actions: Action) -> Proposal:
        """The proposal, if the actor may do one of these. Raises Forbidden, OpenedReadOnly."""
        self._check_signer(actor)
        proposal = self._read_proposal(proposal_id)
        for action in actions[:-1]:
            with suppress(Forbidden):
                self._gate(actor, action, proposal.source, proposal.target)
                return proposal
        self._gate(actor, actions[-1], proposal.source, proposal.target)
        return proposal

    def _edit(self, proposal_id: str, edit: Callable[[Proposal], Proposal]) -> ProposalStanding:
        from omnigraph.engine.proposals.store import edit_proposal

        return self._stand(edit_proposal(self._stores.objects, proposal_id, edit))

    def _read_proposal(self, proposal_id: str) -> Proposal:
        """As the commits tell, and the file corrected if it tells otherwise (D39)."""
        from omnigraph.engine.proposals.store import edit_proposal, read_proposal

        found = read_proposal(self._stores.objects, proposal_id)
        known = self._derived(found)
        if known == found or self.mode is Mode.READ_ONLY:
            return known
        return edit_proposal(self._stores.objects, proposal_id, self._derived)

    def _derived(self, proposal: Proposal) -> Proposal:
        from omnigraph.engine.proposals.heads import find_merge_of
        from omnigraph.engine.proposals.proposal import ProposalState

        if proposal.state is ProposalState.MERGED:
            return proposal
        manifest = self._find_manifest(proposal.target)
        commit = None if manifest is None else find_merge_of(manifest, proposal.id)
        return proposal if commit is None else proposal.merged(commit.id)

    def _find_manifest(self, branch: BranchName) -> Manifest | None:
        try:
            return self._bases.current(branch).manifest
        except BranchNotFound:
            return None

    def _stand(self, proposal: Proposal) -> ProposalStanding:
        from omnigraph.engine.proposals.heads import effective_head
        from omnigraph.engine.proposals.standing import find_standing

        found = [self._find_manifest(each) for each in (proposal.source, proposal.target)]
        source, target = (None if each is None else effective_head(each) for each in found)
        rule = self._find_rule(proposal.target)
        return find_standing(proposal, (source, target), rule, self._approvers(proposal))

    def _approvers(self, proposal: Proposal) -> Callable[[str | None], bool]:
        """May an actor approve now? The right of an approver may have been revoked since."""

        def may_approve(actor: str | None) -> bool:
            try:
                self._gate(actor, Action.APPROVE, proposal.source, proposal.target)
            except Forbidden:
                return False
            return True

        return may_approve

    def _vetting(self, proposal: Proposal) -> Vetting:
        from omnigraph.engine.proposals.vetting import Vetting

        return Vetting(
            self._stores.objects,
            self._bases,
            proposal.id,
            self._find_rule,
            self._approvers(proposal),
            self._run_checks,
        )

    def _run_checks(
        self, rule: MergeRule, heads: Heads, merged: ManifestSnapshot
    ) -> tuple[ProposalCheck, ...]:
        from omnigraph.engine.proposals.checks import CheckRun
        from omnigraph.engine.query.columns.table_cache import TableCache

        # A cache of its own: no other read ever shows these table versions.
        reader = replace(self._reader, cache=TableCache(self.settings.query_cache_bytes_max))
        now_ms = self._stores.effects.now_ms()
        return CheckRun(reader, self.active_schema().catalog, heads, now_ms).run(
            rule.checks, merged
        )
