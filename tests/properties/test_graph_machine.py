"""A graph against a graph of dicts, with deaths among the things that happen.

Branches come and go, writes of every kind land or are refused, processes die in the middle, notes
are healed, tables are tidied up, and the graph is opened anew; in any order. After every step every
branch shows exactly what the dicts hold. After a death it may show what was there before or what
was meant; which of the two, its history tells, because every write signs with a name of its own.
"""

import os
import shutil
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, event, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from omnigraph.commit.recovery.heal import heal
from omnigraph.errors import BranchInUse, ConstraintViolation
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.testing.faults import Crash, CrashAt, When
from omnigraph.testing.invariants import check_graph
from support.breaking import (
    COMPANY,
    KNOWS,
    PERSON,
    WORKS,
    Ask,
    BreakableGraph,
    check_lasting,
    find_audit_faults,
    find_debris,
    open_mortal,
    populate,
    stores_at,
)

PEOPLE = ("ann", "bob", "carl", "dora")
names = st.sampled_from(PEOPLE)
ages = st.integers(0, 3)
places = st.integers(0, 2)
"""Which of the branches there are."""


@dataclass
class Model:
    """What a branch should hold."""

    people: dict[str, int]
    companies: set[str]
    knows: Counter[tuple[str, str, int | None]]
    works: Counter[tuple[str, str]]

    def apply(self, ask: Ask) -> None:
        """Raises KeyError where an edge would have no end."""
        at = ask.params
        match ask.query:
            case "put":
                self.people[str(at["name"])] = int(at["age"])
            case "age":
                if at["name"] in self.people:
                    self.people[str(at["name"])] = int(at["age"])
            case "drop":
                gone = str(at["name"])
                self.people.pop(gone, None)
                for edge in [each for each in self.knows if gone in each[:2]]:
                    del self.knows[edge]
                for work in [each for each in self.works if gone == each[0]]:
                    del self.works[work]
            case "link":
                one, two = str(at["a"]), str(at["b"])
                _ = self.people[one], self.people[two]
                self.knows[one, two, int(at["n"])] += 1
            case "pair":
                self.people[str(at["a"])] = 1
                self.companies.add(str(at["a"]))
            case query:
                raise AssertionError(query)


def populated() -> Model:
    return Model(
        {"ann": 30, "bob": 40, "carl": 50},
        {"acme"},
        Counter({("ann", "bob", 1): 1, ("bob", "bob", 2): 1}),
        Counter({("ann", "acme"): 1}),
    )


asks = st.one_of(
    st.builds(lambda name, age: Ask("put", {"name": name, "age": age}), names, ages),
    st.builds(lambda name, age: Ask("age", {"name": name, "age": age}), names, ages),
    st.builds(lambda name: Ask("drop", {"name": name}), names),
    st.builds(lambda a, b, n: Ask("link", {"a": a, "b": b, "n": n}), names, names, ages),
    st.builds(lambda name: Ask("pair", {"a": name}), names),
)


def read_model(graph: BreakableGraph, branch: BranchName) -> Model:
    """What a branch shows."""
    snapshot = graph.snapshot(branch)

    def rows(key: TableKey) -> list[dict[str, Any]]:
        return graph.context.stores.tables.read(graph.open_table(snapshot, key)).to_pylist()

    people, companies = rows(PERSON), rows(COMPANY)
    shown = Model(
        {each["name"]: each["age"] for each in people},
        {each["name"] for each in companies},
        Counter((each["src"], each["dst"], each["since"]) for each in rows(KNOWS)),
        Counter((each["src"], each["dst"]) for each in rows(WORKS)),
    )
    assert (len(shown.people), len(shown.companies)) == (len(people), len(companies))
    return shown


class GraphMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="omnigraph-machine-"))
        self.root = self.folder / "g"
        populate(self.root)
        self.graph = open_mortal(self.root)
        self.models: dict[BranchName, Model] = {MAIN: populated()}
        self.writes = 0

    def branch_at(self, place: int) -> BranchName:
        return sorted(self.models)[place % len(self.models)]

    def sign(self) -> str:
        self.writes += 1
        return f"write-{self.writes}"

    def foretell(self, branch: BranchName, ask: Ask) -> Model | None:
        """What a branch will hold; None if the write must be refused."""
        model = deepcopy(self.models[branch])
        try:
            model.apply(ask)
        except KeyError:
            return None
        return model

    def attempt(self, branch: BranchName, ask: Ask, fault: CrashAt | None = None) -> str | None:
        """Write, and compare with what was foretold. Returns who died, if somebody did."""
        expected, actor = self.foretell(branch, ask), self.sign()
        graph = self.graph if fault is None else open_mortal(self.root, fault)
        try:
            graph.ask(ask, branch, actor=actor)
        except ConstraintViolation:
            assert expected is None, "refused, though nothing is wrong with it"
        except Crash:
            return actor
        else:
            assert expected is not None, "an edge without an end"
            self.models[branch] = expected
        return None

    def settle(self, branch: BranchName, ask: Ask, actor: str) -> None:
        """The writer is dead: once healed, what it meant is there, or nothing of it is."""
        heal(self.graph.context)
        if actor not in {each.actor for each in self.graph.commits(branch)}:
            event("died, and nothing is there")
            return
        event("died, and all is there")
        expected = self.foretell(branch, ask)
        assert expected is not None
        self.models[branch] = expected

    # writing

    @rule(place=places, ask=asks)
    def write(self, place: int, ask: Ask) -> None:
        self.attempt(self.branch_at(place), ask)

    @rule(place=places, ask=asks, step=st.integers(1, 20), when=st.sampled_from(When))
    def die_writing(self, place: int, ask: Ask, step: int, when: When) -> None:
        branch = self.branch_at(place)
        actor = self.attempt(branch, ask, CrashAt(step, when))
        if actor is not None:
            self.settle(branch, ask, actor)

    @rule(place=places, ask=asks, step=st.integers(4, 16), again=st.integers(1, 12))
    def die_writing_and_healing(self, place: int, ask: Ask, step: int, again: int) -> None:
        branch = self.branch_at(place)
        actor = self.attempt(branch, ask, CrashAt(step, When.AFTER))
        if actor is None:
            return
        try:
            heal(open_mortal(self.root, CrashAt(again, When.AFTER)).context)
        except Crash:
            event("died healing")
        self.settle(branch, ask, actor)

    @rule(place=places, key=st.sampled_from([PERSON, KNOWS]), step=st.integers(1, 20))
    def tidy(self, place: int, key: TableKey, step: int) -> None:
        try:
            done = open_mortal(self.root, CrashAt(step, When.AFTER)).tidy(
                key, self.branch_at(place)
            )
        except Crash:
            event("died tidying up")
            heal(self.graph.context)
        else:
            event("tidied up" if done else "all was tidy")

    @rule()
    def reopen(self) -> None:
        self.graph = open_mortal(self.root)
        assert self.graph.refresh() == ()

    # branches

    @rule(name=st.sampled_from(["left", "right"]), place=places)
    def make_branch(self, name: str, place: int) -> None:
        source = self.branch_at(place)
        if name not in self.models:
            self.models[self.graph.create_branch(name, source=source)] = deepcopy(
                self.models[source]
            )

    @rule(place=places)
    def delete_branch(self, place: int) -> None:
        branch = self.branch_at(place)
        if branch == MAIN:
            return
        try:
            self.graph.delete_branch(branch)
        except BranchInUse:
            assert len(self.models) == 3, "nobody is left who could use it"
        else:
            del self.models[branch]

    # what must hold

    @invariant()
    def every_branch_shows_what_the_dicts_hold(self) -> None:
        assert set(self.graph.branches()) == self.models.keys()
        for branch, model in self.models.items():
            assert read_model(self.graph, branch) == model, branch

    def teardown(self) -> None:
        try:
            stores = stores_at(self.root)
            assert check_graph(stores) == []
            assert list(find_debris(stores)) == []
            assert list(find_audit_faults(stores, lost_branches=True)) == []
            check_lasting(self.root)
        finally:
            shutil.rmtree(self.folder)


@pytest.fixture(autouse=True)
def _untidy_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few writes are enough for upkeep to have something to do."""
    monkeypatch.setattr("omnigraph.engine.write.upkeep.FRAGMENTS_MAX", 3)


def profile(*, examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


def test_a_graph_is_a_graph_of_dicts_whoever_dies() -> None:
    run_state_machine_as_test(GraphMachine, settings=profile(examples=8, steps=20))


@pytest.mark.slow
def test_a_graph_is_a_graph_of_dicts_whoever_dies_for_longer() -> None:
    examples = int(os.environ.get("OMNIGRAPH_GRAPH_EXAMPLES", "20"))
    run_state_machine_as_test(GraphMachine, settings=profile(examples=examples, steps=30))
