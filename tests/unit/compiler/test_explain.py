"""Conditions and expressions as they are shown; whole plans are golden files."""

import pytest

from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.compiler import ir
from omnigraph.compiler.explain import explain
from omnigraph.compiler.ir import (
    ALWAYS,
    DATE,
    DATETIME,
    F64,
    I64,
    NEVER,
    STRING,
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Condition,
    Constant,
    Member,
    NullTest,
    Operand,
    ParameterRef,
    PropertyOf,
    StringMatch,
    StringTest,
    TextFunction,
    TextMatch,
)
from omnigraph.compiler.phrases import condition_text, expression_text
from omnigraph.compiler.plan import Column, Filter, Limit, OneRow, Project, ReadPlan

TITLE = PropertyOf("a", "title", STRING)
TAGS = PropertyOf("a", "tags", ValueType(Scalar.STRING, is_list=True))
AGE = Compare(PropertyOf("a", "age", I64), Comparator.GE, ParameterRef("lo", I64))
WORD = Constant("still life", STRING)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (AGE, "$a.age >= $lo"),
        (AllOf((AGE, AnyOf((AGE, AGE)))), "$a.age >= $lo and ($a.age >= $lo or $a.age >= $lo)"),
        (AnyOf((AGE, AllOf((AGE, AGE)))), "$a.age >= $lo or $a.age >= $lo and $a.age >= $lo"),
        (NEVER, "false"),
        (ALWAYS, "true"),
        (Member(WORD, TAGS), '$a.tags contains "still life"'),
        (Member(TITLE, (WORD, ParameterRef("w", STRING))), '$a.title in ["still life", $w]'),
        (Member(TITLE, ParameterRef("ws", TAGS.type)), "$a.title in $ws"),
        (StringMatch(TITLE, StringTest.STARTS_WITH, WORD), '$a.title starts_with "still life"'),
        (NullTest(TITLE, negated=True), "$a.title is not null"),
        (NullTest(ir.IdOf("~1"), negated=False), "$_ is null"),
        (
            TextMatch(TextFunction.FUZZY, TITLE, WORD, Constant(1, I64)),
            'fuzzy($a.title, "still life", 1)',
        ),
    ],
)
def test_a_condition_is_shown_as_a_query_would_spell_it(condition: Condition, text: str) -> None:
    assert condition_text(condition) == text


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        (Constant('say "\\"\n', STRING), r'"say \"\\\"\n"'),
        (Constant(19_844, DATE), 'date("2024-05-01")'),
        (Constant(1_714_550_400_000, DATETIME), 'datetime("2024-05-01T08:00:00.000Z")'),
        (Constant((19_844,), ValueType(Scalar.DATE, is_list=True)), '[date("2024-05-01")]'),
        (Constant((0.5, 1.0), ValueType(Vector(2))), "[0.5, 1.0]"),
        (Constant(True, ir.BOOL), "true"),
        (Constant(None, None), "null"),
        (Constant(2.0, F64), "2.0"),
        (ir.Now(), "now()"),
        (
            ir.Aggregate(ir.AggregateFunction.COUNT, TITLE, distinct=True, type=I64),
            "count(distinct $a.title)",
        ),
    ],
)
def test_an_expression_is_shown_as_a_query_would_spell_it(
    operand: Operand | ir.Aggregate, text: str
) -> None:
    assert expression_text(operand) == text


def test_a_plan_hangs_what_is_read_below_what_reads_it() -> None:
    columns = (Column("n", Constant(1, I64), I64), Column("p", ParameterRef("p", I64), I64))
    rows = Limit(Filter(OneRow(), (NEVER,)), ParameterRef("p", I64), None)
    plan = ReadPlan("nothing", (ir.Parameter("p", I64),), Project(rows, columns))
    assert explain(plan).splitlines() == [
        "read nothing($p: I64)",
        "project 1 as n, $p",
        "└─ offset $p",
        "   └─ filter false",
        "      └─ one row",
    ]
