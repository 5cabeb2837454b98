"""Reads beside writers, upkeep and other readers: always one snapshot, never an error."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.search import ranking
from omnigraph.engine.search.kept_texts import KeptTexts
from omnigraph.engine.search.provider import SearchProvider
from omnigraph.engine.search.ranking import SearchOptions
from omnigraph.engine.settings import AccessMode, Settings
from omnigraph.engine.write.upkeep import FRAGMENTS_MAX
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from support.processes import launch, race, values_of

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


def read_until(root: Path, stop: Path, access: AccessMode) -> list[str]:
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
        readers = [threads.submit(read_until, root, stop, access) for access in AccessMode]
        try:
            assert threads.submit(grow, root).result() == COMMITS
        finally:
            stop.touch()
        assert [each.result() for each in readers] == [[], [], []]


@pytest.mark.slow
def test_a_process_reads_whole_snapshots_while_another_writes(root: Path) -> None:
    stop = root.parent / "stop"
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(
            race, [launch(read_until, root, stop, AccessMode.AUTO)], timeout_s=240
        )
        try:
            assert values_of(race([launch(grow, root)], timeout_s=240)) == [COMMITS]
        finally:
            stop.touch()
        assert values_of(reading.result()) == [[]]
    graph = LocalGraph(open_graph(str(root), mode=Mode.READ_ONLY))
    assert graph.query(CHAIN).rows() == [{"n": COMMITS}]


def test_threads_that_share_a_graph_build_what_they_need_once(root: Path) -> None:
    grow(root)
    settings = replace(RELAXED, query_access=AccessMode.RESIDENT)
    graph = LocalGraph(open_graph(str(root), mode=Mode.READ_ONLY, settings=settings))
    with ThreadPoolExecutor(8) as threads:
        found = [threads.submit(tear_in, graph) for _ in range(16)]
        assert [each.result() for each in found] == [None] * 16


# ── searches ─────────────────────────────────────────────────────────────────────────────────────

DOCUMENTS = """
node Doc { slug: String @key  body: String @index  n: I64 @index  vec: Vector(2) @index }
"""
PUT = """query put($slug: String, $body: String, $n: I64, $vec: Vector(2)) {
  insert Doc { slug: $slug, body: $body, n: $n, vec: $vec }
}"""
COUNT = "query q() { match { $d: Doc } return { count($d) as n, max($d.n) as top } }"
FOUND = 'query q() { match { $d: Doc search($d.body, "moon") } return { count($d) as n } }'
BEST = """query q($word: String) {
  match { $d: Doc $d.n >= 0 } return { $d.n } order { bm25($d.body, $word) } limit 1
}"""
NEAR = """query q($v: Vector(2)) {
  match { $d: Doc $d.n >= 0 } return { $d.n } order { nearest($d.vec, $v) } limit 1
}"""
ROUNDS = 6


def fill(root: Path) -> int:
    """A document more in each commit, the first one changed in each; indexes and compaction too."""
    graph = LocalGraph(open_graph(str(root), settings=replace(RELAXED, maintenance=False)))
    for at in range(1, ROUNDS + 1):
        for slug, n in (("d0", 0), (f"d{at}", at)):
            values = {"slug": slug, "body": f"moon word{n}", "n": n, "vec": [float(n), float(at)]}
            graph.mutate(PUT, params=values)
        if at % 2 == 0:
            graph.ensure_indices()
        if at % 3 == 0:
            graph.optimize()
    return ROUNDS


def tear_in_searches(graph: LocalGraph) -> str | None:
    snapshot = graph.snapshot()

    def ask(source: str, **params: object) -> list[object]:
        rows = graph.query(source, params=params, snapshot=snapshot).rows()
        return [value for row in rows for value in row.values()]

    count, top = ask(COUNT)
    assert isinstance(top, int)
    found = ask(FOUND)
    best, near = ask(BEST, word=f"word{top}"), ask(NEAR, v=[float(top), float(top)])
    if found == [count] and best == near == [top]:
        return None
    return f"{count} documents, {found} found, {top} on top, best {best}, nearest {near}"


def search_until(root: Path, stop: Path, scan_rows_max: int) -> list[str]:
    """With an index where there is one, or reading every text."""
    graph = open_graph(str(root), mode=Mode.READ_ONLY, settings=RELAXED)
    options = SearchOptions(scan_rows_max=scan_rows_max, kept=KeptTexts())
    search = SearchProvider(
        partial(ranking.match, options=options), partial(ranking.rank, options=options)
    )
    graph._reader = replace(graph._reader, search=search)
    client = LocalGraph(graph)
    torn: list[str] = []
    while True:
        is_last = stop.exists()
        tear = tear_in_searches(client)
        torn += [] if tear is None else [tear]
        if is_last:
            return torn


def test_threads_search_whole_snapshots_while_indexes_are_built(tmp_path: Path) -> None:
    root, stop = tmp_path / "g", tmp_path / "stop"
    graph = LocalGraph(create(str(root), DOCUMENTS, settings=RELAXED))
    graph.insert("Doc", [{"slug": "d0", "body": "moon word0", "n": 0, "vec": [0.0, 0.0]}])
    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(search_until, root, stop, rows) for rows in (0, 1_000)]
        try:
            assert threads.submit(fill, root).result() == ROUNDS
        finally:
            stop.touch()
        assert [each.result() for each in readers] == [[], []]
