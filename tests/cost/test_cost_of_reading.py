"""What opening, looking and looking again cost, in calls to the stores. Never in seconds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.publish import publish
from omnigraph.commit.manifest.snapshot import snapshot_at_commit
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import create, open_in
from omnigraph.engine.settings import Settings
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.testing.faults import Recorder, watch_stores
from support.publishing import Place, advance, grow_history, lineage_only

A = TableKey("node:T0")
SIDE = BranchName("side")


def make(folder: Path, *, tables: int = 2, commits: int = 0) -> Place:
    place = Place(str(folder / f"{tables}-{commits}"))
    schema = "  ".join(f"node T{number} {{ name: String @key }}" for number in range(tables))
    create(place.uri, schema, settings=Settings(durability=place.durability))
    if commits:
        grow_history(place.open(), commits, A)
    return place


def calls_of(watched: Recorder, act: Callable[[], object]) -> list[str]:
    watched.calls.clear()
    act()
    return list(watched.calls)


def opened(place: Place) -> tuple[Graph, Recorder]:
    watched = Recorder()
    return open_in(watch_stores(place.open(), watched), Mode.READ_WRITE), watched


def foreign_commit(place: Place, branch: BranchName = MAIN) -> None:
    stores = place.open()
    publish(stores, Bases(stores), lineage_only(branch))


# ── opening ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", Mode)
def test_opening_scans_the_manifest_once_and_reads_the_contract_once(
    tmp_path: Path, mode: Mode
) -> None:
    watched = Recorder()
    stores = watch_stores(make(tmp_path).open(), watched)
    calls = calls_of(watched, lambda: open_in(stores, mode))
    assert calls.count("tables.read") == 1
    assert calls.count("tables.open_at") <= 2
    # The three schema files; a writer also looks whether the graph was moved.
    assert calls.count("objects.read") == 3 + (mode is Mode.READ_WRITE)
    looks = calls.count("objects.list")
    # On a disk, first for a publish that a power cut tore, then for writers that died.
    assert looks == (2 if mode is Mode.READ_WRITE else 0), "only a writer looks for work to heal"
    # The lock of a schema change may be left over.
    assert calls.count("objects.exists") == (1 if looks else 0)
    calls = [each for each in calls if each != "objects.exists"]
    assert set(calls) <= {"tables.read", "tables.open_at", "objects.read", "objects.list"}


def test_opening_costs_the_same_whatever_the_graph_holds(tmp_path: Path) -> None:
    costs = []
    for tables, commits in ((2, 0), (40, 0), (2, 1_000)):
        watched = Recorder()
        stores = watch_stores(make(tmp_path, tables=tables, commits=commits).open(), watched)
        open_in(stores, Mode.READ_WRITE)
        costs.append(watched.calls)
    assert costs[0] == costs[1] == costs[2]


# ── snapshots ────────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_of_a_branch_that_was_never_read_is_one_scan(tmp_path: Path) -> None:
    place = make(tmp_path)
    watched = Recorder()
    bases = Bases(watch_stores(place.open(), watched))
    assert calls_of(watched, lambda: bases.current(MAIN)) == ["tables.open_at", "tables.read"]


def test_a_snapshot_of_a_branch_that_did_not_move_is_one_probe(tmp_path: Path) -> None:
    graph, watched = opened(make(tmp_path))
    assert calls_of(watched, graph.snapshot) == ["tables.probe"]


def test_on_a_branch_one_more_look_tells_that_it_is_the_same_branch(tmp_path: Path) -> None:
    graph, watched = opened(make(tmp_path))
    graph.create_branch(SIDE)
    graph.snapshot(SIDE)
    calls = calls_of(watched, lambda: graph.snapshot(SIDE))
    assert calls == ["tables.find_branch", "tables.probe"]


def test_a_snapshot_after_a_foreign_commit_is_one_scan(tmp_path: Path) -> None:
    place = make(tmp_path)
    graph, watched = opened(place)
    foreign_commit(place)
    calls = calls_of(watched, graph.snapshot)
    assert calls.count("tables.probe") == 1
    assert calls.count("tables.open_at") == 1
    assert calls.count("tables.read") == 1
    assert set(calls) == {"tables.probe", "tables.open_at", "tables.find_fragments", "tables.read"}
    assert calls_of(watched, graph.snapshot) == ["tables.probe"], "and then it is known"


def test_our_own_commit_needs_no_look_at_all(tmp_path: Path) -> None:
    watched = Recorder()
    stores = watch_stores(make(tmp_path).open(), watched)
    bases = Bases(stores)
    publish(stores, bases, advance(bases, A))
    assert calls_of(watched, lambda: bases.current(MAIN)) == ["tables.probe"]


# ── commits ──────────────────────────────────────────────────────────────────────────────────────


def test_finding_a_commit_reads_no_rows_when_the_branches_are_known(tmp_path: Path) -> None:
    place = make(tmp_path, commits=1_000)
    graph, watched = opened(place)
    graph.create_branch(SIDE)
    foreign_commit(place, SIDE)
    (on_side, *_), main = graph.commits(SIDE), graph.commits(MAIN)
    for commit in (main[0], main[500], main[-1]):
        calls = calls_of(watched, lambda it=commit: graph.commit(it.id))  # type: ignore[misc]
        assert calls == ["tables.find_branch_names", "tables.probe"], (
            "found on main, the first asked"
        )
    calls = calls_of(watched, lambda: graph.commit(on_side.id))
    assert "tables.read" not in calls
    assert calls.count("tables.probe") == 2


def test_a_snapshot_of_the_past_is_one_scan(tmp_path: Path) -> None:
    watched = Recorder()
    stores = watch_stores(make(tmp_path).open(), watched)
    bases = Bases(stores)
    (past,) = publish(stores, bases, advance(bases, A)).commits
    publish(stores, bases, advance(bases, A))
    calls = calls_of(watched, lambda: snapshot_at_commit(stores, past))
    assert calls == ["tables.open_at", "tables.read"]
