"""A power cut at any moment of any write, and what is found when the machine is up again.

The story (`support.power_story`) is recorded call by call, and the directory is rebuilt as a disk
may leave it (`support.power_cuts`). Here a sample runs; `make soak` tries thousands of states. What
earlier runs found stands below, one test each.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from omnigraph.engine.graph import Mode
from omnigraph.engine.maintain.doctor import CLEANUP_AGAIN
from omnigraph.engine.opening import open_in
from omnigraph.engine.write.batch import Existing
from omnigraph.errors import TableCorrupt
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.layout import MANIFEST, VERSION_HINT, branch_ref_file, version_file
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.stores import open_tables
from omnigraph.testing.failpoints import FORK, SWAP, At
from omnigraph.testing.faults import When
from support.breaking import (
    INSERT,
    PAIR,
    PERSON,
    SIDE,
    check_lasting,
    check_whole,
    open_mortal,
    populate,
    read_content,
    stores_at,
)
from support.disk_trace import ROOT, Bytes, Entry, Flush, Recording, Say, why_untraceable
from support.folders import read_folder
from support.power_cuts import Disk, Model, State, Torn
from support.scenes import CLEAN, die

COUNT: Final = int(os.environ.get("OMNIGRAPH_POWER_CUTS", "20"))
SEED: Final = int(os.environ.get("OMNIGRAPH_SEED", "0"))
TIMEOUT_S: Final = 60 + 5 * COUNT


@pytest.mark.slow
@pytest.mark.skipif(why_untraceable() is not None, reason=str(why_untraceable()))
def test_no_power_cut_loses_an_acknowledged_write_or_shows_half_of_one(tmp_path: Path) -> None:
    """The worst state at every acknowledgement, and states by lot."""
    command = [sys.executable, "-W", "ignore", "-m", "support.power_cuts", str(tmp_path)]
    command += ["--count", str(COUNT), "--seed", str(SEED)]
    told = subprocess.run(command, check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE).stdout
    report: dict[str, Any] = json.loads(told)
    found = [f"{each['state']}\n{each['why']}" for each in report["findings"]]
    assert found == [], "\n\n".join([f"seed {SEED}, count {COUNT}", *found])
    assert report["states"] > COUNT // 2


# ── the models of a disk ─────────────────────────────────────────────────────────────────────────


def recorded(*operations: Bytes | Entry | Flush | Say) -> Disk:
    """A folder with one file, `old`, which is inode 1."""
    return Disk(Recording(names={ROOT: {"old": 1}}, contents={1: b"old"}, operations=[*operations]))


def trees(disk: Disk, cut: int, model: Model, **torn: Torn) -> tuple[object, object]:
    """What is left at worst, and at best."""
    names, files = disk.pending(cut, model)
    worst = State(cut, model, frozenset(), dict.fromkeys(files, torn.get("way", Torn.MISSING)))
    return disk.tree(worst), disk.tree(State(cut, model, frozenset(names)))


def test_what_was_not_flushed_may_be_missing_and_what_was_flushed_may_not() -> None:
    disk = recorded(
        Entry(ROOT, (("new", 2),)),
        Bytes(2, 0, b"data"),
        Flush(2, began=2),
        Flush(ROOT, began=3),
    )
    nothing, everything = {"old": b"old"}, {"old": b"old", "new": b"data"}
    assert trees(disk, 2, Model.WEAK) == (nothing, everything)
    # The bytes are safe, their name is not; of ext4, a flush takes the names before it along.
    assert trees(disk, 3, Model.WEAK) == (nothing, everything)
    assert trees(disk, 3, Model.ORDERED) == (everything, everything)
    assert trees(disk, 4, Model.WEAK) == (everything, everything)


def test_a_flush_covers_only_what_had_ended_when_it_began() -> None:
    disk = recorded(Entry(ROOT, (("new", 2),)), Flush(ROOT, began=0), Bytes(1, 0, b"NEW"))
    assert trees(disk, 3, Model.WEAK) == ({"old": b"old"}, {"old": b"NEW", "new": b""})


@pytest.mark.parametrize(
    ("way", "left"),
    [(Torn.MISSING, b"old"), (Torn.HALF, b"NEd"), (Torn.ZEROS, bytes(4)), (Torn.WHOLE, b"NEW!")],
)
def test_bytes_are_torn_in_every_way(way: Torn, left: bytes) -> None:
    worst, _ = trees(recorded(Bytes(1, 0, b"NEW!")), 1, Model.WEAK, way=way)
    assert worst == {"old": left}


def test_a_rename_is_never_half_done() -> None:
    disk = recorded(Entry(ROOT, (("old", None), ("new", 1))))
    assert trees(disk, 1, Model.WEAK) == ({"old": b"old"}, {"new": b"old"})


# ── what was found ───────────────────────────────────────────────────────────────────────────────


def empty(file: Path) -> None:
    file.write_bytes(b"")


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


TEARS: Final = [empty, zero, halve]


def newest_manifest(root: Path, branch: BranchName) -> Path:
    home = root / MANIFEST if branch == MAIN else root / MANIFEST / "tree" / branch
    return min((home / "_versions").glob("*.manifest"))


@pytest.mark.parametrize("tear", TEARS)
@pytest.mark.parametrize("branch", [MAIN, SIDE])
def test_a_publish_that_a_power_cut_tore_is_removed_and_its_write_finished(
    tmp_path: Path, tear: Callable[[Path], None], branch: BranchName
) -> None:
    """The graph could not be opened at all."""
    root = tmp_path / "g"
    populate(root).create_branch(SIDE)
    before = read_content(root)
    die(root, At(SWAP, when=When.AFTER), lambda graph: graph.ask(PAIR, branch))
    after = read_content(root)
    tear(newest_manifest(root, branch))
    open_in(stores_at(root), Mode.READ_WRITE)
    assert check_whole(root, [before, after]) == 1, "every table had moved"
    check_lasting(root)


def test_a_manifest_that_is_damaged_while_nobody_writes_is_left_alone(tmp_path: Path) -> None:
    """Its newest version holds acknowledged commits: nobody may take it for a torn publish."""
    root = tmp_path / "g"
    populate(root)
    halve(newest_manifest(root, MAIN))
    files = read_folder(root)
    with pytest.raises(TableCorrupt):
        open_in(stores_at(root), Mode.READ_WRITE)
    assert read_folder(root) == files


@pytest.mark.parametrize("tear", [*TEARS, Path.unlink])
@pytest.mark.parametrize("part", ["ref", "version"])
def test_a_fork_of_which_a_power_cut_left_a_part_is_made_again(
    tmp_path: Path, tear: Callable[[Path], None], part: str
) -> None:
    root = tmp_path / "g"
    populate(root).create_branch(SIDE)
    before = read_content(root)
    die(root, At(FORK, when=When.AFTER), lambda graph: graph.ask(INSERT, SIDE))
    pin = open_mortal(root).snapshot(SIDE).pins[PERSON]
    table = root / pin.path
    version = table / "tree" / SIDE / version_file(pin.version)
    tear(table / branch_ref_file(SIDE) if part == "ref" else version)
    open_in(stores_at(root), Mode.READ_WRITE)
    check_whole(root, [before])
    open_mortal(root).ask(INSERT, SIDE)
    check_lasting(root)


def test_a_torn_version_beyond_a_missing_one_is_found(tmp_path: Path) -> None:
    """Optimize commits twice to a table; of these two names a disk may keep the second alone."""
    root = tmp_path / "g"
    graph = populate(root)
    die(root, At(SWAP), lambda each: each.ask(PAIR))
    pin = graph.snapshot().pins[PERSON]
    table = root / pin.path
    empty(table / version_file(pin.version + 1))
    (table / version_file(pin.version + 1)).rename(table / version_file(pin.version + 2))
    (table / VERSION_HINT).write_text(json.dumps({"version": pin.version}))
    tables = stores_at(root).tables
    assert tables.find_torn(graph.open_table(graph.snapshot(), PERSON)) == pin.version + 2
    open_in(stores_at(root), Mode.READ_WRITE)
    check_whole(root, [read_content(root)])


class FlushLog:
    """A disk that writes down what it flushes, and what then is there of a branch."""

    def __init__(self, ref: Path, version: Path) -> None:
        self.ref, self.version = ref, version
        self.seen: list[tuple[bool, bool]] = []
        self.flushed: set[Path] = set()

    def flush_file(self, path: Path) -> None:
        self.flushed.add(path.with_name(path.name.partition("#")[0]))

    def flush_folder(self, path: Path) -> None:
        self.flushed.add(path)
        is_version_safe = {self.version, self.version.parent} <= self.flushed
        self.seen.append((self.ref.exists(), is_version_safe))


def test_a_branch_exists_only_once_its_first_version_is_on_the_disk(tmp_path: Path) -> None:
    """No sidecar names a branch that is created: half of one could not be recovered."""
    root = tmp_path / "g"
    graph = populate(root)
    manifest = graph.context.bases.current(MAIN).handle
    home = root / MANIFEST
    log = FlushLog(
        home / branch_ref_file(SIDE), home / "tree" / SIDE / version_file(manifest.version)
    )
    stores = stores_at(root)
    tables = open_tables(stores.root, LocalObjects(root, log), log, {})
    tables.fork(tables.open_at(manifest.ref), SIDE)
    assert log.ref in log.flushed
    assert (True, True) in log.seen
    assert (True, False) not in log.seen, "the ref was there before its version was safe"


def test_doctor_names_a_commit_whose_version_an_interrupted_cleanup_left(tmp_path: Path) -> None:
    """It raised, because only a version that was gone completely was expected."""
    root = tmp_path / "g"
    graph = populate(root)
    for name in ("x", "y"):
        graph.write_rows("Company", [{"name": name}], existing=Existing.REPLACE)
    first, *_ = sorted((root / MANIFEST / "data").glob("*.lance"), key=lambda e: e.stat().st_mtime)
    tables = stores_at(root).tables
    newest = tables.open_at(graph.context.bases.current(MAIN).handle.ref)
    used = {name for each in tables.find_fragments(newest) for name in each.files}
    lost = [each for each in (root / MANIFEST / "data").iterdir() if each.name not in used]
    assert first in lost
    for each in lost:
        each.unlink()
    findings = graph.examine(is_deep=True)
    assert findings
    assert {each.remedy for each in findings} == {CLEANUP_AGAIN}
    graph.cleanup(CLEAN)
    assert graph.examine(is_deep=True) == []
