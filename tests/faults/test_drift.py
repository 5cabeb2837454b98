"""Tables that move without us: rows of another tool, bytes of the dead, what a power cut tore.

Nothing foreign is ever published by a write, and nothing of ours that is over by anybody (D38).
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import lance
import pyarrow as pa
import pytest

from omnigraph.cli.app import run as run_command
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.recovery.classify import OPERATION
from omnigraph.commit.recovery.drift import DriftClass, inspect_drift
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars, remove_sidecar
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.maintain.doctor import REPAIR, RESOLVE, examine
from omnigraph.engine.maintain.repair import RepairAction, RepairRequest, RepairResult
from omnigraph.engine.opening import open_in
from omnigraph.errors import DriftFound
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.storage.layout import version_file
from omnigraph.storage.tables import (
    IndexKind,
    IndexScope,
    IndexSpec,
    Mark,
    TableRef,
    TableSettings,
)
from omnigraph.testing.failpoints import COMMIT, SWAP, At, Trigger, crash, kill
from omnigraph.testing.faults import Crash, CrashOn, When, watch_stores
from omnigraph.testing.invariants import check_graph
from support.processes import Died, Process, Raised, launch
from support.writing import (
    COMPANY,
    PERSON,
    bench_of,
    mortal_bench,
    names_in,
    new_graph,
    stores_at,
    write,
)

SIDE: Final = BranchName("side")
FORCED: Final = RepairRequest(is_confirmed=True, is_forced=True)
DISCARDED: Final = RepairRequest(is_confirmed=True, is_discarded=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_graph(tmp_path / "g")
    write(mortal_bench(stores_at(tmp_path / "g")), "first")
    return tmp_path / "g"


def pin_of(root: Path, key: TableKey) -> Pin:
    return Bases(stores_at(root)).current(MAIN).manifest.pins[key]


def append_foreign(root: Path, key: TableKey, name: str = "foreign") -> None:
    """As another tool would: a bare append, which no guard of ours conflicts with."""
    dataset = lance.dataset(str(root / pin_of(root, key).path))
    lance.write_dataset(
        pa.table({"id": [name], "name": [name]}, schema=dataset.schema), dataset, mode="append"
    )


def newest_names(root: Path, key: TableKey) -> set[str]:
    """What the newest version of a table holds, shown or not."""
    stores = stores_at(root)
    rows = stores.tables.read(stores.tables.open_at(TableRef(pin_of(root, key).path)))
    return {row["id"] for row in rows.to_pylist()}


def class_of(root: Path, key: TableKey) -> DriftClass:
    stores = stores_at(root)
    return inspect_drift(
        stores, Bases(stores).current(MAIN).manifest, pin_of(root, key)
    ).drift_class


def opened(root: Path) -> Graph:
    return open_in(stores_at(root), Mode.READ_WRITE)


def action_of(result: RepairResult, key: TableKey) -> RepairAction:
    return next(each.action for each in result.tables if each.key == key)


# ── rows of another tool ─────────────────────────────────────────────────────────────────────────


def freeze(where: str) -> None:  # noqa: ARG001 - where it is, the parent knows
    os.kill(os.getpid(), signal.SIGSTOP)


def write_watched(root: Path, act: Callable[[str], object], at: At) -> None:
    write(bench_of(watch_stores(stores_at(root), Trigger(at, act))), "ours")


def frozen_before(root: Path, at: At) -> Process[None]:
    """A writer that has staged its rows and stands before a table commit."""
    writer = launch(write_watched, root, freeze, at)
    writer.await_ready()
    writer.begin()
    state = Path(f"/proc/{writer.pid}/stat")
    for _ in range(4000):
        if state.read_text().rpartition(")")[2].split()[0] == "T":
            return writer
        time.sleep(0.005)
    raise AssertionError("it never froze")


@pytest.mark.parametrize(("nth", "key"), [(1, COMPANY), (2, PERSON)])
def test_rows_that_slip_in_below_a_commit_are_not_published_with_it(
    root: Path, nth: int, key: TableKey
) -> None:
    writer = frozen_before(root, At(COMMIT, nth))
    append_foreign(root, key)
    os.kill(writer.pid, signal.SIGCONT)
    outcome = writer.finish(300)
    assert isinstance(outcome, Raised), outcome
    assert outcome.kind == "DriftFound"
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"first"}
    assert find_sidecars(stores_at(root).objects) == ()
    # Theirs is kept and ours is not: the version right below ours was restored.
    assert newest_names(root, key) == {"first", "foreign"}
    other = PERSON if key == COMPANY else COMPANY
    assert newest_names(root, other) == {"first"}
    with pytest.raises(DriftFound):
        write(mortal_bench(stores_at(root)), "later")
    (finding,) = examine(bench_of(stores_at(root)))
    assert (finding.subject, finding.remedy) == (key, REPAIR)

    assert action_of(opened(root).repair(FORCED), key) is RepairAction.FORCED
    assert names_in(root, key) == {"first", "foreign"}
    write(mortal_bench(stores_at(root)), "later")
    assert check_graph(stores_at(root)) == []


def test_maintenance_that_slips_in_below_a_commit_does_no_harm(root: Path) -> None:
    writer = frozen_before(root, At(COMMIT, 1))
    stores = stores_at(root)
    handle = stores.tables.open_at(TableRef(pin_of(root, COMPANY).path))
    spec = IndexSpec("id", IndexKind.BTREE)
    staged = stores.tables.stage_indices(handle, [spec], IndexScope.REBUILD, Mark("theirs"))
    assert staged is not None
    stores.tables.commit_exact(staged)
    os.kill(writer.pid, signal.SIGCONT)
    assert not isinstance(writer.finish(300), Raised)
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"first", "ours"}
    assert check_graph(stores_at(root)) == []


def slip_in_and_die(root: Path, nth: int) -> None:
    """Killed right after the commit below which foreign rows are."""

    def slip(_: str) -> None:
        append_foreign(root, COMPANY)

    stores = watch_stores(stores_at(root), Trigger(At(COMMIT, 1), slip))
    stores = watch_stores(stores, Trigger(At(COMMIT, nth, When.AFTER), kill))
    write(bench_of(stores), "ours")


def test_who_recovers_a_write_above_foreign_rows_undoes_it_and_leaves_them(root: Path) -> None:
    """It died before it could see what it had committed on top of."""
    victim = launch(slip_in_and_die, root, 1)
    victim.await_ready()
    victim.begin()
    assert isinstance(victim.finish(300), Died)
    heal(mortal_bench(stores_at(root)))
    assert find_sidecars(stores_at(root).objects) == ()
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"first"}
    assert newest_names(root, COMPANY) == {"first", "foreign"}
    assert newest_names(root, PERSON) == {"first"}
    assert class_of(root, COMPANY) is DriftClass.SUSPICIOUS
    write(mortal_bench(stores_at(root)), "elsewhere", keys=[PERSON])
    assert action_of(opened(root).repair(DISCARDED), COMPANY) is RepairAction.DISCARDED
    assert newest_names(root, COMPANY) == names_in(root, COMPANY) == {"first"}
    assert check_graph(stores_at(root)) == []


def test_what_foreign_rows_stand_on_is_not_published_by_force(root: Path) -> None:
    """The write is undone, and its bytes lie below rows that nobody may remove for us."""
    with pytest.raises(Crash):
        write(mortal_bench(watch_stores(stores_at(root), CrashOn(SWAP))), "undone")
    append_foreign(root, COMPANY)
    heal(mortal_bench(stores_at(root)))
    assert newest_names(root, COMPANY) == {"first", "undone", "foreign"}
    assert newest_names(root, PERSON) == {"first"}
    assert action_of(opened(root).repair(FORCED), COMPANY) is RepairAction.REFUSED
    assert names_in(root, COMPANY) == {"first"}
    opened(root).repair(DISCARDED)
    assert newest_names(root, COMPANY) == names_in(root, COMPANY) == {"first"}
    assert check_graph(stores_at(root)) == []


# ── bytes of an operation that is over ───────────────────────────────────────────────────────────


def lose_the_sidecar(root: Path) -> None:
    """Both tables moved, and somebody deleted what would have told what to do about it."""
    with pytest.raises(Crash):
        write(mortal_bench(watch_stores(stores_at(root), CrashOn(SWAP))), "over")
    objects = stores_at(root).objects
    (operation_id,) = find_sidecars(objects)
    remove_sidecar(objects, operation_id)


def test_who_may_only_read_is_told_and_not_sent_to_repair(root: Path) -> None:
    lose_the_sidecar(root)
    found = open_in(stores_at(root), Mode.READ_ONLY).examine()
    assert {(each.subject, each.remedy) for each in found} == {
        (PERSON, RESOLVE),
        (COMPANY, RESOLVE),
    }
    assert newest_names(root, PERSON) == {"first", "over"}, "it changed nothing"


@pytest.mark.parametrize(
    "come_by",
    [
        lambda root: write(mortal_bench(stores_at(root)), "later"),
        lambda root: opened(root).examine(),
        lambda root: opened(root).repair(RepairRequest(is_confirmed=True)),
        lambda root: opened(root).repair(FORCED),
        lambda root: run_command(["doctor", str(root)]),
        lambda root: run_command(["repair", str(root), "--confirm", "--force"]),
    ],
    ids=["write", "doctor", "repair", "repair by force", "omnigraph doctor", "omnigraph repair"],
)
def test_bytes_of_an_operation_that_is_over_are_undone_by_whoever_comes(
    root: Path, come_by: Callable[[Path], object]
) -> None:
    lose_the_sidecar(root)
    assert class_of(root, PERSON) is DriftClass.FENCED
    come_by(root)
    assert "over" not in names_in(root, PERSON) | names_in(root, COMPANY)
    assert "over" not in newest_names(root, PERSON) | newest_names(root, COMPANY)
    assert check_graph(stores_at(root)) == []


def test_repair_says_what_it_undid(root: Path) -> None:
    lose_the_sidecar(root)
    preview = opened(root).repair(RepairRequest())
    assert {each.action for each in preview.tables} == {RepairAction.PREVIEW}
    done = opened(root).repair(FORCED)
    assert {(each.verdict, each.action) for each in done.tables} == {
        (DriftClass.FENCED, RepairAction.UNDONE)
    }
    assert {each.action for each in opened(root).repair(FORCED).tables} == {RepairAction.NO_OP}


def test_maintenance_of_an_ended_operation_is_published_by_the_next_writer(root: Path) -> None:
    """Found by simulation (seed 16): every later writer of the table failed for ever, untyped."""
    tables = stores_at(root).tables
    mark = Mark(REAL.new_id(), {OPERATION: REAL.new_id()})
    setting = TableSettings(config={"omnigraph.test": "late"})
    staged = tables.stage_settings(
        tables.open_at(TableRef(pin_of(root, PERSON).path)), setting, mark
    )
    assert staged is not None
    tables.commit_exact(staged)
    assert class_of(root, PERSON) is DriftClass.VERIFIED_MAINTENANCE
    assert open_in(stores_at(root), Mode.READ_WRITE).refresh() == ()
    write(mortal_bench(stores_at(root)), "later")
    assert names_in(root, PERSON) == {"first", "later"}
    assert check_graph(stores_at(root)) == []


# ── what a power cut tore ────────────────────────────────────────────────────────────────────────


def cut_version(table: Path, version: int) -> None:
    (table / version_file(version)).write_bytes(b"")


def zero_version(table: Path, version: int) -> None:
    file = table / version_file(version)
    file.write_bytes(bytes(file.stat().st_size))


def halve_version(table: Path, version: int) -> None:
    file = table / version_file(version)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def cut_data(table: Path, version: int) -> None:  # noqa: ARG001 - the newest file is of it
    max((table / "data").glob("*.lance"), key=lambda each: each.stat().st_mtime_ns).write_bytes(b"")


def lose_data(table: Path, version: int) -> None:  # noqa: ARG001 - the newest file is of it
    max((table / "data").glob("*.lance"), key=lambda each: each.stat().st_mtime_ns).unlink()


TEARS = [cut_version, zero_version, halve_version, cut_data, lose_data]


@pytest.mark.parametrize("tear", TEARS)
@pytest.mark.parametrize("has_sidecar", [True, False])
def test_a_version_that_a_power_cut_tore_is_removed_and_its_write_undone(
    root: Path, tear: Callable[[Path, int], None], *, has_sidecar: bool
) -> None:
    """Every table had moved: without a look at its files the write would be finished."""
    with pytest.raises(Crash):
        write(mortal_bench(watch_stores(stores_at(root), CrashOn(SWAP))), "torn")
    if not has_sidecar:
        remove_sidecar(stores_at(root).objects, find_sidecars(stores_at(root).objects)[0])
    pin = pin_of(root, PERSON)
    tear(root / pin.path, pin.version + 1)

    found = open_in(stores_at(root), Mode.READ_ONLY).examine(is_deep=True)
    assert (PERSON, RESOLVE) in {(each.subject, each.remedy) for each in found}
    assert class_of(root, PERSON) is DriftClass.TORN
    write(mortal_bench(stores_at(root)), "later")
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"first", "later"}
    assert opened(root).examine(is_deep=True) == []


@pytest.mark.parametrize("way", ["doctor", "repair --confirm"])
def test_an_empty_version_is_removed_by_doctor_and_repair(root: Path, way: str) -> None:
    pin = pin_of(root, PERSON)
    cut_version(root / pin.path, pin.version + 1)
    name, *flags = way.split()
    assert run_command([name, str(root), *flags]) == 0
    assert class_of(root, PERSON) is DriftClass.NO_DRIFT
    assert check_graph(stores_at(root)) == []


def test_a_fork_that_a_power_cut_tore_goes_as_a_whole(root: Path) -> None:
    opened(root).create_branch("side")
    stores = watch_stores(stores_at(root), Trigger(At(SWAP), crash))
    with pytest.raises(Crash):
        write(mortal_bench(stores), "torn", branch=SIDE)
    pin = pin_of(root, PERSON)
    cut_version(root / pin.path / "tree" / SIDE, pin.version + 1)
    write(mortal_bench(stores_at(root)), "later", branch=SIDE)
    assert names_in(root, PERSON, SIDE) == {"first", "later"}
    assert check_graph(stores_at(root)) == []
