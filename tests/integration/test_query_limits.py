"""What a read may hold, and what it says when it would hold more."""

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.settings import Access, Settings
from omnigraph.errors import QueryMemoryExceeded
from omnigraph.sdk.local import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = "node P { name: String @key  age: I64 }  edge Next: P -> P"
COUNT = 400
RELAXED = Settings(durability=Durability.RELAXED)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("limits") / "g"
    graph = LocalGraph(create(str(place), SCHEMA, settings=RELAXED))
    graph.insert("P", [{"name": f"p{at:03}", "age": at} for at in range(COUNT)])
    ends = [(at, (at * step) % COUNT) for at in range(COUNT) for step in (2, 3, 5, 7)]
    graph.insert("Next", [{"from": f"p{a:03}", "to": f"p{b:03}"} for a, b in ends])
    return place


def open_with(root: Path, nbytes: int, access: Access = Access.RESIDENT) -> LocalGraph:
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


def test_rows_that_are_fetched_count_too(root: Path) -> None:
    graph = open_with(root, 1_000, Access.INDEXED)
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
