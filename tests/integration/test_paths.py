"""Shortest paths, all of them and by weight, as a reader asks for them."""

from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import AccessMode, Settings
from omnigraph.errors import PathWeightInvalid, QueryMemoryExceeded, QueryTimeout
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

RELAXED = Settings(durability=Durability.RELAXED)

SCHEMA = """
node City { name: String @key }
edge Road: City -> City { km: F64?  toll: I64? }
"""

ROADS: list[tuple[str, str, float | None]] = [
    ("a", "b", 1.0),
    ("b", "d", 1.0),
    ("b", "d", 9.0),
    ("a", "c", 1.0),
    ("c", "d", 1.0),
    ("a", "d", 5.0),
    ("d", "e", 0.0),
    ("e", "f", None),
    ("d", "f", 3.0),
    ("f", "f", 4.0),
    ("f", "g", None),
]

SQUARES = 17
"""One after the other: between their first and their last corner are 2¹⁷ shortest paths."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("paths") / "g"
    graph = omnigraph.init(place, SCHEMA, durability=Durability.RELAXED)
    squares = [f"{kind}{at}" for kind in ("corner", "left", "right") for at in range(SQUARES + 1)]
    graph.insert("City", [{"name": each} for each in [*"abcdefg", *squares]])
    roads = [{"from": near, "to": far, "km": km} for near, far, km in ROADS]
    for at in range(SQUARES):
        for side in ("left", "right"):
            roads += [
                {"from": f"corner{at}", "to": f"{side}{at}", "km": 1.0},
                {"from": f"{side}{at}", "to": f"corner{at + 1}", "km": 1.0},
            ]
    graph.insert("Road", roads)
    return place


@pytest.fixture(scope="module")
def graph(root: Path) -> LocalGraph:
    return open_with(root, RELAXED)


def open_with(root: Path, settings: Settings) -> LocalGraph:
    return LocalGraph(open_graph(str(root), mode=Mode.READ_ONLY, settings=settings))


def ask(graph: LocalGraph, path: str, outputs: str, more: str = "") -> list[tuple[object, ...]]:
    text = (
        f'query q() {{ match {{ $a: City {{ name: "a" }} {path} }} return {{ {outputs} }} {more} }}'
    )
    return [tuple(each.values()) for each in graph.query(text).rows()]


def test_the_bound_on_hops_holds_for_the_cheapest_path(graph: LocalGraph) -> None:
    for high, expected in ((1, (5.0, 1, ["a", "d"])), (2, (2.0, 2, ["a", "b", "d"]))):
        path = f"""shortest {{ $a road{{1,{high}}} $b }} by km as $p  $b.name = "d" """
        assert ask(graph, path, "cost($p) as c, length($p) as n, nodes($p) as v") == [expected]


def test_all_cheapest_paths_are_rows_in_the_order_of_their_ids(graph: LocalGraph) -> None:
    path = """all shortest { $a road{1,9} $b } by km as $p  $b.name in ["d", "e"] """
    expected = [
        (2.0, ["a", "b", "d"]),
        (2.0, ["a", "c", "d"]),
        (2.0, ["a", "b", "d", "e"]),
        (2.0, ["a", "c", "d", "e"]),
    ]
    outputs = "cost($p) as c, nodes($p) as v"
    assert ask(graph, path, outputs, "order { $b.name }") == expected
    assert ask(graph, path, outputs, "order { $b.name } limit 2 offset 1") == expected[1:3]
    counted = "$b.name as b, count(length($p)) as n"
    assert ask(graph, path, counted, "order { $b.name }") == [("d", 2), ("e", 2)]


def test_an_edge_without_a_weight_is_closed(graph: LocalGraph) -> None:
    outputs = "$b.name as b, length($p) as n, cost($p) as c"
    only = '$b.name in ["f", "g"]'
    one = f"shortest {{ $a road{{1,9}} $b }} by km as $p  {only}"
    assert ask(graph, one, outputs, "order { $b.name }") == [("f", 3, 5.0), ("g", None, None)]
    assert ask(graph, f"all {one}", outputs, "order { $b.name }") == [("f", 3, 5.0)] * 2
    none = f"optional {{ all {one} }}"
    assert ask(graph, f'$c: City {{ name: "g" }} {none.replace("$a", "$c")}', "cost($p) as c") == [
        (None,)
    ]


def test_a_loop_is_as_dear_as_its_edge(graph: LocalGraph) -> None:
    found = '$f: City { name: "f" }  shortest { $f road{%s,3} $g } by km as $p  $f = $g'
    assert ask(graph, found % 1, "cost($p) as c, nodes($p) as v") == [(4.0, ["f", "f"])]
    assert ask(graph, found % 0, "cost($p) as c, nodes($p) as v") == [(0.0, ["f"])]


def test_paths_are_counted_in_a_block(graph: LocalGraph) -> None:
    inner = """all shortest { $c road{1,9} $b } by km as $p  $b.name = "d" """
    for least, expected in ((1, [("a",), ("b",), ("c",)]), (2, [("a",)])):
        block = f"$c: City  count {{ {inner} }} >= {least}"
        assert ask(graph, block, "$c.name", "order { $c.name }") == expected


@pytest.mark.parametrize("access", [AccessMode.RESIDENT, AccessMode.INDEXED])
def test_very_many_paths_are_refused_before_they_are_listed(root: Path, access: AccessMode) -> None:
    small = open_with(root, replace(RELAXED, query_memory_bytes_max=2_000_000, query_access=access))
    text = """query q() {
      match {
        $a: City { name: "corner0" }
        $b: City { name: "corner%s" }
        %s shortest { $a road{1,99} $b } as $p
      }
      return { count(length($p)) as n }
    }"""
    with pytest.raises(QueryMemoryExceeded) as caught:
        small.query(text % (SQUARES, "all"))
    assert caught.value.operator == "shortest"
    assert caught.value.needed < 3 * caught.value.allowed, "parts are counted while they grow"
    assert small.query(text % (10, "all")).rows() == [{"n": 1 << 10}]
    assert small.query(text % (SQUARES, "")).rows() == [{"n": 1}]


def test_a_search_for_all_paths_ends_at_its_deadline(graph: LocalGraph) -> None:
    text = """query q() {
      match { $a: City  $b: City  all shortest { $a road{1,} $b } as $p  length($p) = 1000 }
      return { count($a) as n }
    }"""
    with pytest.raises(QueryTimeout):
        graph.query(text, timeout=0.05)


def test_a_weight_that_is_negative_is_refused(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    graph.insert("City", [{"name": each} for each in "abc"])
    graph.insert(
        "Road", [{"from": "a", "to": "b", "km": 1.0}, {"from": "b", "to": "c", "toll": -2}]
    )
    path = "shortest { $a road $b } by %s as $p"
    assert ask(graph, path % "km", "cost($p) as c") == [(1.0,)]
    with pytest.raises(PathWeightInvalid, match="has toll = -2") as caught:
        ask(graph, path % "toll", "cost($p) as c")
    assert (caught.value.edge, caught.value.property, caught.value.value) == ("Road", "toll", -2)
