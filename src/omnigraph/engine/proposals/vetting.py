"""May this merge of a proposal be published? Asked before anything moves, and under the locks."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.gate import FindRule, MergeRule
from omnigraph.engine.merge.classify import Outcome
from omnigraph.engine.merge.plan import MergePlan
from omnigraph.engine.proposals.heads import find_effective, find_effective_id, find_merge_of
from omnigraph.engine.proposals.proposal import Proposal, ProposalCheck
from omnigraph.engine.proposals.standing import MayApprove, find_standing
from omnigraph.engine.proposals.store import edit_proposal, read_proposal
from omnigraph.errors import HeadMoved, ProposalBlocked, ProposalNotOpen
from omnigraph.errors.base import counted
from omnigraph.ids import CommitId
from omnigraph.storage.objects import Objects

Heads = tuple[CommitId, CommitId]
"""The heads of the source and of the target, without commits of upkeep and recovery."""

OpenMerged = Callable[[], AbstractContextManager[ManifestSnapshot]]
RunChecks = Callable[[MergeRule, Heads, ManifestSnapshot], tuple[ProposalCheck, ...]]


@dataclass(slots=True)
class Vetting:
    """A `Vet` of one merge. It runs the checks once for each pair of heads."""

    objects: Objects
    bases: Bases
    proposal_id: str
    find_rule: FindRule
    may_approve: MayApprove
    run_checks: RunChecks
    expected: tuple[CommitId | None, CommitId | None] = (None, None)
    """The heads that the caller saw; None accepts any."""
    needs_rule_met: bool = True
    """False to run the checks and block nothing."""
    _checked: dict[Heads, tuple[ProposalCheck, ...]] = field(default_factory=dict)

    def __call__(self, plan: MergePlan, open_merged: OpenMerged) -> None:
        """Raises ProposalNotOpen, HeadMoved, ProposalBlocked."""
        proposal, heads = self._proposal(plan), self._heads(plan)
        rule = self.find_rule(proposal.target) or MergeRule(author_may_approve=True)
        reasons = []
        if plan.outcome is Outcome.ALREADY_UP_TO_DATE:
            reasons.append(f"'{proposal.source}' has no change that '{proposal.target}' lacks")
        missing = find_standing(proposal, heads, rule, self.may_approve).missing_approvals
        if missing:
            reasons.append(f"{missing} of {rule.approvals} approvals of {heads[0]} are missing")
        if reasons and self.needs_rule_met:
            raise ProposalBlocked(self.proposal_id, reasons=reasons)
        results = self._check(rule, heads, open_merged)
        failed = [_reason(each) for each in results if not each.passed]
        if failed and self.needs_rule_met:
            raise ProposalBlocked(self.proposal_id, reasons=failed)

    def _proposal(self, plan: MergePlan) -> Proposal:
        """As it is now: it may have been closed, or approved, since the merge began."""
        if find_merge_of(plan.target.manifest, self.proposal_id) is not None:
            raise ProposalNotOpen(self.proposal_id, state="merged")
        proposal = read_proposal(self.objects, self.proposal_id)
        proposal.check_open()
        return proposal

    def _heads(self, plan: MergePlan) -> Heads:
        """Raises HeadMoved if these are not the heads that the caller saw."""
        manifest, ancestry = plan.target.manifest, plan.ancestry
        source = self.bases.current(ancestry.source.branch).manifest.log
        heads = (
            find_effective(source, ancestry.source),
            find_effective(manifest.log, ancestry.target),
        )
        branches = (ancestry.source.branch, manifest.branch)
        logs = (source, manifest.log)
        for branch, log, seen, head in zip(branches, logs, self.expected, heads, strict=True):
            if seen is not None and find_effective_id(log, seen) != head:
                raise HeadMoved(branch, expected=seen, actual=head)
        return heads

    def _check(
        self, rule: MergeRule, heads: Heads, open_merged: OpenMerged
    ) -> tuple[ProposalCheck, ...]:
        if not rule.checks:
            return ()
        if heads not in self._checked:
            with open_merged() as merged:
                self._checked[heads] = self.run_checks(rule, heads, merged)
            results = self._checked[heads]
            edit_proposal(self.objects, self.proposal_id, lambda each: each.with_checks(results))
        return self._checked[heads]


def _reason(result: ProposalCheck) -> str:
    if result.row_count is None:
        return f"check '{result.name}' could not run: {result.reason}"
    return f"check '{result.name}' found {counted(result.row_count, 'row')}"
