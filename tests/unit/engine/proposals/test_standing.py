"""Which approvals and checks of a proposal count at given heads (D39)."""

import pytest

from omnigraph.engine.gate import MergeRule
from omnigraph.engine.proposals.proposal import Approval, Proposal, ProposalCheck
from omnigraph.engine.proposals.standing import ProposalStanding, find_standing
from omnigraph.ids import BranchName, CommitId

OLD, NEW, MAIN, MOVED = (CommitId(each) for each in ("old", "new", "main", "moved"))
PROPOSAL = Proposal(
    id="p",
    title="t",
    text="",
    source=BranchName("work"),
    target=BranchName("main"),
    author="ann",
    created_at_us=1,
    approvals=(Approval("ann", 1, NEW), Approval("bob", 1, NEW), Approval("cyd", 1, OLD)),
    checks=(ProposalCheck("fine", 0, NEW, MAIN, 1), ProposalCheck("rows", 2, NEW, MAIN, 1)),
)


def stand(
    rule: MergeRule,
    *,
    source: CommitId = NEW,
    target: CommitId = MAIN,
    approvers: str = "ann bob cyd",
) -> ProposalStanding:
    return find_standing(PROPOSAL, (source, target), rule, lambda actor: str(actor) in approvers)


def test_an_approval_counts_for_the_head_that_was_approved() -> None:
    assert stand(MergeRule(2)).counted == {"bob"}
    assert stand(MergeRule(2), source=OLD).counted == {"cyd"}
    assert stand(MergeRule(2), target=MOVED).missing_approvals == 1


def test_the_author_counts_only_if_the_rule_says_so() -> None:
    assert stand(MergeRule(2, author_may_approve=True)).counted == {"ann", "bob"}


def test_an_approval_does_not_outlive_the_right_to_approve() -> None:
    assert stand(MergeRule(2), approvers="ann cyd").counted == frozenset()


@pytest.mark.parametrize(("source", "target"), [(OLD, MAIN), (NEW, MOVED)])
def test_a_check_holds_for_both_heads(source: CommitId, target: CommitId) -> None:
    rule = MergeRule(checks={"fine": None, "rows": None})
    assert stand(rule).failing_checks == ("rows",)
    assert stand(rule, source=source, target=target).failing_checks == ("fine", "rows")
