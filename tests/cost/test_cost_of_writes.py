"""What safety costs a write: notes, leases and flushes, as counts that do not grow."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.commit.leases.lease import DEFAULT_TIMING
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.schema_files import read_schema_files
from omnigraph.engine.active_schema import check_schema_files
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_graph, open_in
from omnigraph.engine.settings import Settings
from omnigraph.errors import LeaseHeld
from omnigraph.ids import MAIN, BranchName, OperationId
from omnigraph.lang.source import Source
from omnigraph.storage.durability import Durability
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.stores import open_tables
from omnigraph.testing.failpoints import COMMIT, DELETE, LIST, PUBLISH, PUT, SWAP, At
from omnigraph.testing.faults import Recorder, watch_stores
from support.breaking import (
    CASCADE,
    INSERT,
    PAIR,
    PERSON,
    SIDE,
    Ask,
    BreakableGraph,
    open_living,
    populate,
    stores_at,
)
from support.scenes import die


@pytest.fixture
def root(tmp_path: Path) -> Path:
    populate(tmp_path / "g").create_branch(SIDE)
    return tmp_path / "g"


@pytest.mark.parametrize("branch", [MAIN, SIDE])
@pytest.mark.parametrize(("ask", "tables"), [(INSERT, 1), (PAIR, 2), (CASCADE, 3)])
def test_a_write_leaves_one_sidecar_looks_for_others_once_and_swaps_once(
    root: Path, ask: Ask, tables: int, branch: BranchName
) -> None:
    calls = Recorder()
    open_living(root, calls).ask(ask, branch)
    assert (calls.count(LIST), calls.count(PUT), calls.count(DELETE)) == (1, 1, 1)
    assert (calls.count(COMMIT), calls.count(SWAP)) == (tables, 1)
    leases = [each for each in calls.writes if each.startswith("volatile.")]
    assert len(leases) == 2 * tables, "each lease is taken once and given back once"


def test_a_graph_that_recovered_before_pays_nothing_for_it(root: Path) -> None:
    def calls_of(name: str) -> Counter[str]:
        calls = Recorder()
        graph = open_living(root, calls)
        graph.ask(Ask("put", {"name": "warm", "age": 1}))
        calls.calls.clear()
        graph.ask(Ask("put", {"name": name, "age": 1}))
        return Counter(calls.calls)

    before = calls_of("first")
    for _ in range(3):
        die(root, At(PUBLISH), lambda graph: graph.ask(PAIR))
        open_living(root).refresh()
    assert calls_of("second") == before


def test_who_is_next_in_line_looks_at_the_lease_and_not_at_the_line(root: Path) -> None:
    """Whoever waits takes time from whom it waits for."""
    calls = Recorder()
    place = LockKey(PERSON, MAIN)
    patience = replace(DEFAULT_TIMING, wait_ms_max=60)
    waiting = open_living(root, calls, timing=patience)
    with (
        open_living(root).context.leases.hold([place], OperationId("busy")),
        pytest.raises(LeaseHeld),
    ):
        waiting.ask(INSERT)
    assert calls.count("volatile.read") > 5
    assert calls.count("volatile.list") == 2, "is there a line; who is ahead"


def test_opening_a_graph_where_nothing_happened_costs_two_listings(root: Path) -> None:
    calls = Recorder()
    open_in(watch_stores(stores_at(root), calls), Mode.READ_WRITE)
    assert calls.count(LIST) == 2, "what a power cut tore, on a disk; who died"
    assert calls.writes == []


class CountingDisk:
    def __init__(self) -> None:
        self.flushed: list[Path] = []

    @property
    def flushes(self) -> int:
        return len(self.flushed)

    def flush_file(self, path: Path) -> None:
        assert path.exists()
        self.flushed.append(path)

    def flush_folder(self, path: Path) -> None:
        assert path.is_dir()
        self.flushed.append(path)


def test_a_durable_write_flushes_what_it_wrote_and_not_what_was_there(root: Path) -> None:
    disk = CountingDisk()
    stores = stores_at(root)
    objects = LocalObjects(root, disk)
    stores = replace(stores, objects=objects, tables=open_tables(stores.root, objects, disk, {}))
    found = read_schema_files(objects)
    assert found is not None
    graph = BreakableGraph(stores, check_schema_files(found))
    flushes = []
    for number in range(12):
        disk.flushed.clear()
        graph.ask(Ask("put", {"name": f"p{number}", "age": number}))
        flushes.append(disk.flushes)
    assert flushes[0] > flushes[1], "the first one also flushes what others had left"
    assert set(flushes[1:]) == {17}


def test_what_lance_keeps_does_not_grow_with_the_number_of_writes(root: Path) -> None:
    bytes_max = 512 << 10
    settings = Settings(durability=Durability.RELAXED, storage_cache_bytes_max=bytes_max)
    graph = open_graph(str(root), settings=settings)
    assert isinstance(graph.tables, LanceTables)
    add = "query add($n: String) { insert Person { name: $n } }"
    kept = []
    for number in range(40):
        graph.mutate(Source("<q>", add), params={"n": f"n{number}"})
        kept.append(graph.tables.store.session.size_bytes())
    assert max(kept) <= bytes_max
    assert kept[-1] < 1.5 * kept[10], "it is full, and what is new takes the place of the old"
    everybody = "query q() { match { $p: Person } return { $p.name } }"
    found = {row["p.name"] for row in graph.query(Source("<q>", everybody)).rows()}
    assert {f"n{number}" for number in range(40)} <= found
