"""Plans of graphs with hubs, where the mean number of edges misleads, and what `optimize` tells."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.tables import statistics as kept
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.mapped import MappedFiles

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Follows: Person -> Person
edge Near: Person -> Person
"""
PERSONS, HUBS = 1_500, 5
LIKE_MINDED = """query q() { match { $a: Person $a follows $b $c follows $b $a near $c }
    return { count($c) as n } }"""


def make_lines() -> Sequence[str]:
    """Everyone follows two of five hubs, and is near eight others."""
    lines = [
        json.dumps({"type": "Person", "data": {"name": f"p{at}", "age": at % 50 or None}})
        for at in range(PERSONS)
    ]
    for at in range(HUBS, PERSONS):
        followed = {at % HUBS, (at // HUBS) % HUBS}
        lines += [line("Follows", at, hub) for hub in sorted(followed)]
        lines += [line("Near", at, (at * 7 + 11 * step) % PERSONS) for step in range(8)]
    return lines


def line(edge: str, source: int, target: int) -> str:
    return json.dumps({"edge": edge, "from": f"p{source}", "to": f"p{target}"})


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    folder = tmp_path_factory.mktemp("hubs")
    made = omnigraph.init(folder / "g", SCHEMA, durability=Durability.RELAXED)
    source = folder / "data.jsonl"
    source.write_text("\n".join(make_lines()))
    made.load(str(source), mode="append", engine="local")
    return made


def open_again(graph: LocalGraph) -> LocalGraph:
    return omnigraph.open(graph.uri)


def file_of(graph: LocalGraph) -> Path:
    return Path(graph.uri) / "__mapped" / "graph" / "statistics.arrow"


def forget(graph: LocalGraph) -> bytes:
    """Remove the statistics; what they were."""
    data = file_of(graph).read_bytes()
    file_of(graph).unlink()
    return data


def touched(graph: LocalGraph, text: str) -> int:
    """The rows that all operators of a query yield."""
    return sum(int(str(each["rows"])) for each in graph.explain(text, analyze=True).steps)


def test_statistics_keep_a_plan_away_from_hubs(graph: LocalGraph) -> None:
    graph.optimize()
    forget(graph)
    by_means = touched(open_again(graph), LIKE_MINDED)
    answer = graph.query(LIKE_MINDED).rows()
    graph.optimize()
    fresh = open_again(graph)
    assert touched(fresh, LIKE_MINDED) * 30 < by_means
    assert fresh.query(LIKE_MINDED).rows() == answer
    explained = fresh.explain(LIKE_MINDED, analyze=True).text
    assert explained.endswith("\nexpected from: row counts; degrees of Follows, Near")


def test_statistics_outlive_writes_and_cleanup(graph: LocalGraph) -> None:
    graph.optimize()
    plan = open_again(graph).explain(LIKE_MINDED).text
    writer = open_again(graph)
    writer.mutate('query add() { insert Person { name: "new", age: 3 } }')
    writer.cleanup(keep=1, confirm=True)
    assert open_again(graph).explain(LIKE_MINDED).text == plan


def test_a_running_process_uses_statistics_from_its_next_snapshot_on(graph: LocalGraph) -> None:
    graph.optimize()
    wanted = open_again(graph).explain(LIKE_MINDED).text
    data = forget(graph)
    running = open_again(graph)
    assert running.explain(LIKE_MINDED).text != wanted
    file_of(graph).write_bytes(data)
    running.mutate('query add() { insert Person { name: "newer", age: 3 } }')
    assert running.explain(LIKE_MINDED).text == wanted


def test_a_value_is_expected_as_often_as_it_occurs(graph: LocalGraph) -> None:
    graph.optimize()
    fresh = open_again(graph)
    text = "query q() { match { $p: Person $p.age < 10 } return { $p.name } }"
    found = fresh.explain(text, analyze=True)
    rows, expected = (float(str(found.steps[-1][name])) for name in ("rows", "expected"))
    assert rows == pytest.approx(expected, rel=0.2)
    assert found.text.endswith("\nexpected from: row counts; values of Person.age")


def test_optimize_leaves_statistics_of_what_did_not_change(graph: LocalGraph) -> None:
    graph.optimize()
    mapped = MappedFiles(Path(graph.uri))
    before = mapped.stamp("graph", kept.NAME)
    graph.optimize()
    assert mapped.stamp("graph", kept.NAME) == before
    graph.mutate('query add() { insert Follows { from: "p7", to: "p8" } }')
    graph.optimize()
    assert mapped.stamp("graph", kept.NAME) != before


def test_a_branch_is_planned_by_the_statistics_of_main(graph: LocalGraph) -> None:
    graph.optimize()
    mapped = MappedFiles(Path(graph.uri))
    before = mapped.stamp("graph", kept.NAME)
    graph.branches.create("draft")
    graph.mutate('query add() { insert Near { from: "p7", to: "p8" } }', branch="draft")
    graph.optimize(branch="draft")
    assert mapped.stamp("graph", kept.NAME) == before
    draft = open_again(graph).explain(LIKE_MINDED, branch="draft").text
    assert re.findall("expand.*", draft) == re.findall(
        "expand.*", open_again(graph).explain(LIKE_MINDED).text
    )
