"""Proposals against a model: concurrent edits, moved heads, revoked rights.

Two open graphs act in turns, as two processes would. The model knows which approvals hold and what
the checks find; the graphs must agree with it after every step.
"""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import omnigraph
from omnigraph.engine.gate import Action, MergeRule
from omnigraph.engine.opening import open_graph
from omnigraph.engine.proposals.proposal import ProposalState
from omnigraph.errors import Forbidden, ProposalBlocked, ProposalNotOpen
from omnigraph.ids import BranchName
from omnigraph.lang.source import Source
from omnigraph.sdk.embedded.graph import LocalGraph

EXAMPLES = int(os.environ.get("OMNIGRAPH_MACHINE_EXAMPLES", "3"))
SCHEMA = "node Person { name: String @key  age: I32? }"
CHECK = Source("c", "query minors() { match { $p: Person  $p.age < 18 } return { $p.name } }")
REVIEWERS = ("dana", "lee", "kim")


class ProposalMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.root = str(Path(self.folder.name) / "g")
        self.writer = omnigraph.init(self.root, SCHEMA)
        self.writer.branches.create("work")
        self.rights = set(REVIEWERS)
        self.graphs = [self.open(), self.open()]
        self.people: dict[str, dict[str, int]] = {"main": {}, "work": {}}
        self.approved: set[str] = set()
        self.comments = 0
        self.proposal: str | None = None
        self.has_news = False

    def open(self) -> LocalGraph:
        return LocalGraph(open_graph(self.root, gate=self.ask, find_rule=self.find_rule))

    def ask(
        self,
        actor: str | None,
        action: Action,
        branch: BranchName | None,
        target: BranchName | None = None,
    ) -> None:
        if action is Action.APPROVE and actor not in self.rights:
            raise Forbidden(actor, action=action, branch=target or branch)

    def find_rule(self, branch: BranchName) -> MergeRule | None:
        return MergeRule(2, checks={"minors": CHECK}) if branch == "main" else None

    @rule(branch=st.sampled_from(["main", "work"]), age=st.integers(15, 22), at=st.integers(0, 1))
    def write(self, branch: str, age: int, at: int) -> None:
        """The writer opens the files itself; the protected graphs must refuse main."""
        name = f"p{sum(map(len, self.people.values()))}-{branch}"
        if branch == "main":
            with pytest.raises(Forbidden):
                self.graphs[at].insert("Person", [{"name": name}])
        self.writer.insert("Person", [{"name": name, "age": age}], branch=branch)
        self.people[branch][name] = age
        if branch == "work":
            self.approved.clear()
            self.has_news = True

    @rule(branch=st.sampled_from(["main", "work"]))
    def tidy(self, branch: str) -> None:
        self.writer.optimize(branch)

    @rule(actor=st.sampled_from(REVIEWERS))
    def revoke_or_grant(self, actor: str) -> None:
        self.rights ^= {actor}

    @precondition(lambda self: self.proposal is None)
    @rule()
    def propose(self) -> None:
        self.proposal = self.graphs[0].proposals.open("work", title="x", actor="dana").proposal.id
        self.approved.clear()
        self.comments = 0

    @precondition(lambda self: self.proposal is not None)
    @rule(actor=st.sampled_from(REVIEWERS), at=st.integers(0, 1))
    def approve(self, actor: str, at: int) -> None:
        assert self.proposal is not None
        if actor == "dana" or actor not in self.rights:
            with pytest.raises(Forbidden):
                self.graphs[at].proposals.approve(self.proposal, actor=actor)
            return
        self.graphs[at].proposals.approve(self.proposal, actor=actor)
        self.approved.add(actor)

    @precondition(lambda self: self.proposal is not None)
    @rule()
    def comment_at_once(self) -> None:
        proposal = self.proposal
        assert proposal is not None
        with ThreadPoolExecutor(4) as pool:
            list(
                pool.map(
                    lambda at: self.graphs[at % 2].proposals.comment(proposal, f"c{at}"), range(4)
                )
            )
        self.comments += 4

    @precondition(lambda self: self.proposal is not None)
    @rule(at=st.integers(0, 1))
    def merge(self, at: int) -> None:
        assert self.proposal is not None
        merged = self.people["main"] | self.people["work"]
        is_fit = self.has_news and len(self.approved & self.rights) >= 2
        if not is_fit or any(age < 18 for age in merged.values()):
            with pytest.raises(ProposalBlocked):
                self.graphs[at].proposals.merge(self.proposal, actor="dana")
            return
        self.graphs[at].proposals.merge(self.proposal, actor="dana")
        self.people["main"] = merged
        for each in self.graphs:
            with pytest.raises(ProposalNotOpen):
                each.proposals.merge(self.proposal, actor="dana")
        self.proposal, self.has_news = None, False

    @precondition(lambda self: self.proposal is not None)
    @rule(at=st.integers(0, 1))
    def close(self, at: int) -> None:
        assert self.proposal is not None
        self.graphs[at].proposals.close(self.proposal, actor="dana")
        assert self.graphs[1 - at].proposals.show(self.proposal).proposal.state == "closed"
        self.proposal = None

    @invariant()
    def both_graphs_agree_with_the_model(self) -> None:
        for each in self.graphs:
            rows = each.query("query q() { match { $p: Person } return { $p.name as n } }").rows()
            assert {row["n"] for row in rows} == self.people["main"].keys()
            opened = [one.id for one in each.proposals.list(state="open")]
            assert opened == ([] if self.proposal is None else [self.proposal])
            if self.proposal is not None:
                shown = each.proposals.show(self.proposal)
                assert shown.counted == self.approved & self.rights
                assert len(shown.proposal.comments) == self.comments
                assert shown.proposal.state is ProposalState.OPEN

    def teardown(self) -> None:
        self.folder.cleanup()


@pytest.mark.slow
def test_proposals_follow_their_model() -> None:
    run_state_machine_as_test(
        ProposalMachine,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=15, deadline=None, print_blob=True
        ),
    )
