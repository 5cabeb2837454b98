"""Die at every write of re-rooting: readers see no difference, and the next open continues."""

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Durability
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.identity import is_relocated, read_identity
from omnigraph.commit.relocation import relocate
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.storage.layout import IDENTITY
from omnigraph.testing.failpoints import At, Trigger, kill
from omnigraph.testing.faults import (
    STRIDE,
    CrashAt,
    FailAt,
    Recorder,
    Watch,
    When,
    sweep,
    watch_stores,
)
from support.breaking import GONE, SIDE, stores_at
from support.folders import put_back, read_folder
from support.moving import open_relaxed, poison, read_all
from support.processes import Died, launch, race, values_of

CHILD = "child"
RELAXED = Durability.RELAXED
SWAPS = 6
"""Re-rooting replaces at least this many versions here."""


def prepare(root: Path) -> dict[str, bytes]:
    graph = omnigraph.init(root, "node Person { name: String @key }", durability=RELAXED)
    graph.insert("Person", [{"name": "ann"}])
    graph.branch(SIDE, create=True).insert("Person", [{"name": "sid"}])
    graph.branches.create(CHILD, source=SIDE)
    graph.branch(CHILD).delete("Person", ["ann"])
    return read_all(open_relaxed(root))


def reroot(root: Path, watch: Watch) -> None:
    """As a process that counts as dead when it stops."""
    stores = watch_stores(stores_at(root), watch)
    relocate(WriteContext(stores, Bases(stores), owner=GONE))


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("moved")
    shown = prepare(folder / "old")
    shutil.copytree(folder / "old", folder / "new")
    poison(folder / "old")
    return folder / "new", shown


def is_moved(root: Path) -> bool:
    stores = stores_at(root)
    return is_relocated(stores.objects, stores.root)


def check_moved(root: Path, shown: dict[str, bytes]) -> str:
    """Returns the id that the graph got."""
    open_in(stores_at(root), Mode.READ_WRITE)
    assert not is_moved(root)
    files = read_folder(root)
    graph = open_relaxed(root)
    assert read_folder(root) == files, "opening it again changes something"
    assert read_all(graph) == shown
    assert graph.doctor() == []
    found = read_identity(stores_at(root).objects)
    assert found is not None
    return found.identity.graph_id


@pytest.mark.parametrize(
    ("when", "without"), [(When.BEFORE, ""), (When.AFTER, ""), (When.BEFORE, IDENTITY)]
)
def test_a_crash_anywhere_is_continued_by_the_next_open(
    moved: tuple[Path, dict[str, bytes]], when: When, without: str
) -> None:
    """Also of a graph that another program made, which has no identity."""
    root, shown = moved
    everything = read_folder(root)
    before = read_identity(stores_at(root).objects)
    assert before is not None
    files = {name: data for name, data in everything.items() if name != without}

    def attempt(fault: CrashAt) -> None:
        put_back(root, files)
        reroot(root, fault)

    crashes = 0
    for fault in sweep(when, attempt):
        crashes += fault.dead
        if fault.step % STRIDE == 0 or not fault.dead:
            assert read_all(open_relaxed(root, read_only=True)) == shown
            assert check_moved(root, shown) != before.identity.graph_id
        else:
            open_in(stores_at(root), Mode.READ_WRITE)
            after = read_identity(stores_at(root).objects)
            assert after is not None
            assert after.identity.is_at(stores_at(root).root)
            assert after.identity.graph_id != before.identity.graph_id
    assert crashes > SWAPS
    put_back(root, everything)


def test_a_store_that_fails_once_anywhere_is_survived(
    moved: tuple[Path, dict[str, bytes]],
) -> None:
    root, shown = moved
    files = read_folder(root)
    recorder = Recorder()
    reroot(root, recorder)
    for step in range(1, len(recorder.writes) + 1, 3):
        put_back(root, files)
        with pytest.raises(Exception, match="the test said so"):
            reroot(root, FailAt(step))
        check_moved(root, shown)
    put_back(root, files)


def test_re_rooting_twice_writes_nothing_the_second_time(
    moved: tuple[Path, dict[str, bytes]],
) -> None:
    root, _ = moved
    files = read_folder(root)
    reroot(root, Recorder())
    again = Recorder()
    reroot(root, again)
    assert [call for call in again.writes if not call.startswith("volatile.")] == []
    put_back(root, files)


def killed_in_the_middle(root: str) -> None:
    """Runs in a process of its own, which ends here."""
    trigger = Trigger(At("objects.put_if_match", 4), kill)
    stores = watch_stores(stores_at(Path(root)), trigger)
    open_in(stores, Mode.READ_WRITE)


def test_a_process_that_is_killed_is_followed_by_the_next(
    moved: tuple[Path, dict[str, bytes]],
) -> None:
    root, shown = moved
    files = read_folder(root)
    (outcome,) = race([launch(killed_in_the_middle, str(root))])
    assert isinstance(outcome, Died)
    assert is_moved(root)
    assert read_folder(root) != files, "it died too early"
    assert read_all(open_relaxed(root, read_only=True)) == shown
    check_moved(root, shown)
    put_back(root, files)


def opened(root: str) -> str:
    """Runs in a process of its own."""
    open_in(stores_at(Path(root)), Mode.READ_WRITE)
    found = read_identity(stores_at(Path(root)).objects)
    assert found is not None
    return found.identity.graph_id


def test_processes_that_open_a_moved_graph_at_once_agree_on_its_id(
    moved: tuple[Path, dict[str, bytes]],
) -> None:
    root, shown = moved
    files = read_folder(root)
    ids = values_of(race([launch(opened, str(root)) for _ in range(2)]))
    assert set(ids) == {check_moved(root, shown)}
    put_back(root, files)
