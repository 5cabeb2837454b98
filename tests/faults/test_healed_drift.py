"""Publishes without an attempt: maintenance that landed late, repairs, and a branch that is gone.

Such a publish shows tables that moved before. A power cut may tear it, and a writer may die in it.
"""

from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from omnigraph.commit.recovery.audit import RecoveryKind, read_audit
from omnigraph.commit.recovery.drift import DriftClass, inspect_drift
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.graph import Mode
from omnigraph.engine.maintain.repair import RepairRequest
from omnigraph.engine.opening import open_in
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.layout import MANIFEST
from omnigraph.testing.failpoints import SWAP, At, Trigger, crash
from omnigraph.testing.faults import Crash, CrashAt, When
from support.breaking import (
    INSERT,
    PERSON,
    REPLACE,
    SIDE,
    check_lasting,
    check_whole,
    is_healing,
    maintain_late,
    open_living,
    open_mortal,
    populate,
    read_content,
    stores_at,
)
from support.folders import put_back, read_folder
from support.scenes import die

BRANCHES: Final = [MAIN, SIDE]
WRITES_WITHOUT_DRIFT: Final = 12


def prepare(root: Path) -> None:
    """Two branches that both own the table of persons."""
    populate(root).create_branch(SIDE)
    open_mortal(root).ask(REPLACE, SIDE)


def class_of(root: Path, branch: BranchName) -> DriftClass:
    graph = open_mortal(root)
    manifest = graph.context.bases.current(branch).manifest
    return inspect_drift(stores_at(root), manifest, manifest.pins[PERSON]).drift_class


def tear(root: Path, branch: BranchName) -> None:
    """The name of the newest version of a manifest is on the disk, and half of its bytes."""
    home = root / MANIFEST if branch == MAIN else root / MANIFEST / "tree" / branch
    newest = min((home / "_versions").glob("*.manifest"))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])


def prepare_late(root: Path, branch: BranchName) -> tuple[Path, dict[str, bytes]]:
    prepare(root)
    maintain_late(root, branch)
    assert class_of(root, branch) is DriftClass.VERIFIED_MAINTENANCE
    return root, read_folder(root)


def reopen(root: Path) -> None:
    open_in(stores_at(root), Mode.READ_WRITE)


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_publish_of_late_maintenance_that_a_power_cut_tore_is_finished(
    tmp_path: Path, branch: BranchName
) -> None:
    """An operator had to delete the file of the torn version."""
    root = tmp_path / "g"
    prepare_late(root, branch)
    before = read_content(root)
    die(root, At(SWAP, when=When.AFTER), lambda graph: graph.ask(INSERT, branch))
    tear(root, branch)
    reopen(root)
    check_whole(root, [before])
    assert class_of(root, branch) is DriftClass.NO_DRIFT
    (row,) = read_audit(stores_at(root)).to_pylist()
    assert row["recovery_kind"] == RecoveryKind.ROLLED_FORWARD.value, "the maintenance was kept"
    check_lasting(root)


def test_a_repair_that_a_power_cut_tore_is_finished(tmp_path: Path) -> None:
    root = tmp_path / "g"
    prepare_late(root, MAIN)
    before = read_content(root)
    confirmed = RepairRequest(is_confirmed=True)
    die(root, At(SWAP, when=When.AFTER), lambda graph: graph.repair(confirmed))
    tear(root, MAIN)
    reopen(root)
    check_whole(root, [before])
    assert class_of(root, MAIN) is DriftClass.NO_DRIFT


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("when", When)
def test_a_writer_may_die_anywhere_while_it_heals(
    tmp_path: Path, when: When, branch: BranchName
) -> None:
    """Whatever it had done, the next writer finishes it."""
    root, files = prepare_late(tmp_path / "g", branch)
    open_mortal(root).ask(INSERT, branch)
    after = read_content(root)
    for step in count(1):
        put_back(root, files)
        fault = CrashAt(step, when)
        with suppress(Crash):
            open_mortal(root, fault).ask(INSERT, branch)
            break
        reopen(root)
        open_mortal(root).ask(INSERT, branch)
        assert check_whole(root, [after]) == 0
    assert step > WRITES_WITHOUT_DRIFT


@pytest.mark.parametrize("when", When)
def test_the_recovery_of_a_healing_writer_may_die_anywhere(tmp_path: Path, when: When) -> None:
    root, _ = prepare_late(tmp_path / "g", SIDE)
    before = read_content(root)
    die(root, At(SWAP), lambda graph: graph.ask(INSERT, SIDE))
    files = read_folder(root)
    for step in count(1):
        put_back(root, files)
        with suppress(Crash):
            heal(open_mortal(root, CrashAt(step, when)).context)
            break
        reopen(root)
        check_whole(root, [before])
        assert class_of(root, SIDE) is DriftClass.NO_DRIFT
    assert step > 1


def test_a_writer_that_paused_while_it_healed_does_not_publish_twice(tmp_path: Path) -> None:
    """Another process finished the healing meanwhile, and found the commit of this one."""
    root, _ = prepare_late(tmp_path / "g", MAIN)

    def recover(_: str) -> None:
        heal(open_living(root).context)

    trigger = Trigger(At(SWAP), recover)
    open_mortal(root, trigger).ask(INSERT)
    assert trigger.fired
    healed = [each for each in open_mortal(root).commits() if is_healing(each)]
    assert len(healed) == 1
    check_lasting(root)


def test_a_write_and_the_healing_before_it_are_two_operations(tmp_path: Path) -> None:
    """Each has a sidecar. Of one id, a late removal of the first would remove the second."""
    root, _ = prepare_late(tmp_path / "g", MAIN)
    graph = open_mortal(root)
    graph.ask(INSERT)
    made, healed, *_ = graph.commits()
    assert is_healing(healed)
    assert not is_healing(made)
    assert made.extension.operation_id != healed.extension.operation_id


def test_a_discarded_operation_that_a_power_cut_tore_is_discarded_again(tmp_path: Path) -> None:
    """Its branch is gone, so its recovery is published on main."""
    root = tmp_path / "g"
    prepare(root)
    die(root, At(SWAP), lambda graph: graph.ask(INSERT, SIDE))
    stores_at(root).tables.clear_branch(MANIFEST, SIDE)
    before = read_content(root)
    trigger = Trigger(At(SWAP, when=When.AFTER), crash)
    with suppress(Crash):
        heal(open_mortal(root, trigger).context)
    assert trigger.fired
    tear(root, MAIN)
    reopen(root)
    assert read_content(root) == before
    assert find_sidecars(stores_at(root).objects) == ()
