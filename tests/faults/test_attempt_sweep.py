"""Die at every single write of an attempt, and at every single write of its recovery.

Whatever dies wherever: the branch shows the old commit or the new one, whole; nothing is left over
and nothing dangles; and the next writer works, without anybody doing anything about it.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.commit.attempt import hold, run
from omnigraph.commit.audit import read_audit
from omnigraph.commit.base import Bases
from omnigraph.commit.change import Change, TableWrite, WriterKind
from omnigraph.commit.owner import Owner
from omnigraph.commit.recovery import heal
from omnigraph.commit.resolve import ACTOR
from omnigraph.commit.sidecars import find_sidecars
from omnigraph.commit.snapshot import open_pin
from omnigraph.commit.workbench import Workbench
from omnigraph.effects import REAL
from omnigraph.engine.opening import Settings, create
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Handle, Mark, Staged
from omnigraph.testing.faults import Crash, CrashAt, When, watch_stores
from omnigraph.testing.invariants import check_graph

SCHEMA = "node Person { name: String @key }  node Company { name: String @key }"
PERSON, COMPANY = TableKey("node:Person"), TableKey("node:Company")
SIDE = BranchName("side")


def stores_at(root: Path) -> Stores:
    return open_stores(str(root), REAL, durability=Durability.RELAXED)


def bench_of(stores: Stores) -> Workbench:
    """A writer whose process counts as dead as soon as it stops: every test process is alive."""
    return Workbench(stores, Bases(stores), owner=mortal())


def mortal() -> Owner:
    """A process of an earlier boot of this machine."""
    return Owner(host=socket.gethostname(), boot_id="another boot", pid=1, pid_start=1)


def appending(stores: Stores, name: str) -> Callable[[Handle, Mark], Staged]:
    def stage(handle: Handle, mark: Mark) -> Staged:
        rows = pa.table({"id": [name], "name": [name]}, schema=handle.schema)
        return stores.tables.stage_append(handle, rows, mark)

    return stage


def write(bench: Workbench, branch: BranchName, name: str) -> None:
    """Add one row to both tables, in one commit."""
    keys = (PERSON, COMPANY)
    heal(bench)
    with hold(bench, branch, keys) as held:
        pins = held.base.manifest.pins
        change = Change(
            WriterKind.MUTATION,
            branch,
            tuple(
                TableWrite(key, pins[key].version, (appending(bench.stores, name),)) for key in keys
            ),
            actor="writer",
        )
        run(held, change)


def names(stores: Stores, key: TableKey, branch: BranchName) -> set[str]:
    pin = Bases(stores).current(branch).manifest.pins[key]
    return {row["id"] for row in stores.tables.read(open_pin(stores, pin)).to_pylist()}


@dataclass(frozen=True)
class Case:
    """A graph to break, made anew for every death."""

    root: Path
    branch: BranchName

    def prepare(self) -> None:
        graph = create(str(self.root), SCHEMA, settings=Settings(durability=Durability.RELAXED))
        write(bench_of(stores_at(self.root)), MAIN, "first")
        if self.branch != MAIN:
            graph.create_branch(self.branch)

    def check(self) -> bool:
        """Everything that must hold, and whether the write is there."""
        stores = stores_at(self.root)
        people = names(stores, PERSON, self.branch)
        assert people == names(stores, COMPANY, self.branch), "half a commit is visible"
        assert people in ({"first"}, {"first", "second"})
        assert check_graph(stores) == []
        assert find_sidecars(stores.objects) == ()
        return "second" in people


@pytest.mark.parametrize("branch", [MAIN, SIDE])
@pytest.mark.parametrize("when", When)
def test_a_crash_anywhere_leaves_the_old_commit_or_the_new_one(
    tmp_path: Path, when: When, branch: BranchName
) -> None:
    seen = set()
    for step in count(1):
        case = Case(tmp_path / str(step), branch)
        case.prepare()
        survived = survives(case, lambda bench: write(bench, branch, "second"), step, when)
        if survived:
            assert case.check()
            break
        heal(bench_of(stores_at(case.root)))
        landed = case.check()
        seen.add(landed)
        write(bench_of(stores_at(case.root)), branch, "third")
        expected = {"first", "third"} | ({"second"} if landed else set())
        assert names(stores_at(case.root), PERSON, branch) == expected
        assert check_graph(stores_at(case.root)) == []
    assert seen == {True, False}


def survives(case: Case, work: Callable[[Workbench], object], step: int, when: When) -> bool:
    fault = CrashAt(step, when)
    try:
        work(bench_of(watch_stores(stores_at(case.root), fault)))
    except Crash:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("branch", [MAIN, SIDE])
@pytest.mark.parametrize("when", When)
def test_recovery_may_die_anywhere_too(tmp_path: Path, when: When, branch: BranchName) -> None:
    for step in count(1):
        for again in count(1):
            case = Case(tmp_path / f"{step}-{again}", branch)
            case.prepare()
            if survives(case, lambda bench: write(bench, branch, "second"), step, when):
                return
            recovered = survives(case, heal, again, when)
            heal(bench_of(stores_at(case.root)))
            case.check()
            if recovered:
                break


def test_a_recovery_is_recorded_once(tmp_path: Path) -> None:
    """Every death that leaves a sidecar leaves, in the end, one audit row and one commit."""
    for step in count(1):
        case = Case(tmp_path / str(step), MAIN)
        case.prepare()
        if survives(case, lambda bench: write(bench, MAIN, "second"), step, When.AFTER):
            break
        stores = stores_at(case.root)
        left = find_sidecars(stores.objects)
        heal(bench_of(stores))
        heal(bench_of(stores_at(case.root)))
        rows = read_audit(stores).to_pylist()
        commits = Bases(stores).current(MAIN).manifest.log.commits
        signed = [each for each in commits if each.actor == ACTOR]
        assert [row["operation_id"] for row in rows] == list(left)
        assert [row["graph_commit_id"] for row in rows] == [each.id for each in signed]
        assert {row["recovery_for_actor"] for row in rows} <= {"writer"}
