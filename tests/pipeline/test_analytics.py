"""Whole-graph work: in the process and on Spark, by the same definitions."""

import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import analytics
from omnigraph.errors import HeadMoved, TypeUnknown, UsageError
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.spark import frames
from omnigraph.storage.durability import Durability

SCHEMA = """
node Ant { code: String @key  rank: F64?  group: String?  tags: [String]? }
node Bee { code: String @key }
edge Eats: Ant -> Ant { much: I32? }
edge Meets: Ant -> Bee
"""


Pairs = list[tuple[str, str]]

NAMES = [f"a{number:02}" for number in range(24)]


def make_graph(place: Path, seed: int) -> tuple[LocalGraph, Pairs]:
    """Loops, parallel edges, nodes without edges, and several components."""
    pairs = [
        (NAMES[(seed + 7 * at) % 18], NAMES[(seed * at + 5 * at * at) % 18]) for at in range(40)
    ]
    pairs += [("a20", "a21"), ("a20", "a21"), ("a22", "a22")]
    lines = [json.dumps({"type": "Ant", "data": {"code": each, "tags": [each]}}) for each in NAMES]
    lines += [json.dumps({"edge": "eats", "from": a, "to": b}) for a, b in pairs]
    source = place / f"{seed}.jsonl"
    source.write_text("\n".join(lines))
    graph = omnigraph.init(place / f"{seed}.omni", SCHEMA, durability=Durability.RELAXED)
    graph.load(str(source), mode="append", engine="local")
    return graph, pairs


# ── the definitions, over dicts ──────────────────────────────────────────────────────────────────


def slow_ranks(pairs: Pairs, rounds: int) -> dict[str, float]:
    degrees = Counter(a for a, _ in pairs)
    ranks = dict.fromkeys(NAMES, 1 / len(NAMES))
    for _ in range(rounds):
        lost = sum(rank for each, rank in ranks.items() if not degrees[each])
        after = dict.fromkeys(NAMES, (0.15 + 0.85 * lost) / len(NAMES))
        for a, b in pairs:
            after[b] += 0.85 * ranks[a] / degrees[a]
        ranks = after
    return ranks


def slow_groups(pairs: Pairs) -> dict[str, str]:
    groups = {each: each for each in NAMES}
    for _ in NAMES:
        for a, b in pairs:
            groups[a] = groups[b] = min(groups[a], groups[b])
    return groups


def slow_hops(pairs: Pairs, sources: list[str]) -> dict[str, int]:
    hops, hop = dict.fromkeys(sources, 0), 0
    while any(hops[each] == hop for each in hops):
        for a, b in pairs:
            if hops.get(a) == hop:
                hops.setdefault(b, hop + 1)
        hop += 1
    return hops


def slow_triangles(pairs: Pairs) -> dict[str, int]:
    sides = {frozenset(pair) for pair in pairs}
    found = [
        each
        for each in combinations(NAMES, 3)
        if all(frozenset(side) in sides for side in combinations(each, 2))
    ]
    return {name: sum(name in each for each in found) for name in NAMES}


def check(graph: LocalGraph, pairs: Pairs, spark: SparkSession | None) -> None:
    ranks = analytics.pagerank(graph, "Eats", rounds=3, spark=spark).as_dict()
    assert ranks == pytest.approx(slow_ranks(pairs, 3), rel=1e-9)
    groups = analytics.connected_components(graph, "Eats", spark=spark).as_dict()
    assert groups == slow_groups(pairs)
    sources = ["a03", "a20"]
    hops = analytics.shortest_paths(graph, "Eats", sources, spark=spark).as_dict()
    assert hops == slow_hops(pairs, sources)
    assert analytics.triangles(graph, "Eats", spark=spark).as_dict() == slow_triangles(pairs)


@pytest.mark.parametrize("seed", range(3))
def test_the_process_answers_as_the_definitions(tmp_path: Path, seed: int) -> None:
    check(*make_graph(tmp_path, seed), None)


def test_an_empty_graph_has_no_values(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    for function in (analytics.pagerank, analytics.connected_components, analytics.triangles):
        assert function(graph, "Eats").as_dict() == {}


def test_results_become_properties_by_one_commit(tmp_path: Path) -> None:
    graph, _ = make_graph(tmp_path, 7)
    before = len(graph.commits())
    ranks = analytics.pagerank(graph, "Eats")
    ranks.write_back("rank", actor="dana")
    assert len(graph.commits()) == before + 1
    text = "query q() { match { $a: Ant } return { $a.code, $a.rank, $a.tags } }"
    rows = [tuple(each.values()) for each in graph.query(text)]
    assert {code: rank for code, rank, _ in rows} == ranks.as_dict()
    assert all(tags == [code] for code, _, tags in rows), "other properties stay"
    with pytest.raises(HeadMoved):
        ranks.write_back("rank")
    with pytest.raises(UsageError, match="no property 'size'"):
        ranks.write_back("size")
    analytics.connected_components(graph, "Eats").write_back("group")


def test_what_is_no_graph_of_one_type_is_refused(tmp_path: Path) -> None:
    graph, _ = make_graph(tmp_path, 1)
    with pytest.raises(UsageError, match="from Ant to Bee"):
        analytics.pagerank(graph, "Meets")
    with pytest.raises(TypeUnknown):
        analytics.pagerank(graph, "Flies")
    with pytest.raises(UsageError, match="no Ant 'zz'"):
        analytics.shortest_paths(graph, "Eats", ["zz"])


def test_other_libraries_take_the_tables(tmp_path: Path) -> None:
    graph, pairs = make_graph(tmp_path, 1)
    nodes, edges = analytics.tables(graph, "Eats")
    assert sorted(map(str, nodes["id"].to_pylist())) == NAMES
    ends = (edges["src"].to_pylist(), edges["dst"].to_pylist())
    assert sorted(zip(*ends, strict=True)) == sorted(pairs)


def test_frames_have_the_columns_of_graphframes(spark: SparkSession, tmp_path: Path) -> None:
    graph, known = make_graph(tmp_path, 1)
    vertices, edges = frames(graph, "Eats", spark=spark)
    assert vertices.columns == ["id", "code", "group", "rank", "tags"]
    assert edges.columns == ["src", "dst", "id", "much"]
    pairs = sorted((row["src"], row["dst"]) for row in edges.collect())
    assert pairs == sorted(known)


MIXED = """
node Ant { code: String @key  type: String?  size: I32?  scan: Blob? }
node Bee { code: String @key  size: F64? }
edge Eats: Ant -> Ant { much: I32? }
edge Meets: Ant -> Bee
"""


@pytest.fixture
def mixed(tmp_path: Path) -> LocalGraph:
    graph = omnigraph.init(tmp_path / "mixed", MIXED, durability=Durability.RELAXED)
    graph.insert("Ant", [{"code": "x", "type": "red", "size": 1}])
    graph.insert("Bee", [{"code": "x", "size": 0.5}])
    graph.insert("Meets", [{"id": "m", "from": "x", "to": "x"}])
    graph.insert("Eats", [{"id": "e", "from": "x", "to": "x", "much": 3}])
    return graph


OF_ANT = {"code": "x", "Ant_type": "red", "Ant_size": 1, "Bee_size": None}
OF_BEE = {"code": "x", "Ant_type": None, "Ant_size": None, "Bee_size": 0.5}
NODES_OF_ALL = [
    {"id": "Ant:x", "type": "Ant", **OF_ANT},
    {"id": "Bee:x", "type": "Bee", **OF_BEE},
]
EDGES_OF_ALL = [
    {"src": "Ant:x", "dst": "Ant:x", "id": "Eats:e", "type": "Eats", "much": 3},
    {"src": "Ant:x", "dst": "Bee:x", "id": "Meets:m", "type": "Meets", "much": None},
]


def test_tables_of_all_types_tell_them_apart(mixed: LocalGraph) -> None:
    nodes, edges = analytics.tables(mixed)
    assert nodes.sort_by("id").to_pylist() == NODES_OF_ALL
    assert edges.sort_by("id").to_pylist() == EDGES_OF_ALL


def test_frames_of_all_types_tell_them_apart(spark: SparkSession, mixed: LocalGraph) -> None:
    vertices, edges = frames(mixed, spark=spark)
    assert [row.asDict() for row in vertices.orderBy("id").collect()] == NODES_OF_ALL
    assert [row.asDict() for row in edges.orderBy("id").collect()] == EDGES_OF_ALL


def test_a_graph_without_edge_types_is_refused(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", "node Ant { code: String @key }")
    with pytest.raises(UsageError, match="no edge type"):
        analytics.tables(graph)


@pytest.mark.slow
def test_spark_answers_as_the_definitions(spark: SparkSession, tmp_path: Path) -> None:
    check(*make_graph(tmp_path, 2), spark)
