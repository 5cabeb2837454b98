"""What `explain` expects of each operator, beside what it yields, on the benchmark's graph."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from social_data import fill_graph, make_network
from social_questions import QUESTIONS, Parameters, Question

from omnigraph.engine.opening import open_graph
from omnigraph.sdk.embedded.graph import LocalGraph
from support.golden import check_golden

PERSONS = 900
WRONG_MAX = 12
"""The worst are triangles of one small country, and the few posts of one person."""
GOLDEN = Path(__file__).parents[1] / "golden" / "social"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("social") / "g"
    fill_graph(folder, make_network(PERSONS))
    return folder


def short_name(question: Question) -> str:
    return question.name.replace("'", "").replace(" ", "_")


def find_wrong(graph: LocalGraph, parameters: Parameters) -> Iterator[tuple[object, ...]]:
    for question in QUESTIONS:
        given = parameters.of(question)
        found = graph.explain(parameters.program(question), given, analyze=True)
        for step in found.steps:
            rows, expected = (max(1.0, float(str(step[name]))) for name in ("rows", "expected"))
            if not 1 / WRONG_MAX <= rows / expected <= WRONG_MAX:
                yield question.name, step["operator"], rows, expected


def test_no_expectation_is_wrong_by_more_than_twelve_times(place: Path) -> None:
    """By row counts alone, with what earlier reads left in the cache, and with statistics."""
    graph = LocalGraph(open_graph(str(place)))
    parameters = Parameters(make_network(PERSONS))
    assert not list(find_wrong(graph, parameters))
    assert not list(find_wrong(graph, parameters))
    graph.optimize()
    assert not list(find_wrong(LocalGraph(open_graph(str(place))), parameters))


def test_statistics_leave_good_plans_as_they_are(place: Path) -> None:
    """At this size, no other order is expected to be far cheaper than the usual one."""
    LocalGraph(open_graph(str(place))).optimize()
    graph = LocalGraph(open_graph(str(place)))
    parameters = Parameters(make_network(PERSONS))
    for question in QUESTIONS:
        text = graph.explain(parameters.program(question)).text
        check_golden(text, GOLDEN / f"{short_name(question)}.txt")


def test_what_is_negated_is_left_out_before_it_multiplies(place: Path) -> None:
    """As LSQB's ninth question: the anti join sees pairs of persons, not their interests."""
    graph = LocalGraph(open_graph(str(place)))
    parameters = Parameters(make_network(PERSONS))
    (question,) = [each for each in QUESTIONS if each.name.startswith("q9 ")]
    steps = graph.explain(parameters.program(question), analyze=True).steps
    rows = {str(each["operator"]).split(":")[0]: int(str(each["rows"])) for each in steps}
    assert rows["expand $b <-Knows-> $c"] > rows["anti join on $a, $c"]
    assert rows["expand $c -Interest-> $t"] > 3 * rows["anti join on $a, $c"]


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
