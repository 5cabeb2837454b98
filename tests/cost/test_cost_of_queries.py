"""What reads cost, in calls to the stores and in bytes. Never in seconds."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.compiler import compile as compiling
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import create, open_graph, open_in
from omnigraph.engine.query.columns.view import SMALL_ROWS
from omnigraph.engine.query.operators import expand
from omnigraph.engine.query.target import Target
from omnigraph.engine.search import ranking
from omnigraph.engine.search.kept_texts import KeptTexts
from omnigraph.engine.search.provider import SearchProvider
from omnigraph.engine.search.ranking import SearchOptions
from omnigraph.engine.settings import AccessMode, Settings
from omnigraph.engine.write.upkeep import write_indexes
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.lang.source import Source
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Handle, IndexScope, Mark, Staged
from omnigraph.testing.faults import Recorder, watch_stores

SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
PERSON = TableKey("node:Person")
SIDE = BranchName("side")

QUERIES = {
    "scan": "match { $p: Person $p.age >= 1 } return { $p.name } order { $p.name }",
    "look-up": 'match { $p: Person { name: "p1" } } return { $p.age }',
    "walk": 'match { $p: Person { name: "p1" } $p knows{1,3} $q } return { $q.age }',
    "block": "match { $p: Person not { $p knows $_ } } return { $p.name }",
    "count": "match { $p: Person $p knows $q } return { $p.age, count($q) as n }",
}


def ask(graph: Graph, body: str, branch: BranchName = MAIN) -> list[object]:
    found = graph.query(Source("q.gq", f"query q() {{ {body} }}"), target=Target(branch))
    return [row for each in found.json_rows() for row in each.values()]


def calls_of(watched: Recorder, act: Callable[[], object]) -> list[str]:
    watched.calls.clear()
    act()
    return list(watched.calls)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "g"
    settings = Settings(durability=Durability.RELAXED)
    graph = LocalGraph(create(str(place), SCHEMA, settings=settings))
    graph.insert("Person", [{"name": f"p{number}", "age": number} for number in range(5)])
    graph.insert("Knows", [{"from": f"p{at}", "to": f"p{at + 1}"} for at in range(4)])
    return place


def opened(root: Path, access: AccessMode = AccessMode.AUTO) -> tuple[Graph, Recorder]:
    watched = Recorder()
    stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    settings = Settings(durability=Durability.RELAXED, query_access=access)
    return open_in(watch_stores(stores, watched), Mode.READ_WRITE, settings), watched


@pytest.mark.parametrize("name", QUERIES)
def test_a_repeated_query_is_one_probe_and_reads_nothing(root: Path, name: str) -> None:
    graph, watched = opened(root)
    first = ask(graph, QUERIES[name])
    calls = calls_of(watched, lambda: ask(graph, QUERIES[name]))
    assert calls == ["tables.probe"]
    assert ask(graph, QUERIES[name]) == first


@pytest.mark.parametrize("scan_rows_max", [0, 1_000])
def test_a_repeated_search_reads_no_text_again(root: Path, scan_rows_max: int) -> None:
    """Whether the texts were read, or an index was asked for those that can match."""
    graph, watched = opened(root)
    LocalGraph(graph).ensure_indices()
    search_by(graph, SearchOptions(scan_rows_max=scan_rows_max, kept=KeptTexts()))
    body = 'match { $p: Person } return { $p.name } order { bm25($p.name, "p1 p2") } limit 2'
    assert ask(graph, body) == ["p1", "p2"]
    calls = calls_of(watched, lambda: ask(graph, body))
    assert set(calls) == {"tables.probe", "tables.inspect"}


def search_by(graph: Graph, options: SearchOptions) -> None:
    search = SearchProvider(
        partial(ranking.match, options=options), partial(ranking.rank, options=options)
    )
    graph._reader = replace(graph._reader, search=search)


def test_a_first_search_maps_postings_and_reads_the_texts_of_new_rows_only(tmp_path: Path) -> None:
    place = tmp_path / "g"
    settings = Settings(durability=Durability.RELAXED)
    schema = "node Doc { slug: String @key  body: String @index }"
    graph = LocalGraph(create(str(place), schema, settings=settings))
    graph.insert("Doc", [{"slug": f"d{at}", "body": f"w{at} w{at % 7}"} for at in range(50)])
    graph.optimize()
    body = 'match { $d: Doc } return { $d.slug } order { bm25($d.body, "w3 w9") } limit 3'
    fresh, watched = opened(place)
    calls = calls_of(watched, lambda: ask(fresh, body))
    assert calls == ["tables.probe", "tables.open_at", "tables.inspect"], "nothing is read"
    graph.insert("Doc", [{"slug": "new", "body": "w3 w9 w9"}])
    fresh, watched = opened(place)
    calls = calls_of(watched, lambda: ask(fresh, body))
    assert calls.count("tables.scan") == 1, "of the new row"
    assert ask(fresh, body)[0] == "new"


def test_searches_with_new_words_read_all_texts_once_they_cost_as_much(root: Path) -> None:
    graph, watched = opened(root)
    LocalGraph(graph).insert("Person", [{"name": f"q{at} q"} for at in range(20)])
    LocalGraph(graph).ensure_indices()
    search_by(graph, SearchOptions(scan_rows_max=0, kept=KeptTexts()))
    body = 'match {{ $p: Person search($p.name, "{}") }} return {{ $p.age }}'
    calls = [
        calls_of(watched, partial(ask, graph, body.format(word)))
        for word in ("p1", "p2", "q", "p3", "p4")
    ]
    assert [each.count("tables.scan") for each in calls] == [1, 1, 1, 1, 0]


def test_a_prepared_look_up_is_one_probe_and_few_calls_of_python(root: Path) -> None:
    """Its price is that of its calls; a path that grows shows here before any clock does."""
    graph, watched = opened(root)
    statement = LocalGraph(graph).prepare(
        "query q($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
    )
    for name in ("p1", "p2"):
        assert list(statement(name=name)) == [{"p.age": int(name[1])}]
    assert calls_of(watched, lambda: statement({"name": "p3"})) == ["tables.probe"]
    plain = LocalGraph(open_graph(str(root), settings=Settings(durability=Durability.RELAXED)))
    statement = plain.prepare(
        "query q($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
    )
    statement({"name": "p3"})
    made, asked = count_calls(lambda: statement({"name": "p3"}))
    assert made <= 90
    assert asked == ["stat", "open"], "a probe: is there a next version, and what does the hint say"


@pytest.mark.parametrize("weight_max", [expand.WEIGHT_MAX, 1])
def test_walks_that_are_only_counted_are_multiplied(
    root: Path, weight_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of their rows is built, unless a row could stand for too many of them."""
    monkeypatch.setattr(expand, "WEIGHT_MAX", weight_max)
    graph = LocalGraph(open_graph(str(root), settings=Settings(durability=Durability.RELAXED)))
    graph.insert("Knows", [{"from": "p1", "to": f"p{at}"} for at in (0, 3, 4)])
    star = "match { $p: Person $p knows $a $p knows $b $c knows $p } return { count($c) as n }"
    text = f"query q() {{ {star} }}"
    # p1 has four friends and is known by one person; p0, p2 and p3 have one, known by 1, 1 and 2.
    assert list(graph.query(text)) == [{"n": 16 + 1 + 1 + 2}]
    assert list(graph.query(text)) == [{"n": 16 + 1 + 1 + 2}]
    steps = str(graph.explain(text, analyze=True)).splitlines()
    counted = [each for each in steps if "expand" in each and "counted" in each]
    assert len(counted) == (3 if weight_max > 1 else 1)


def count_calls(act: Callable[[], object]) -> tuple[int, list[str]]:
    """How many functions of Python are called, and what is asked of the system."""
    made = 0
    asked: list[str] = []

    def watch(frame: object, event: str, what: object) -> None:  # noqa: ARG001 - as Python calls it
        nonlocal made
        made += event == "call"
        if event == "c_call" and what in (os.stat, os.open):
            asked.append(getattr(what, "__name__", ""))

    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)
    return made, asked


def test_a_repeated_query_is_neither_parsed_nor_planned(root: Path) -> None:
    graph, _ = opened(root)
    ask(graph, QUERIES["walk"])
    before = compiling._compile_once.cache_info()
    ask(graph, QUERIES["walk"])
    after = compiling._compile_once.cache_info()
    assert after == before, "the prepared read is at hand, and nobody looks for its parts"


def test_a_branch_that_shows_the_same_tables_reads_none_of_them(root: Path) -> None:
    graph, watched = opened(root)
    graph.create_branch(SIDE)
    graph.snapshot(SIDE)
    expected = ask(graph, QUERIES["walk"])
    calls = calls_of(watched, lambda: ask(graph, QUERIES["walk"], SIDE))
    assert calls == ["tables.find_branch", "tables.probe"]
    assert ask(graph, QUERIES["walk"], SIDE) == expected


def test_after_a_write_only_the_table_that_moved_is_read_again(root: Path) -> None:
    graph, watched = opened(root)
    ask(graph, QUERIES["scan"])
    ask(graph, QUERIES["walk"])
    LocalGraph(graph).insert("Knows", [{"from": "p4", "to": "p0"}])
    assert calls_of(watched, lambda: ask(graph, QUERIES["scan"])) == ["tables.probe"]
    calls = calls_of(watched, lambda: ask(graph, QUERIES["walk"]))
    assert calls == ["tables.probe", "tables.open_at", "tables.scan"], "the edges, once"


def test_a_branch_made_again_under_its_name_shows_its_own_rows(root: Path) -> None:
    """Its tables may come to the same version numbers on a branch of the same name."""
    graph, _ = opened(root)
    local = LocalGraph(graph)
    for name in ("first", "second"):
        graph.create_branch(SIDE)
        local.insert("Person", [{"name": name, "age": 77}], branch=SIDE)
        body = "match { $p: Person { age: 77 } } return { $p.name }"
        assert ask(graph, body, SIDE) == [name]
        graph.delete_branch(SIDE)


def test_an_indexed_walk_looks_up_edges_and_their_ends(root: Path) -> None:
    graph, watched = opened(root, AccessMode.INDEXED)
    body = 'match { $p: Person { name: "p1" } $p knows $q } return { $q.age }'
    ask(graph, body)
    calls = calls_of(watched, lambda: ask(graph, body))
    assert calls == ["tables.probe", *["tables.read"] * 3], "the start, the edges, the ends"


# ── large tables ─────────────────────────────────────────────────────────────────────────────────


def fill(root: Path, rows: int) -> None:
    names = [f"q{number:07}" for number in range(rows)]
    columns = {"id": names, "name": names, "age": pa.array(range(rows), pa.int32())}
    append_indexed(root, PERSON, pa.table(columns))


def append_indexed(root: Path, key: TableKey, rows: pa.Table) -> None:
    stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    context = WriteContext(stores, Bases(stores))
    catalog = LocalGraph(open_in(stores, Mode.READ_ONLY)).catalog

    def append(handle: Handle, mark: Mark) -> Staged:
        cast = rows.select(handle.schema.names).cast(handle.schema)
        return stores.tables.stage_append(handle, cast, mark)

    def index(handle: Handle, mark: Mark) -> Staged:
        specs = write_indexes(catalog, key)
        staged = stores.tables.stage_indices(handle, specs, IndexScope.UNCOVERED, mark)
        assert staged is not None
        return staged

    for stage in (append, index):
        with acquire_write_locks(context, MAIN, [key]) as lock:
            version = lock.base.manifest.pins[key].version
            run(lock, Change(WriterKind.LOAD, MAIN, (TableWrite(key, version, (stage,)),)))


def bytes_read(graph: Graph, body: str) -> int:
    steps = graph.explain(Source("q.gq", f"query q() {{ {body} }}"), analyze=True).steps
    return sum(each["bytes"] for each in steps if isinstance(each["bytes"], int))


def test_one_look_up_does_not_read_a_large_table_but_many_do_once(root: Path) -> None:
    fill(root, SMALL_ROWS + 10_000)
    graph, _ = opened(root)
    body = 'match { $p: Person { name: "q0000007" } } return { $p.age }'
    assert 0 < bytes_read(graph, body) < 1_000
    read = [bytes_read(graph, body) for _ in range(12)]
    assert sum(each > 100_000 for each in read) == 1, "the columns are read once"
    assert read[-1] == 0, "and kept"
    assert ask(graph, body) == [7]


def test_a_walk_that_turns_out_wide_reads_all_edges_instead_of_many_small_parts(root: Path) -> None:
    """One node knows 4,000, who know 10 each: look-ups alone would be some ninety reads."""
    fill(root, 10 * SMALL_ROWS)
    near = [0] * 4_000 + [1 + at // 10 for at in range(40_000)]
    far = [*range(1, 4_001), *range(50_000, 90_000)]
    ends = {"src": [f"q{at:07}" for at in near], "dst": [f"q{at:07}" for at in far]}
    ids = [f"e{at:07}" for at in range(len(near))]
    append_indexed(root, TableKey("edge:Knows"), pa.table({"id": ids, **ends}))
    graph, watched = opened(root)
    body = (
        'match { $p: Person { name: "q0000000" } $p knows{1,2} $b } '
        "return { $b.name } order { $b.age desc } limit 3"
    )
    calls = calls_of(watched, lambda: ask(graph, body))
    assert calls.count("tables.read") <= 5, calls
    assert ask(graph, body) == ["q0089999", "q0089998", "q0089997"]
    again = calls_of(watched, lambda: ask(graph, body))
    assert again == ["tables.probe", "tables.read"], "the edges are kept; three names are read"


def test_a_cache_without_room_reads_by_index_and_holds_nothing(root: Path) -> None:
    fill(root, SMALL_ROWS + 10_000)
    stores: Stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    settings = Settings(durability=Durability.RELAXED, query_cache_bytes_max=1_000)
    graph = open_in(stores, Mode.READ_ONLY, settings)
    body = 'match { $p: Person { name: "q0000007" } } return { $p.age }'
    assert max(bytes_read(graph, body) for _ in range(12)) < 1_000
    scanned = "match { $p: Person $p.age < 3 } return { $p.age } order { $p.age }"
    assert ask(graph, scanned) == [0, 0, 1, 1, 2, 2]
    assert graph._reader.cache.nbytes <= 1_000


def test_a_change_of_nodes_does_not_read_the_edges_again(root: Path) -> None:
    graph, watched = opened(root)
    before = ask(graph, QUERIES["walk"])
    LocalGraph(graph).upsert("Person", [{"name": "p2", "age": 99}, {"name": "p9", "age": 9}])
    calls = calls_of(watched, lambda: ask(graph, QUERIES["walk"]))
    assert "tables.scan" not in calls, "edges are scanned, columns are read"
    assert sorted(map(str, ask(graph, QUERIES["walk"]))) == sorted(
        "99" if each == 2 else str(each) for each in before
    )


def test_keys_of_an_order_that_decide_nothing_are_not_read(root: Path) -> None:
    graph, _ = opened(root)
    body = "match { $p: Person $p.age >= 0 } return { $p.age } order { $p.age desc, $p.name }"
    assert ask(graph, body) == [4, 3, 2, 1, 0]
    assert not graph.view().node("Person").resident.has(["name"])
    LocalGraph(graph).insert("Person", [{"name": "p9", "age": 4}])
    assert ask(graph, body) == [4, 4, 3, 2, 1, 0]
    assert graph.view().node("Person").resident.has(["name"]), "two are tied"


HUBS = range(-12, 13)

WIDE_WALK = """
import resource, sys
from omnigraph.engine.opening import open_graph
from omnigraph.lang.source import Source
graph = open_graph(sys.argv[1])
steps = "match { $a: Person $a knows $b $b knows $c $c knows $d $a != $d }"
asked = Source("q.gq", "query q() { " + steps + " return { count($d) as n } }")
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    count = graph.query(asked).json_rows()[0]["n"]
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="another C library has rules of its own")
def test_a_repeated_walk_uses_the_memory_that_the_one_before_freed(root: Path) -> None:
    """Its arrays take 80 MB together, one after the other; in a process that did nothing before."""
    graph = LocalGraph(opened(root)[0])
    many = [f"q{at}" for at in range(400)]
    graph.insert("Person", [{"name": each} for each in many])
    ends = [{"from": a, "to": many[(at + by) % 400]} for at, a in enumerate(many) for by in HUBS]
    graph.insert("Knows", ends)
    told = subprocess.check_output([sys.executable, "-c", WIDE_WALK, str(root)], text=True)
    count, faults = map(int, told.split())
    assert count == 6_062_402, "and two along the chain of the others"
    assert faults < 1_000, "each of 20,000 pages was fetched again"
