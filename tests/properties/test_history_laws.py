"""Random histories with merges, against a model that writes down who set every property.

The model holds, for each branch, each row with the commit that set each of its properties, and all
states the branch went through. Blame, the revisions of a row, reverts and cherry-picks of the graph
must agree with it.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

import omnigraph
from omnigraph.engine.graph import Graph
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.merge.rulings import Detect, Rulings, Side
from omnigraph.engine.merge.sources import Pick, PickKind
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.storage.durability import Durability

EXAMPLES = int(os.environ.get("OMNIGRAPH_HISTORY_EXAMPLES", "12"))

SCHEMA = "node Person { name: String @key  age: I64?  town: String? }"
SIDE = BranchName("side")
NAMES = ("ann", "bob", "carl")

Row = dict[str, tuple[Any, CommitId]]
"""By property: the value, and the commit that set it."""
State = dict[str, Row]
Image = dict[str, Any] | None

writes = st.tuples(
    st.just("put"),
    st.sampled_from([MAIN, SIDE]),
    st.sampled_from(NAMES),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "x", "y"]),
)
deletes = st.tuples(st.just("drop"), st.sampled_from([MAIN, SIDE]), st.sampled_from(NAMES))
merges = st.tuples(st.just("merge"), st.sampled_from([MAIN, SIDE]))
steps = st.lists(st.one_of(writes, writes, deletes, merges), min_size=3, max_size=14)


@dataclass
class Model:
    heads: dict[BranchName, State] = field(default_factory=lambda: {MAIN: {}, SIDE: {}})
    past: dict[BranchName, list[tuple[CommitId, State]]] = field(
        default_factory=lambda: {MAIN: [], SIDE: []}
    )

    def commit(self, branch: BranchName, commit_id: CommitId, state: State) -> None:
        self.heads[branch] = state
        self.past[branch].append((commit_id, state))

    def put(self, branch: BranchName, commit_id: CommitId, row: Mapping[str, Any]) -> None:
        old = self.heads[branch].get(row["name"], {})
        new = {
            name: old[name] if name in old and old[name][0] == value else (value, commit_id)
            for name, value in row.items()
        }
        self.commit(branch, commit_id, {**self.heads[branch], row["name"]: new})

    def drop(self, branch: BranchName, commit_id: CommitId, name: str) -> None:
        left = {key: row for key, row in self.heads[branch].items() if key != name}
        self.commit(branch, commit_id, left)

    def merge(self, into: BranchName, commit_id: CommitId, shown: Mapping[str, Any]) -> None:
        """The merge decided; a value that the target did not have came from where it is set."""
        ours = self.heads[into]
        theirs = self.heads[SIDE if into == MAIN else MAIN]
        merged: State = {}
        for name, row in shown.items():
            merged[name] = {}
            for key, value in row.items():
                sources = (ours.get(name, {}), theirs.get(name, {}))
                known = [each[key] for each in sources if key in each and each[key][0] == value]
                merged[name][key] = known[0] if known else (value, commit_id)
        self.commit(into, commit_id, merged)


@dataclass
class World:
    graph: omnigraph.LocalGraph
    engine: Graph
    model: Model = field(default_factory=Model)

    def shown(self, branch: BranchName) -> dict[str, dict[str, Any]]:
        rows = self.graph.query(
            "query q() { match { $p: Person } return { $p.name as name, $p.age as age, "
            "$p.town as town } }",
            branch=branch,
        ).rows()
        return {str(row["name"]): dict(row) for row in rows}

    def run(self, step: Sequence[Any]) -> None:
        match step:
            case ("put", branch, name, age, town):
                row = {"name": name, "age": age, "town": town}
                commit = self.graph.upsert("Person", [row], branch=branch).commit
                if commit is not None:
                    self.model.put(branch, commit.id, row)
            case ("drop", branch, name):
                commit = self.graph.delete("Person", [name], branch=branch).commit
                if commit is not None:
                    self.model.drop(branch, commit.id, name)
            case ("merge", into):
                source = SIDE if into == MAIN else MAIN
                rulings = Rulings(Detect.PROPERTY, {"": Side.OURS})
                merged = self.engine.merge(MergeRequest(source, into, rulings=rulings))
                if merged.commit is not None:
                    self.model.merge(into, merged.commit.id, self.shown(into))
            case _:
                raise AssertionError(step)


def in_a_world(check: Callable[[World], None], taken: Sequence[Sequence[Any]]) -> None:
    folder = Path(mkdtemp())
    try:
        graph = omnigraph.init(folder / "g", SCHEMA, durability=Durability.RELAXED)
        graph.branches.create(SIDE)
        world = World(graph, graph._graph)
        for step in taken:
            world.run(step)
        check(world)
        graph.close()
    finally:
        shutil.rmtree(folder)


untimed = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))


@untimed
@given(steps)
def test_blame_names_the_commit_that_set_each_property(taken: Sequence[Sequence[Any]]) -> None:
    def check(world: World) -> None:
        for branch, state in world.model.heads.items():
            for name in NAMES:
                origins = world.engine.blame("Person", name, branch)
                told = {each.name: (each.value, each.commit and each.commit.id) for each in origins}
                assert told == state.get(name, {})

    in_a_world(check, taken)


@untimed
@given(steps)
def test_the_revisions_of_a_row_are_the_states_it_went_through(
    taken: Sequence[Sequence[Any]],
) -> None:
    def check(world: World) -> None:
        for branch, past in world.model.past.items():
            for name in NAMES:
                expected: list[tuple[CommitId, Image, Image]] = []
                before: Image = None
                for commit_id, state in past:
                    row = state.get(name)
                    after = None if row is None else {key: each[0] for key, each in row.items()}
                    if after != before:
                        expected.append((commit_id, before, after))
                    before = after
                found = world.engine.revisions("Person", name, branch)
                told = [(each.commit.id, each.before, each.after) for each in found]
                assert told == expected[::-1]

    in_a_world(check, taken)


@untimed
@given(steps)
def test_reverting_the_head_twice_changes_nothing(taken: Sequence[Sequence[Any]]) -> None:
    def check(world: World) -> None:
        head = world.graph.commits()[0]
        if head.parent is None:
            return
        now = world.shown(MAIN)
        first = pick(world.engine, PickKind.REVERT, head.id)
        assert not world.graph.diff(head.parent, "main").counts
        if first is not None:
            pick(world.engine, PickKind.REVERT, first)
        assert world.shown(MAIN) == now

    in_a_world(check, taken)


@untimed
@given(st.lists(st.one_of(writes, deletes), min_size=1, max_size=8))
def test_picking_every_commit_of_a_branch_is_a_fast_forward(
    taken: Sequence[Sequence[Any]],
) -> None:
    def check(world: World) -> None:
        for commit_id, _ in world.model.past[SIDE]:
            pick(world.engine, PickKind.CHERRY_PICK, commit_id)
        assert world.shown(MAIN) == world.shown(SIDE)

    in_a_world(check, [(each[0], SIDE, *each[2:]) for each in taken])


def pick(engine: Graph, kind: PickKind, commit_id: CommitId) -> CommitId | None:
    chosen = Pick(kind, commit_id, mainline=None)
    if engine.commit(commit_id).merged_parent is not None:
        chosen = Pick(kind, commit_id, mainline=1)
    commit = engine.pick(chosen, MergeRequest(chosen.label, MAIN)).commit
    return None if commit is None else commit.id
