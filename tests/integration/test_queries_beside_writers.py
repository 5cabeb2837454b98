"""Reads beside writers, upkeep and other readers: always one snapshot, never an error."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.settings import Access, Settings
from omnigraph.engine.upkeep import FRAGMENTS_MAX
from omnigraph.sdk.local import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.testing.processes import launch, race, values_of

SCHEMA = "node P { name: String @key  age: I64 }  edge Next: P -> P"
WRITE = """query grow($old: String, $new: String, $n: I64) {
  insert P { name: $new, age: $n }
  insert Next { from: $old, to: $new }
}"""
NODES = "query q() { match { $p: P } return { count($p) as n, max($p.age) as top } }"
CHAIN = 'query q() { match { $p: P { name: "p0" } $p next{1,500} $q } return { count($q) as n } }'
ENDS = "query q() { match { $p: P not { $p next $_ } } return { $p.age } }"
COMMITS = FRAGMENTS_MAX + 4
"""Enough for upkeep to compact and index while it is read."""

RELAXED = Settings(durability=Durability.RELAXED)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "g"
    LocalGraph(create(str(place), SCHEMA, settings=RELAXED)).insert("P", [{"name": "p0", "age": 0}])
    return place


def grow(root: Path) -> int:
    """A chain that grows by one node and one edge in each commit."""
    graph = LocalGraph(open_graph(str(root), settings=RELAXED))
    for at in range(COMMITS):
        values = {"old": f"p{at}", "new": f"p{at + 1}", "n": at + 1}
        graph.mutate(WRITE, params=values)
    return COMMITS


def tear_in(graph: LocalGraph) -> str | None:
    """One snapshot, asked three ways: a chain of n nodes has n - 1 edges and one end."""
    snapshot = graph.snapshot()
    ((nodes, top),) = (row.values() for row in graph.query(NODES, snapshot=snapshot).rows())
    ((reached,),) = (row.values() for row in graph.query(CHAIN, snapshot=snapshot).rows())
    ends = [age for row in graph.query(ENDS, snapshot=snapshot).rows() for age in row.values()]
    if nodes == top + 1 == reached + 1 and ends == [top]:  # type: ignore[operator]
        return None
    return f"{nodes} nodes, {top} on top, {reached} reached, ends {ends}"


def read_until(root: Path, stop: Path, access: Access) -> list[str]:
    settings = replace(RELAXED, query_access=access)
    graph = LocalGraph(open_graph(str(root), mode=Mode.READ_ONLY, settings=settings))
    torn: list[str] = []
    while True:
        is_last = stop.exists()
        tear = tear_in(graph)
        torn += [] if tear is None else [tear]
        if is_last:
            return torn


def test_threads_read_whole_snapshots_while_one_writes_and_tidies(root: Path) -> None:
    stop = root.parent / "stop"
    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read_until, root, stop, access) for access in Access]
        try:
            assert threads.submit(grow, root).result() == COMMITS
        finally:
            stop.touch()
        assert [each.result() for each in readers] == [[], [], []]


@pytest.mark.slow
def test_a_process_reads_whole_snapshots_while_another_writes(root: Path) -> None:
    stop = root.parent / "stop"
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(race, [launch(read_until, root, stop, Access.AUTO)], timeout_s=240)
        try:
            assert values_of(race([launch(grow, root)], timeout_s=240)) == [COMMITS]
        finally:
            stop.touch()
        assert values_of(reading.result()) == [[]]
    graph = LocalGraph(open_graph(str(root), mode=Mode.READ_ONLY))
    assert graph.query(CHAIN).rows() == [{"n": COMMITS}]


def test_threads_that_share_a_graph_build_what_they_need_once(root: Path) -> None:
    grow(root)
    settings = replace(RELAXED, query_access=Access.RESIDENT)
    graph = LocalGraph(open_graph(str(root), mode=Mode.READ_ONLY, settings=settings))
    with ThreadPoolExecutor(8) as threads:
        found = [threads.submit(tear_in, graph) for _ in range(16)]
        assert [each.result() for each in found] == [None] * 16
