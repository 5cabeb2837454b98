"""What has reached the disk before a mutation is visible, and before it is acknowledged (D11).

Power cannot be cut here; instead every flush is recorded, among the calls to the stores.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.commit.base import manifest_ref
from omnigraph.commit.recovery import heal
from omnigraph.commit.schema_files import read_schema_files
from omnigraph.engine.contract import check_contract
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.storage.durability import Disk, RelaxedDisk
from omnigraph.storage.layout import MANIFEST, RECOVERY
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.stores import Stores, open_tables
from omnigraph.testing.breaking import (
    COMPANY,
    KNOWS,
    LINK,
    PAIR,
    PERSON,
    SIDE,
    UPDATE,
    Ask,
    BreakableGraph,
    populate,
    stores_at,
)
from omnigraph.testing.failpoints import COMMIT, PUBLISH, SWAP, At
from omnigraph.testing.faults import watch_stores
from omnigraph.testing.scenes import die


class Log:
    """Flushes and store calls, in one order. Is a disk, and a watch."""

    def __init__(self) -> None:
        self.flushed: list[Path] = []
        self.at_swap: list[set[Path]] = []
        self.at_commit: list[set[Path]] = []

    def flush_file(self, path: Path) -> None:
        assert path.exists()
        # An object is flushed under the name it has while it is unfinished.
        self.flushed.append(path.with_name(path.name.partition("#")[0]))

    def flush_folder(self, path: Path) -> None:
        assert path.is_dir()
        self.flushed.append(path)

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
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
    return BreakableGraph(stores, check_contract(found))


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
    return BreakableGraph(stores, check_contract(found))


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
        notes = {each for each in log.at_commit[0] if each.parent == root / RECOVERY}
        assert len(notes) == repeat + 1, "no table moves before the note is on the disk"


def manifest_files(root: Path, branch: BranchName) -> set[Path]:
    """What reading the newest version touches. Files that a publish wrote again are history."""
    table = root / MANIFEST
    home = table if branch == MAIN else table / "tree" / branch
    tables = on_disk(root, RelaxedDisk()).tables
    parts = tables.find_parts(tables.open_at(manifest_ref(branch)))
    names = {name for each in parts for name in each.files}
    folders = {table / "data", home / "data"}
    data = {each for folder in folders for each in folder.iterdir() if each.name in names}
    assert len(data) == len(names)
    newest = max((home / "_versions").glob("*.manifest"), key=lambda each: each.stat().st_ctime)
    return data | {newest}


def test_a_recovery_flushes_what_the_dead_had_not(tmp_path: Path) -> None:
    root = tmp_path / "g"
    populate(root)
    die(root, At(PUBLISH), lambda graph: graph.ask(PAIR))
    log = Log()
    (recovery,) = heal(open_on(root, log).bench)
    assert recovery.outcomes
    for key in (PERSON, COMPANY):
        check_flushed(files_of(root, key, MAIN), log.at_swap[0])
    check_flushed(manifest_files(root, MAIN), set(log.flushed))


def test_a_relaxed_write_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "g"
    graph = populate(root)
    flushed: list[object] = []
    monkeypatch.setattr("os.fsync", flushed.append)
    graph.ask(PAIR)
    assert flushed == []
