"""The plans of the questions that `benchmarks/social.py` asks, beside what they should be."""

from pathlib import Path

import pytest
from social_data import SCHEMA, make_network
from social_questions import QUESTIONS, Parameters, Question

from omnigraph.catalog.build import compile_schema
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.explain import explain
from omnigraph.lang.source import Source
from support.golden import check_golden

CASES = Path(__file__).parent / "social"
PARAMETERS = Parameters(make_network(50))
CATALOG = compile_schema(Source("schema.pg", SCHEMA))


def short_name(question: Question) -> str:
    return question.name.replace("'", "").replace(" ", "_")


@pytest.mark.parametrize("question", QUESTIONS, ids=short_name)
def test_a_question_has_the_plan_of_its_golden_file(question: Question) -> None:
    compiled = compile_query(Source("q.gq", PARAMETERS.program(question)), CATALOG)
    check_golden(explain(compiled.plan), CASES / f"{short_name(question)}.txt")


def test_no_golden_plan_is_left_without_its_question() -> None:
    assert {path.stem for path in CASES.glob("*.txt")} == set(map(short_name, QUESTIONS))
