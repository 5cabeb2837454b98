"""What a proposal still lacks: missing approvals, failing checks, conflicts."""

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.engine.gate import MergeRule
from omnigraph.engine.proposals.proposal import Approval, Proposal, ProposalCheck, ProposalState
from omnigraph.ids import CommitId

MayApprove = Callable[[str | None], bool]
"""May this actor approve the proposal now?"""


@dataclass(frozen=True, slots=True)
class ProposalStanding:
    """A proposal as it stands at the present heads of its branches."""

    proposal: Proposal
    source_head: CommitId | None
    """None if the branch was deleted."""
    target_head: CommitId | None
    counted: frozenset[str | None] = frozenset()
    """The actors whose approval counts: of this head, and still allowed."""
    required_approvals: int = 0
    required_checks: tuple[str, ...] = ()
    conflict_count: int | None = None
    """None if it was not asked for."""

    def is_current(self, found: Approval | ProposalCheck) -> bool:
        """Does it hold for the present heads?"""
        if isinstance(found, Approval):
            return found.source_head == self.source_head
        return (found.source_head, found.target_head) == (self.source_head, self.target_head)

    @property
    def missing_approvals(self) -> int:
        return max(0, self.required_approvals - len(self.counted))

    @property
    def failing_checks(self) -> tuple[str, ...]:
        """The required checks that failed, or did not run for the present heads."""
        good = {each.name for each in self.proposal.checks if each.passed and self.is_current(each)}
        return tuple(each for each in self.required_checks if each not in good)

    @property
    def is_mergeable(self) -> bool:
        """Is nothing known that prevents the merge? It runs the checks again where needed."""
        is_open = self.proposal.state is ProposalState.OPEN
        has_branches = None not in (self.source_head, self.target_head)
        blocked = self.missing_approvals or self.failing_checks or self.conflict_count
        return is_open and has_branches and not blocked


def find_standing(
    proposal: Proposal,
    heads: tuple[CommitId | None, CommitId | None],
    rule: MergeRule | None,
    may_approve: MayApprove,
) -> ProposalStanding:
    """Measure a proposal by the rule of its target; None is the rule of an unprotected branch."""
    rule = rule or MergeRule(author_may_approve=True)
    counted = {
        each.actor
        for each in proposal.approvals
        if each.source_head == heads[0]
        and (rule.author_may_approve or each.actor != proposal.author)
        and may_approve(each.actor)
    }
    return ProposalStanding(
        proposal,
        *heads,
        counted=frozenset(counted),
        required_approvals=rule.approvals,
        required_checks=tuple(sorted(rule.checks)),
    )
