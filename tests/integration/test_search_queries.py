"""Searching through queries: text, vectors, both; with scores, filters, branches and embedding."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.embed.providers import mock_vector
from omnigraph.embed.settings import EmbedSettings, Provider
from omnigraph.errors import EmbedderMissing, EmbeddingModelMismatch
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
node Doc {
  slug: String @key
  body: String? @index
  year: I32?
  place: Vector(3)? @index @embed(body)
  other: Vector(3)? @embed(body, model="another-model")
}
edge Cites: Doc -> Doc
"""
ROWS: list[dict[str, object]] = [
    {"slug": "a", "body": "The quick brown fox jumps", "year": 1, "place": [1.0, 0.0, 0.0]},
    {"slug": "b", "body": "a fox, a fox and another fox", "year": 2, "place": [0.0, 1.0, 0.0]},
    {"slug": "c", "body": "jumping over lazy dogs", "year": 3, "place": [0.0, 0.0, 1.0]},
    {"slug": "d", "body": None, "year": 4, "place": None},
    {"slug": "e", "body": "lazy foxes", "year": 5, "place": [0.6, 0.8, 0.0]},
]
MOCK = EmbedSettings(Provider.MOCK, "", "")


@pytest.fixture(params=["without indexes", "with indexes", "with indexes over a part"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> LocalGraph:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    made = omnigraph.open(root, durability=Durability.RELAXED, embedding=MOCK)
    part = 3 if request.param == "with indexes over a part" else len(ROWS)
    made.insert("Doc", ROWS[:part])
    if request.param != "without indexes":
        made.ensure_indices()
    made.insert("Doc", ROWS[part:])
    made.insert("Cites", [{"from": "a", "to": "b"}, {"from": "a", "to": "c"}])
    return made


def ask(
    graph: LocalGraph, match: str, rest: str, branch: str | None = None, **params: object
) -> list[tuple[object, ...]]:
    declared = "$q: String, $v: Vector(3)" if "v" in params else "$q: String"
    text = f"query q({declared}) {{ match {{ {match} }} {rest} }}"
    rows = graph.query(text, params=params, branch=branch).rows()
    return [tuple(row.values()) for row in rows]


def test_clauses_on_one_variable_must_all_be_true(graph: LocalGraph) -> None:
    both = '$d: Doc search($d.body, "fox") match_text($d.body, $q)'
    assert ask(graph, both, "return { $d.slug } order { $d.slug }", q="jump") == [("a",)]
    assert ask(graph, both, "return { $d.slug }", q="the") == []


def test_a_typing_error_is_forgiven(graph: LocalGraph) -> None:
    rest = "return { $d.slug } order { $d.slug }"
    assert ask(graph, "$d: Doc fuzzy($d.body, $q, 1)", rest, q="foz") == [("a",), ("b",), ("e",)]
    assert ask(graph, "$d: Doc search($d.body, $q)", rest, q="foz") == []


def test_the_score_is_a_column_and_filters_come_before_the_best(graph: LocalGraph) -> None:
    rest = "return { $d.slug, bm25($d.body, $q) as score } order { bm25($d.body, $q) } limit 2"
    everything = ask(graph, "$d: Doc", rest, q="fox")
    assert [slug for slug, _ in everything] == ["b", "e"]
    scores = [score for _, score in everything]
    assert all(isinstance(each, float) for each in scores)
    assert scores == sorted(map(float, map(str, scores)), reverse=True)
    later = ask(graph, "$d: Doc $d.year >= 3", rest, q="fox")
    assert later == [each for each in everything if each[0] == "e"]


def test_vectors_are_ordered_by_distance(graph: LocalGraph) -> None:
    rest = (
        "return { $d.slug, nearest($d.place, $v) as far } order { nearest($d.place, $v) } limit 3"
    )
    found = ask(graph, "$d: Doc", rest, q="", v=[1.0, 0.0, 0.0])
    assert [slug for slug, _ in found] == ["a", "e", "b"]
    assert [far for _, far in found] == pytest.approx([0.0, 0.8, 2.0], abs=1e-6)


def test_a_text_is_embedded_where_a_vector_is_wanted(graph: LocalGraph) -> None:
    graph.upsert("Doc", [{"slug": "m", "body": "mock", "place": unit("what I look for")}])
    rest = "return { $d.slug } order { nearest($d.place, $q) } limit 1"
    assert ask(graph, "$d: Doc", rest, q="what I look for") == [("m",)]


def unit(text: str) -> list[float]:
    values = mock_vector(text, 3)
    length = sum(each * each for each in values) ** 0.5
    return [each / length for each in values]


@pytest.mark.usefixtures("graph")
def test_vectors_of_another_model_are_not_compared_with(tmp_path: Path) -> None:
    rest = "return { $d.slug } order { nearest($d.other, $q) } limit 1"
    settings = EmbedSettings(Provider.MOCK, "", "a-model")
    other = omnigraph.open(tmp_path / "g", read_only=True, embedding=settings)
    with pytest.raises(EmbeddingModelMismatch, match="another-model"):
        ask(other, "$d: Doc", rest, q="x")


def test_rankings_are_fused(graph: LocalGraph) -> None:
    rank = "rrf(bm25($d.body, $q), nearest($d.place, $v))"
    rest = f"return {{ $d.slug, {rank} as score }} order {{ {rank} }} limit 3"
    found = ask(graph, "$d: Doc", rest, q="fox", v=[0.0, 1.0, 0.0])
    assert [slug for slug, _ in found] == ["b", "e", "a"]
    assert [score for _, score in found] == pytest.approx([2 / 61, 2 / 62, 2 / 63])


def test_what_is_reached_by_walking_is_ranked_too(graph: LocalGraph) -> None:
    rest = "return { $e.slug } order { bm25($e.body, $q) }"
    assert ask(graph, '$d: Doc { slug: "a" } $d cites $e', rest, q="fox dogs") in (
        [("b",), ("c",)],
        [("c",), ("b",)],
    )
    assert ask(graph, '$d: Doc { slug: "a" } $d cites $e', rest, q="dogs") == [("c",)]


def test_a_branch_finds_its_own_texts(graph: LocalGraph) -> None:
    graph.branches.create("side")
    graph.upsert("Doc", [{"slug": "a", "body": "now about whales"}], branch="side")
    clause, rest = "$d: Doc search($d.body, $q)", "return { $d.slug } order { $d.slug }"
    assert ask(graph, clause, rest, q="whale") == []
    assert ask(graph, clause, rest, "side", q="whale") == [("a",)]
    assert ask(graph, clause, rest, "side", q="fox") == [("b",), ("e",)]


def test_who_has_no_provider_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "OMNIGRAPH_EMBEDDINGS_MOCK"):
        monkeypatch.delenv(name, raising=False)
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    graph.insert("Doc", ROWS)
    rest = "return { $d.slug } order { nearest($d.place, $q) } limit 1"
    with pytest.raises(EmbedderMissing, match="OPENAI_API_KEY"):
        ask(graph, "$d: Doc", rest, q="x")
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    assert len(ask(graph, "$d: Doc", rest, q="x")) == 1
