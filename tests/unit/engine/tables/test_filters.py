"""Filters never leave out a row that matches; what they let through is tried again."""

import pytest

from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.ir import Comparator
from omnigraph.engine.tables.filters import NOTHING, compare, literal, one_of

INTEGER = ValueType(Scalar.I32)
BIG = ValueType(Scalar.I64)
FLOAT = ValueType(Scalar.F32)


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        ("it's", Scalar.STRING, "'it''s'"),
        ("'; drop --", Scalar.STRING, "'''; drop --'"),
        (True, Scalar.BOOL, "true"),
        (-(2**63), Scalar.I64, "CAST('-9223372036854775808' AS BIGINT)"),
        (2**64 - 1, Scalar.U64, "18446744073709551615"),
        (19844, Scalar.DATE, "CAST(19844 AS DATE)"),
        (-1, Scalar.DATETIME, "arrow_cast(-1, 'Date64')"),
        (3, Scalar.F64, "3.0"),
        (5e-324, Scalar.F64, "5e-324"),
    ],
)
def test_a_literal_is_typed_as_its_column_is(value: str | float, base: Scalar, text: str) -> None:
    assert literal(value, base) == text


@pytest.mark.parametrize(
    ("comparator", "value", "text"),
    [
        (Comparator.EQ, 2, "`c` = 2"),
        (Comparator.EQ, 2.0, "`c` = 2"),
        (Comparator.EQ, 2.5, None),
        (Comparator.EQ, 2**31, None),
        (Comparator.NE, 2.5, "`c` IS NOT NULL"),
        (Comparator.LT, 2.5, "`c` <= 2"),
        (Comparator.GT, 2.5, "`c` >= 3"),
        (Comparator.LT, 2, "`c` <= 1"),
        (Comparator.GT, 2, "`c` >= 3"),
        (Comparator.LE, 2, "`c` <= 2"),
        (Comparator.GE, 2, "`c` >= 2"),
        (Comparator.LT, -(2**31), None),
        (Comparator.GT, 2**31 - 1, None),
        (Comparator.GE, -(2**40), "`c` IS NOT NULL"),
        (Comparator.LE, -(2**40), None),
        (Comparator.GT, 2**40, None),
        (Comparator.EQ, None, None),
    ],
)
def test_integers_are_compared_within_the_bounds_of_the_column(
    comparator: Comparator, value: float | None, text: str | None
) -> None:
    assert compare("c", INTEGER, comparator, value) == text


@pytest.mark.parametrize(
    ("comparator", "value", "text"),
    [
        (Comparator.EQ, 0.5, "`c` IN (0.5)"),
        (Comparator.EQ, 0.1, None),
        (Comparator.LE, 0, "`c` <= 0.0"),
        (Comparator.GE, 0, "`c` >= -0.0"),
        (Comparator.LT, 1e300, "`c` IS NOT NULL"),
        (Comparator.GT, 1e300, None),
        (Comparator.GT, -1e300, "`c` IS NOT NULL"),
        (Comparator.EQ, 1e300, None),
        (Comparator.NE, 1e300, "`c` IS NOT NULL"),
    ],
)
def test_floats_are_compared_at_the_width_of_the_column(
    comparator: Comparator, value: float, text: str | None
) -> None:
    assert compare("c", FLOAT, comparator, value) == text


def test_a_float_beyond_every_integer_bounds_nothing_or_everything() -> None:
    assert compare("c", BIG, Comparator.LT, 1e300) == "`c` IS NOT NULL"
    assert compare("c", BIG, Comparator.GT, 1e300) is None


def test_one_of_names_both_zeros_and_leaves_nulls_out() -> None:
    assert one_of("c", FLOAT, [0.0]) == "`c` IN (-0.0, 0.0)"
    assert one_of("c", INTEGER, [None]) == NOTHING
    assert one_of("c", INTEGER, [3, None, 3]) == "`c` IN (3)"
