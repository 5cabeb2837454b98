"""What `explain` expects of each operator, beside what it yields, on the benchmark's graph."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from social_data import fill_graph, make_network
from social_questions import QUESTIONS, Parameters

from omnigraph.engine.opening import open_graph
from omnigraph.sdk.embedded.graph import LocalGraph

PERSONS = 1_200
WRONG_MAX = 100


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("social") / "g"
    fill_graph(folder, make_network(PERSONS))
    return folder


def find_wrong(graph: LocalGraph, parameters: Parameters) -> Iterator[tuple[object, ...]]:
    for question in QUESTIONS:
        given = parameters.of(question)
        found = graph.explain(parameters.program(question), given, analyze=True)
        for step in found.steps:
            rows, expected = (max(1.0, float(str(step[name]))) for name in ("rows", "expected"))
            if not 1 / WRONG_MAX <= rows / expected <= WRONG_MAX:
                yield question.name, step["operator"], rows, expected


def test_no_expectation_is_wrong_by_more_than_a_hundred_times(place: Path) -> None:
    """Neither by row counts alone, nor with columns and degrees that earlier reads left."""
    graph = LocalGraph(open_graph(str(place)))
    parameters = Parameters(make_network(PERSONS))
    assert not list(find_wrong(graph, parameters))
    assert not list(find_wrong(graph, parameters))


def test_an_expectation_stands_beside_the_rows(place: Path) -> None:
    graph = LocalGraph(open_graph(str(place)))
    text = "query q() { match { $p: Person $p <knows> $f } return { count($f) as n } }"
    graph.query(text)
    found = graph.explain(text, analyze=True)
    by_name = {str(each["operator"]).split(" ")[0]: each for each in found.steps}
    assert by_name["scan"]["expected"] == by_name["scan"]["rows"] == PERSONS
    walked = float(str(by_name["expand"]["rows"]))
    assert by_name["expand"]["expected"] == pytest.approx(walked, rel=0.01)
    assert f"{round(walked):,} expected" in found.text
