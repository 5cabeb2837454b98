"""What a read may hold, and what it says when it would hold more."""

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.query.result import QueryResult
from omnigraph.engine.settings import AccessMode, Settings
from omnigraph.errors import QueryMemoryExceeded
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
node P { name: String @key  age: I64 }
edge Next: P -> P
node Doc { slug: String @key  body: String @index  year: I64 @index  vec: Vector(64)? }
"""
COUNT = 400
RELAXED = Settings(durability=Durability.RELAXED)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("limits") / "g"
    graph = LocalGraph(create(str(place), SCHEMA, settings=RELAXED))
    graph.insert("P", [{"name": f"p{at:03}", "age": at} for at in range(COUNT)])
    ends = [(at, (at * step) % COUNT) for at in range(COUNT) for step in (2, 3, 5, 7)]
    graph.insert("Next", [{"from": f"p{a:03}", "to": f"p{b:03}"} for a, b in ends])
    bodies = [f"moon {' '.join(f'word{at}x{each}' for each in range(20))}" for at in range(COUNT)]
    graph.insert(
        "Doc",
        [
            {"slug": f"d{at:03}", "body": body, "year": at, "vec": [float(at)] * 64}
            for at, body in enumerate(bodies)
        ],
    )
    return place


def open_with(root: Path, nbytes: int, access: AccessMode = AccessMode.RESIDENT) -> LocalGraph:
    settings = replace(RELAXED, query_memory_bytes_max=nbytes, query_access=access)
    return LocalGraph(open_graph(str(root), mode=Mode.READ_ONLY, settings=settings))


GREEDY = {
    "sort": "match { $a: P $b: P } return { $a.name } order { $b.age } limit 1",
    "project": "match { $a: P $b: P } return { $a.name, $b.name }",
    "aggregate": "match { $a: P $b: P } return { $a.age, $b.age, count($a) as n }",
    "cross join": "match { $a: P $b: P $c: P } return { count($a) as n }",
    "left join": "match { $a: P optional { $b: P $b.age >= $a.age } } return { count($b) as n }",
    "expand": "match { $a: P $a next{1,9} $b } return { count($b) as n }",
}


@pytest.mark.parametrize("operator", GREEDY)
def test_a_greedy_operator_is_named_with_the_setting(root: Path, operator: str) -> None:
    allowed = 1_000 if operator == "cross join" else 3_000
    graph = open_with(root, allowed)
    with pytest.raises(QueryMemoryExceeded) as caught:
        graph.query(f"query q() {{ {GREEDY[operator]} }}")
    assert caught.value.operator == operator
    assert caught.value.setting == "query_memory_bytes_max"
    assert caught.value.allowed == allowed < caught.value.needed
    assert operator in str(caught.value)


SEARCHES = {
    "a clause": 'match { $d: Doc search($d.body, "moon") } return { count($d) as n }',
    "an edit away": 'match { $d: Doc fuzzy($d.body, "noon", 1) } return { count($d) as n }',
    "texts in order": 'match { $d: Doc } return { $d.slug } order { bm25($d.body, "moon") }',
    "some texts in order": "match { $d: Doc $d.year < 300 } return { $d.slug } "
    'order { bm25($d.body, "moon") } limit 3',
    "vectors of rows": "match { $d: Doc $d.year != 3 } return { $d.slug } "
    "order { nearest($d.vec, $v) } limit 3",
    "both": "match { $d: Doc } return { $d.slug } "
    'order { rrf(nearest($d.vec, $v), bm25($d.body, "moon")) } limit 3',
}


def search(root: Path, nbytes: int, name: str, access: AccessMode) -> QueryResult:
    takes_vector = "$v" in SEARCHES[name]
    source = f"query q({'$v: Vector(64)' if takes_vector else ''}) {{ {SEARCHES[name]} }}"
    params = {"v": [7.0] * 64} if takes_vector else {}
    return open_with(root, nbytes, access).query(source, params=params)


@pytest.mark.parametrize("access", [AccessMode.RESIDENT, AccessMode.INDEXED])
@pytest.mark.parametrize("name", SEARCHES)
def test_what_a_search_holds_is_part_of_what_a_read_may(
    root: Path, name: str, access: AccessMode
) -> None:
    assert len(search(root, 16 << 20, name, access)) > 0
    with pytest.raises(QueryMemoryExceeded) as caught:
        search(root, 50_000, name, access)
    assert caught.value.operator == "search"


def test_a_search_lets_go_of_what_only_it_needed(root: Path) -> None:
    """Twenty searches together hold twenty times what one may; one after the other they do not."""
    clauses = " ".join(f'fuzzy($d.body, "word{at}x1", 0)' for at in range(20))
    body = f"query q() {{ match {{ $d: Doc {clauses} }} return {{ $d.slug }} }}"
    nbytes = 50_000
    while True:
        try:
            search(root, nbytes, "an edit away", AccessMode.INDEXED)
            break
        except QueryMemoryExceeded:
            nbytes = nbytes * 5 // 4
    assert len(open_with(root, 2 * nbytes, AccessMode.INDEXED).query(body)) == 0


def test_rows_that_are_fetched_count_too(root: Path) -> None:
    graph = open_with(root, 1_000, AccessMode.INDEXED)
    with pytest.raises(QueryMemoryExceeded) as caught:
        graph.query("query q() { match { $a: P } return { count($a.age) as n } }")
    assert caught.value.operator == "scan"


def test_a_search_from_many_rows_makes_do_with_room_for_one(root: Path) -> None:
    body = "query q() { match { $a: P $a next{1,9} $b } return { count($b) as n } }"
    plenty = open_with(root, 1 << 30).query(body).rows()
    assert open_with(root, 300_000).query(body).rows() == plenty


def test_the_next_read_starts_with_nothing_held(root: Path) -> None:
    graph = open_with(root, 200_000)
    with pytest.raises(QueryMemoryExceeded):
        graph.query(f"query q() {{ {GREEDY['project']} }}")
    body = "query q() { match { $a: P } return { $a.name } order { $a.age } }"
    for _ in range(20):
        assert len(graph.query(body)) == COUNT
