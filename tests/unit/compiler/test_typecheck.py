import pytest
from hypothesis import given, strategies as st

from omnigraph.catalog.types import NUMBERS, Scalar, ValueType, Vector
from omnigraph.compiler.ir import (
    F64,
    I64,
    STRING,
    AggregateFunction,
    Constant,
    IdOf,
    Now,
    Operand,
    ParameterRef,
    PropertyOf,
    StringTest,
)
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import closest
from omnigraph.compiler.typecheck import (
    aggregate_type,
    describe,
    find_aggregate_problem,
    find_comparison_problem,
    find_member_problem,
    find_nearest_problem,
    find_string_problem,
    is_scalar,
)

bases = st.sampled_from(Scalar) | st.builds(Vector, st.integers(1, 4))
value_types = st.builds(
    lambda base, nullable, is_list: ValueType(
        base, nullable=nullable, is_list=is_list and isinstance(base, Scalar)
    ),
    bases,
    st.booleans(),
    st.booleans(),
)
operands: st.SearchStrategy[Operand] = st.one_of(
    st.builds(ParameterRef, st.just("p"), value_types),
    st.builds(PropertyOf, st.just("x"), st.just("p"), value_types),
    st.just(IdOf("x")),
    st.just(Now()),
    st.just(Constant(None, None)),
)


@given(operands, operands)
def test_a_comparison_is_judged_the_same_from_both_sides(left: Operand, right: Operand) -> None:
    forth = find_comparison_problem(left, right)
    back = find_comparison_problem(right, left)
    assert (None if forth is None else forth.rule) == (None if back is None else back.rule)


@given(operands, operands)
def test_what_may_be_compared_are_scalars_of_one_family(left: Operand, right: Operand) -> None:
    if find_comparison_problem(left, right) is not None:
        return
    assert left.type is not None
    assert right.type is not None
    assert is_scalar(left)
    assert is_scalar(right)
    assert left.type.base == right.type.base or {left.type.base, right.type.base} <= NUMBERS


@given(operands, operands, st.sampled_from(StringTest))
def test_strings_are_tested_with_strings_only(
    subject: Operand, pattern: Operand, test: StringTest
) -> None:
    if find_string_problem(subject, pattern, test) is None:
        for each in (subject, pattern):
            assert each.type is not None
            assert each.type.is_string


@given(operands, operands)
def test_only_lists_are_looked_into(needle: Operand, haystack: Operand) -> None:
    if find_member_problem(needle, haystack) is None:
        assert haystack.type is not None
        assert haystack.type.is_list
        assert is_scalar(needle)


@given(function=st.sampled_from(AggregateFunction), argument=operands, distinct=st.booleans())
def test_an_accepted_aggregate_has_a_type(
    function: AggregateFunction, argument: Operand, *, distinct: bool
) -> None:
    if find_aggregate_problem(function, argument, distinct=distinct) is None:
        result = aggregate_type(function, argument)
        never_null = (AggregateFunction.COUNT, AggregateFunction.COLLECT)
        assert result.nullable == (function not in never_null)


@pytest.mark.parametrize("base", [Scalar.DATE, Scalar.DATETIME, Scalar.STRING, *sorted(NUMBERS)])
def test_the_smallest_and_largest_keep_their_type(base: Scalar) -> None:
    argument = PropertyOf("x", "p", ValueType(base))
    for function in (AggregateFunction.MIN, AggregateFunction.MAX):
        assert find_aggregate_problem(function, argument, distinct=False) is None
        assert aggregate_type(function, argument) == ValueType(base, nullable=True)


def test_sums_and_means_are_floats_whatever_is_summed() -> None:
    argument = PropertyOf("x", "p", ValueType(Scalar.U64))
    assert aggregate_type(AggregateFunction.SUM, argument) == F64.optional()
    assert aggregate_type(AggregateFunction.AVG, argument) == F64.optional()
    assert aggregate_type(AggregateFunction.COUNT, argument) == I64


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        (ParameterRef("v", ValueType(Vector(3))), None),
        (ParameterRef("s", STRING), None),
        (Constant((1, 2, 3), ValueType(Scalar.I64, is_list=True)), None),
        (Constant((1, 2), ValueType(Scalar.I64, is_list=True)), QueryRule.T15),
        (Constant((), ValueType(Scalar.STRING, is_list=True)), QueryRule.T15),
        (ParameterRef("v", ValueType(Vector(2))), QueryRule.T15),
        (ParameterRef("l", ValueType(Scalar.F64, is_list=True)), QueryRule.T15),
        (PropertyOf("x", "other", ValueType(Vector(3))), QueryRule.T15),
        (Now(), QueryRule.T15),
    ],
)
def test_nearest_looks_for_a_vector_of_its_length_or_a_text(
    query: Operand, rule: QueryRule | None
) -> None:
    problem = find_nearest_problem(PropertyOf("x", "v", ValueType(Vector(3))), query)
    assert (None if problem is None else problem.rule) == rule


def test_a_long_text_is_shortened_in_messages() -> None:
    shown = describe(Constant("x" * 10_000, STRING))
    assert len(shown) < 80
    assert describe(Constant('a "b"\n', STRING)) == r'the literal "a \"b\"\n"'


@pytest.mark.parametrize(
    ("name", "candidates", "meant"),
    [
        ("titel", ["title", "tags"], "title"),
        ("Artwrok", ["Artist", "Artwork"], "Artwork"),
        ("HANGS", ["Hangs"], "Hangs"),
        ("b", ["a"], None),
        ("floor", ["ref", "title"], None),
        ("", ["a"], None),
    ],
)
def test_the_name_that_was_meant_is_suggested(
    name: str, candidates: list[str], meant: str | None
) -> None:
    assert closest(name, candidates) == meant
