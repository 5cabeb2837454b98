"""What has reached the disk before a mutation is visible, and before it is acknowledged (D11, D31).

Power cannot be cut here; instead every flush is recorded: among the calls to the stores, and among
the system calls of a real command.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import manifest_ref
from omnigraph.commit.manifest.schema_files import read_schema_files
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.active_schema import check_schema_files
from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.errors import StorageFailure
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.storage.durability import Disk, RelaxedDisk
from omnigraph.storage.layout import MANIFEST, RECOVERY
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.stores import Stores, open_tables
from omnigraph.testing.failpoints import COMMIT, DELETE, PUBLISH, SWAP, At
from omnigraph.testing.faults import FailOn, When, watch_stores
from support.breaking import (
    COMPANY,
    KNOWS,
    LINK,
    PAIR,
    PERSON,
    PROGRAM,
    SIDE,
    UPDATE,
    Ask,
    BreakableGraph,
    populate,
    stores_at,
)
from support.grouping import Busy
from support.scenes import die
from support.syscalls import Call, Deed, Medium, can_trace, list_and_flush, trace

FLUSH = "flush"


class Log:
    """Flushes and store calls, in one order. Is a disk, and a watch."""

    def __init__(self) -> None:
        self.flushed: list[Path] = []
        self.order: list[str] = []
        """The commits, the swaps and, between them, that something was flushed."""
        self.at_swap: list[set[Path]] = []
        self.at_commit: list[set[Path]] = []

    def flush_file(self, path: Path) -> None:
        assert path.exists()
        # An object is flushed under the name it has while it is unfinished.
        self.flushed.append(path.with_name(path.name.partition("#")[0]))
        self.order.append(FLUSH)

    def flush_folder(self, path: Path) -> None:
        assert path.is_dir()
        self.flushed.append(path)
        self.order.append(FLUSH)

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        if call in (COMMIT, SWAP, DELETE):
            self.order.append(call)
        if call == SWAP:
            self.at_swap.append(set(self.flushed))
        if call == COMMIT:
            self.at_commit.append(set(self.flushed))

    def after(self, call: str, *, is_write: bool) -> None:
        pass


def on_disk(root: Path, disk: Disk) -> Stores:
    stores = stores_at(root)
    objects = LocalObjects(root, disk)
    return replace(stores, objects=objects, tables=open_tables(stores.root, objects, disk, {}))


def open_on(root: Path, log: Log) -> BreakableGraph:
    stores = watch_stores(on_disk(root, log), log)
    found = read_schema_files(stores.objects)
    assert found is not None
    return BreakableGraph(stores, check_schema_files(found))


def files_of(root: Path, key: TableKey, branch: BranchName) -> set[Path]:
    """What reading a table as the branch shows it may touch, found by looking at the folder.

    In these graphs nothing was ever given up, so every file there is belongs to some version.
    """
    pin = populated(root).snapshot(branch).pins[key]
    table = root / pin.path
    homes = [table] if pin.owner == MAIN else [table, table / "tree" / pin.owner]
    found: set[Path] = set()
    for home in homes:
        for folder in ("data", "_deletions", "_indices"):
            found |= {each for each in (home / folder).rglob("*") if each.is_file()}
    newest = max(
        (homes[-1] / "_versions").glob("*.manifest"), key=lambda each: each.stat().st_ctime
    )
    return found | {newest}


def populated(root: Path) -> BreakableGraph:
    stores = on_disk(root, RelaxedDisk())
    found = read_schema_files(stores.objects)
    assert found is not None
    return BreakableGraph(stores, check_schema_files(found))


def check_flushed(files: set[Path], flushed: set[Path]) -> None:
    """Each file, and the folder that names it."""
    assert files
    assert files <= flushed, f"never flushed: {sorted(map(str, files - flushed))}"
    assert {each.parent for each in files} <= flushed


@pytest.mark.parametrize("branch", [MAIN, SIDE])
@pytest.mark.parametrize(
    ("ask", "moved"),
    [
        pytest.param(PAIR, (PERSON, COMPANY), id="insert"),
        pytest.param(UPDATE, (PERSON,), id="update"),
        pytest.param(LINK, (KNOWS,), id="edge"),
    ],
)
def test_all_of_a_write_is_on_the_disk_before_it_is_visible_and_its_manifest_before_it_is_told(
    tmp_path: Path, ask: Ask, moved: tuple[TableKey, ...], branch: BranchName
) -> None:
    """Including what others, who did not care, had written before."""
    root = tmp_path / "g"
    populate(root).create_branch(SIDE)
    log = Log()
    graph = open_on(root, log)
    for repeat in range(2):
        log.at_swap.clear()
        log.at_commit.clear()
        assert graph.ask(ask, branch).commit is not None
        (before_swap,) = log.at_swap
        for key in moved:
            check_flushed(files_of(root, key, branch), before_swap)
        check_flushed(manifest_files(root, branch), set(log.flushed))
        sidecars = {each for each in log.at_commit[0] if each.parent == root / RECOVERY}
        assert len(sidecars) == repeat + 1, "no table moves before the sidecar is on the disk"


def test_what_the_members_of_a_group_touched_is_on_the_disk_before_the_group_is_visible(
    tmp_path: Path,
) -> None:
    root = tmp_path / "g"
    populate(root)
    log = Log()
    graph = open_on(root, log)

    def many(letter: str) -> MutationResult:
        rows = [{"name": f"{letter}{each:04}"} for each in range(300)]
        return graph.write_rows("Person", rows, existing=Existing.REFUSE)

    for each in Busy(graph).run([partial(many, letter) for letter in "xy"]):
        assert each.result().affected_nodes == 300
    (before_swap,) = log.at_swap
    check_flushed(set((root / "__groups").iterdir()), before_swap)
    check_flushed(files_of(root, PERSON, MAIN), before_swap)
    check_flushed(manifest_files(root, MAIN), set(log.flushed))


@pytest.mark.parametrize("branch", [MAIN, SIDE])
def test_a_write_waits_for_three_waves_of_flushes_and_for_none_after_it_is_visible(
    tmp_path: Path, branch: BranchName
) -> None:
    """Both tables move before the second wave, and the removal of the sidecar is not flushed."""
    root = tmp_path / "g"
    populate(root).create_branch(SIDE)
    log = Log()
    graph = open_on(root, log)
    for _ in range(2):
        log.order.clear()
        data = set((root / "nodes").rglob("*.lance"))
        graph.ask(PAIR, branch)
        waves = [call for call, _ in groupby(log.order)]
        assert waves == [FLUSH, COMMIT, FLUSH, SWAP, FLUSH, DELETE]
        assert log.order.count(COMMIT) == 2
    staged = set((root / "nodes").rglob("*.lance")) - data
    check_flushed(staged, log.at_commit[-1])


def manifest_files(root: Path, branch: BranchName) -> set[Path]:
    """What reading the newest version touches. Files that a publish wrote again are history."""
    table = root / MANIFEST
    home = table if branch == MAIN else table / "tree" / branch
    tables = on_disk(root, RelaxedDisk()).tables
    parts = tables.find_fragments(tables.open_at(manifest_ref(branch)))
    names = {name for each in parts for name in each.files}
    folders = {table / "data", home / "data"}
    data = {each for folder in folders for each in folder.iterdir() if each.name in names}
    assert len(data) == len(names)
    newest = max((home / "_versions").glob("*.manifest"), key=lambda each: each.stat().st_ctime)
    return data | {newest}


# ── a real command, and what it asks of the operating system ─────────────────────────────────────

Record = Callable[[Path, Path, Sequence[str]], Sequence[Call]]

BOTH_RECORDERS = pytest.mark.parametrize(
    "record",
    [
        list_and_flush,
        pytest.param(
            trace,
            marks=pytest.mark.skipif(
                not can_trace(), reason="strace is not here, or may not look at processes"
            ),
        ),
    ],
)


class Moments:
    """What a power cut would have left at the moments that matter."""

    def __init__(self, root: Path, calls: Sequence[Call], before: Medium) -> None:
        medium = before
        self.at_first_commit: set[Path] | None = None
        self.at_publish: set[Path] | None = None
        self.at_say: set[Path] | None = None
        for call in calls:
            if call.deed is Deed.SAY and self.at_say is None:
                self.at_say = medium.lasting()
            if call.deed is Deed.NAME and _is_version(call.path):
                if call.path.is_relative_to(root / MANIFEST):
                    assert self.at_publish is None, "one write is published once"
                    self.at_publish = medium.lasting()
                elif self.at_first_commit is None:
                    self.at_first_commit = medium.lasting()
            medium.take(call)


def _is_version(path: Path) -> bool:
    return path.parent.name == "_versions" and path.suffix == ".manifest"


@pytest.mark.parametrize("branch", [MAIN, SIDE])
@BOTH_RECORDERS
def test_the_system_calls_of_a_command_reach_the_disk_in_three_waves(
    tmp_path: Path, record: Record, branch: BranchName
) -> None:
    """The sidecar before a table moves, the tables before the manifest, that before the answer."""
    root = tmp_path / "g"
    populate(root).create_branch(SIDE)
    source = tmp_path / "pair.gq"
    source.write_text(PROGRAM.text)
    before = Medium(root)
    query = ["mutate", PAIR.query, str(root), "--query", str(source), "--branch", branch]
    calls = record(root, tmp_path / "calls", [*query, "--params", json.dumps(PAIR.params)])
    moments = Moments(root, calls, before)

    assert moments.at_first_commit is not None
    sidecars = {each for each in moments.at_first_commit if each.parent == root / RECOVERY}
    assert [each.suffix for each in sidecars] == [".json"], "no table moves before it is there"
    assert moments.at_publish is not None
    assert sidecars < moments.at_publish
    for key in (PERSON, COMPANY):
        shown = files_of(root, key, branch)
        assert shown <= moments.at_publish, f"shown, and not there: {shown - moments.at_publish}"
    assert moments.at_say is not None
    manifest = manifest_files(root, branch)
    assert manifest <= moments.at_say, f"told, and not there: {manifest - moments.at_say}"


def test_a_recovery_flushes_what_the_dead_had_not(tmp_path: Path) -> None:
    root = tmp_path / "g"
    populate(root)
    die(root, At(PUBLISH), lambda graph: graph.ask(PAIR))
    log = Log()
    (recovery,) = heal(open_on(root, log).context)
    assert recovery.outcomes
    for key in (PERSON, COMPANY):
        check_flushed(files_of(root, key, MAIN), log.at_swap[0])
    check_flushed(manifest_files(root, MAIN), set(log.flushed))


def test_a_failure_is_told_once_the_removal_of_its_sidecar_has_reached_the_disk(
    tmp_path: Path,
) -> None:
    """After a power cut the sidecar would be back, and a write that was called undone (D31)."""
    root = tmp_path / "g"
    populate(root)
    log = Log()
    stores = watch_stores(on_disk(root, log), FailOn(COMMIT, when=When.AFTER))
    found = read_schema_files(stores.objects)
    assert found is not None
    with pytest.raises(StorageFailure):
        BreakableGraph(stores, check_schema_files(found)).ask(PAIR)
    assert find_sidecars(stores.objects) == ()
    sidecar = next(each for each in log.flushed if each.parent.name == RECOVERY)
    removals = log.flushed[log.flushed.index(sidecar) + 1 :]
    assert removals.count(root / RECOVERY) == 2, "once as it came, and once as it went"


def test_a_relaxed_write_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "g"
    graph = populate(root)
    flushed: list[object] = []
    monkeypatch.setattr("os.fsync", flushed.append)
    graph.ask(PAIR)
    assert flushed == []
