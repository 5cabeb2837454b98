"""Branches that are written and merged in all directions, against branches of dicts.

The model keeps every commit with its parents and its whole state, finds the states two branches
last agreed in by walking all of history, and merges row by row, cell by cell, as the rules say.
After every step every branch shows what the model says; a merge is refused exactly if the model's
is, and for the same reasons.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, event, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.merge import check, plan_rows
from omnigraph.engine.tables import row_refs
from omnigraph.errors import ConstraintViolation, MergeConflicts
from omnigraph.ids import BranchName
from omnigraph.pipeline.settings import MERGE_ROWS
from omnigraph.sdk.embedded import merging
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph
from support.crews import Neighbours
from support.mutations import read_tables

EXAMPLES = int(os.environ.get("OMNIGRAPH_MERGE_EXAMPLES", "4"))

SCHEMA = """
node Person { name: String @key  age: I64?  mail: String? @unique }
edge Knows: Person -> Person @card(0..2) { since: I64? }
"""
BRANCHES = ("main", "left", "right")
NAMES = ("ann", "bob", "carl")
EDGES = ("e1", "e2", "e3")

branches = st.sampled_from(BRANCHES)
names = st.sampled_from(NAMES)
numbers = st.integers(0, 2)
mails = st.sampled_from([None, "x", "y"])

Cells = tuple[tuple[str, Any], ...]
State = Mapping[tuple[str, str], Cells]
"""By type and id, what a row says."""


@dataclass
class Commit:
    parents: tuple[int, ...]
    state: State


@dataclass
class Model:
    commits: list[Commit] = field(default_factory=lambda: [Commit((), {})])
    heads: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BRANCHES, 0))

    def state(self, branch: str) -> State:
        return self.commits[self.heads[branch]].state

    def commit(self, branch: str, state: State, merged: str | None = None) -> None:
        more = () if merged is None else (self.heads[merged],)
        self.commits.append(Commit((self.heads[branch], *more), state))
        self.heads[branch] = len(self.commits) - 1

    def ancestors(self, commit: int) -> set[int]:
        found, unseen = {commit}, [commit]
        while unseen:
            parents = set(self.commits[unseen.pop()].parents) - found
            found |= parents
            unseen += parents
        return found

    def bases(self, source: str, target: str) -> list[int]:
        common = self.ancestors(self.heads[source]) & self.ancestors(self.heads[target])
        return [
            one
            for one in common
            if not any(one in self.ancestors(two) for two in common if two != one)
        ]


def merged(
    bases: list[State], ours: State, theirs: State, *, detect: str, side: str | None
) -> tuple[State, set[tuple[str, str]]]:
    """The state of the target, and the conflicts, by kind and row."""
    result = dict(ours)
    conflicts = set()
    for row in {*ours, *theirs, *(each for base in bases for each in base)}:
        was, is_, will = {base.get(row) for base in bases}, ours.get(row), theirs.get(row)
        if is_ == will or was == {will}:
            continue
        kind = None
        if len(was) > 1:
            kind = "ambiguous_base"
        elif was != {is_}:
            kind = "delete_vs_update" if None in (is_, will) else "divergent_update"
            kind = "divergent_insert" if was == {None} else kind
        chosen = will
        if kind in ("divergent_update", "divergent_insert") and detect == "property":
            assert is_ is not None
            assert will is not None
            chosen, kind = blended(was.pop(), is_, will, side, kind)
        elif kind is not None and side is not None:
            chosen, kind = (is_ if side == "ours" else will), None
        if kind is not None:
            conflicts.add((kind, row[1]))
        elif chosen is None:
            result.pop(row, None)
        else:
            result[row] = chosen
    return result, conflicts


def blended(
    base: Cells | None, ours: Cells, theirs: Cells, side: str | None, kind: str
) -> tuple[Cells, str | None]:
    was = dict(base or ())
    cells = dict(ours)
    for name, value in theirs:
        before = was.get(name, "absent")
        if value in (cells[name], before):
            continue
        if cells[name] == before or side == "theirs":
            cells[name] = value
        elif side is None:
            return ours, kind
    return tuple(sorted(cells.items())), None


@dataclass(frozen=True)
class Fault:
    """What the merged graph breaks."""

    kind: str
    named: str
    rows: frozenset[tuple[str, str]]
    """With these as either branch has them, it is not broken."""


def faults(state: State, *sides: State) -> Iterator[Fault]:
    mails: dict[str, set[tuple[str, str]]] = {}
    sources: dict[str, int] = {}
    for (kind, row_id), cells in state.items():
        row = dict(cells)
        if kind == "Person" and row["mail"] is not None:
            mails.setdefault(row["mail"], set()).add((kind, row_id))
        if kind == "Knows":
            sources[row["src"]] = sources.get(row["src"], 0) + 1
            for end in ("src", "dst"):
                node = ("Person", row[end])
                if node not in state:
                    yield Fault("orphan_edge", row_id, frozenset({(kind, row_id), node}))
    for holders in mails.values():
        if len(holders) > 1:
            yield Fault("unique_violation", "", frozenset(holders))
    for source, count in sources.items():
        if count > 2 and ("Person", source) in state:
            edges = {
                row
                for side in sides
                for row, cells in side.items()
                if row[0] == "Knows" and dict(cells)["src"] == source
            }
            yield Fault("cardinality_violation", source, frozenset(edges))


def mended(state: State, ours: State, theirs: State, side: str) -> State:
    """Have whatever breaks a rule as one branch has it, until nothing does."""
    chosen = ours if side == "ours" else theirs
    mended = dict(state)
    while rows := {row for fault in faults(mended, ours, theirs) for row in fault.rows}:
        for row in rows:
            mended.pop(row, None)
            if row in chosen:
                mended[row] = chosen[row]
    return mended


class Merges(RuleBasedStateMachine):
    folder: Path

    @initialize()
    def begin(self) -> None:
        self.folder = Path(mkdtemp(prefix="omnigraph-merges-"))
        uri = self.folder / "g"
        omnigraph.init(uri, SCHEMA, durability=Durability.RELAXED)
        self.graph = omnigraph.open(uri, durability=Durability.RELAXED, maintenance=False)
        self.model = Model()
        for name in NAMES[:2]:
            self.put("main", name, 0, None)
        self.link("main", "e1", "ann", "bob", 0)
        for branch in BRANCHES[1:]:
            self.graph.branches.create(branch)
            self.model.heads[branch] = self.model.heads["main"]

    @rule(branch=branches, name=names, age=numbers, mail=mails)
    def put(self, branch: str, name: str, age: int, mail: str | None) -> None:
        state = dict(self.model.state(branch))
        state["Person", name] = (("age", age), ("mail", mail), ("name", name))
        row = {"name": name, "age": age, "mail": mail}
        self._write(branch, state, lambda: self.graph.upsert("Person", [row], branch=branch))

    @rule(branch=branches, edge=st.sampled_from(EDGES), one=names, two=names, since=numbers)
    def link(self, branch: str, edge: str, one: str, two: str, since: int) -> None:
        state = dict(self.model.state(branch))
        state["Knows", edge] = (("dst", two), ("since", since), ("src", one))
        row = {"id": edge, "from": one, "to": two, "since": since}
        self._write(branch, state, lambda: self.graph.upsert("Knows", [row], branch=branch))

    @rule(branch=branches, name=names)
    def drop(self, branch: str, name: str) -> None:
        state = {
            row: cells
            for row, cells in self.model.state(branch).items()
            if row != ("Person", name)
            and name not in (dict(cells).get("src"), dict(cells).get("dst"))
        }
        self._write(branch, state, lambda: self.graph.delete("Person", [name], branch=branch))

    @rule(branch=branches, edge=st.sampled_from(EDGES))
    def unlink(self, branch: str, edge: str) -> None:
        state = dict(self.model.state(branch))
        state.pop(("Knows", edge), None)
        self._write(branch, state, lambda: self.graph.delete("Knows", [edge], branch=branch))

    def _write(self, branch: str, state: State, write: Any) -> None:
        if any(faults(state)):
            with pytest.raises(ConstraintViolation):
                write()
        elif write().commit is not None:
            self.model.commit(branch, state)

    @rule(
        source=branches,
        into=branches,
        detect=st.sampled_from(["row", "property"]),
        side=st.sampled_from([None, None, "ours", "theirs"]),
    )
    def merge(self, source: str, into: str, detect: str, side: str | None) -> None:
        target = into
        if source == target:
            return
        model = self.model
        bases = model.bases(source, target)
        if model.heads[source] in bases:
            assert self.graph.merge(source, target).outcome == "already_up_to_date"
            return
        states = [model.commits[each].state for each in bases]
        result, conflicts = merged(
            states, model.state(target), model.state(source), detect=detect, side=side
        )
        sides = model.state(target), model.state(source)
        if not conflicts and side is not None:
            if (before := result) != (result := mended(result, *sides, side)):
                event(f"mended by {side}: {sorted({each.kind for each in faults(before, *sides)})}")
        elif not conflicts:
            conflicts = {(each.kind, each.named) for each in faults(result, *sides)}
        try:
            found = self.graph.merge(source, target, detect=detect, on_conflict=side)
        except MergeConflicts as refused:
            self._compare(refused, conflicts)
            return
        assert conflicts == set()
        event(f"{found.outcome}, {len(bases)} bases")
        is_forward = bases == [model.heads[target]]
        assert found.outcome == ("fast_forward" if is_forward else "merged")
        model.commit(target, result, merged=source)

    @rule(age=numbers, one=names, two=names, detect=st.sampled_from(["row", "property"]))
    def cross(self, age: int, one: str, two: str, detect: str) -> None:
        """Merge crosswise, so that the branches last agreed in two states at once."""
        self.put("left", one, age, None)
        self.put("right", two, age + 1, None)
        self.merge("right", "main", detect, "theirs")
        self.merge("left", "right", detect, "ours")
        self.merge("main", "left", detect, "theirs")
        self.put("left", one, age + 2, None)
        self.merge("left", "right", detect, None)

    @rule(
        mail=st.sampled_from(["x", "y"]),
        gone=names,
        source=st.sampled_from(["left", "right"]),
        detect=st.sampled_from(["row", "property"]),
        side=st.sampled_from(["ours", "theirs"]),
    )
    def tear(self, mail: str, gone: str, source: str, detect: str, side: str) -> None:
        """Change two branches so that each is right and both together are not."""
        self.put("main", "carl", 1, None)
        self.merge("main", source, detect, "theirs")
        self.merge(source, "main", detect, "theirs")
        self.put(source, "ann", 1, mail)
        self.put("main", "carl", 2, mail)
        self.link(source, "e1", "bob", "ann", 1)
        self.link(source, "e2", "bob", "carl", 1)
        self.link("main", "e3", "bob", "carl", 2)
        self.drop("main" if mail == "x" else source, gone)
        self.merge(source, "main", detect, side)

    def _compare(self, refused: MergeConflicts, expected: set[tuple[str, str]]) -> None:
        """Broken rules of the schema are judged by the whole; with conflicts between rows there is
        no whole yet, so then only those are compared.
        """
        told = {
            (str(each.kind), "" if each.kind == "unique_violation" else str(each.row_id))
            for each in refused.conflicts
        }
        between = {"divergent_insert", "divergent_update", "delete_vs_update", "ambiguous_base"}
        event(f"refused: {sorted({kind for kind, _ in told})}")
        if any(kind in between for kind, _ in expected):
            assert {each for each in told if each[0] in between} == expected
        else:
            assert told == expected

    @invariant()
    def every_branch_shows_what_the_model_says(self) -> None:
        if not hasattr(self, "graph"):
            return
        stores = open_stores(self.graph.uri, REAL, durability=Durability.RELAXED)
        for branch in self.graph.branches.list():
            shown = read_tables(self.graph._graph, stores, BranchName(branch))
            state = {
                (kind, row_id): tuple(sorted(row.items()))
                for kind, rows in shown.items()
                for row_id, row in rows.items()
            }
            assert state == self.model.state(branch), branch

    def teardown(self) -> None:
        if hasattr(self, "model"):
            stores = open_stores(str(self.folder / "g"), REAL, durability=Durability.RELAXED)
            assert check_graph(stores) == []
            shutil.rmtree(self.folder)


def share_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every merge done by the tasks of workers, however small it is."""
    neighbours = Neighbours()
    monkeypatch.setenv(MERGE_ROWS.name, "0")
    monkeypatch.setattr(merging.SparkMergeBulk, "open", lambda _, job: neighbours.open(job))


@pytest.mark.parametrize("size", ["usual", "tiny", "shared out"])
def test_branches_merged_in_all_directions_agree_with_the_model(
    size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with everything done in tiny portions, and found as if there were very much of it; and
    decided and written by tasks, as on Spark.
    """
    if size == "shared out":
        share_out(monkeypatch)
    if size == "tiny":
        monkeypatch.setattr(plan_rows, "CONTESTED_AT_A_TIME", 2)
        monkeypatch.setattr(row_refs, "KEYS_SPELLED_MAX", 1)
        monkeypatch.setattr(row_refs, "ROWS_MAX", 1)
        monkeypatch.setattr(check, "RIVALS_SPELLED_MAX", 0)
        monkeypatch.setattr(check, "ROWS_AT_A_TIME", 1)
    run_state_machine_as_test(
        Merges,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
