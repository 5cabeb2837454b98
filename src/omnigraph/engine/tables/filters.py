"""Conditions as SQL filters of the table format.

A filter may let too many rows through, never too few: the caller checks each row again against the
exact condition. A comparison is therefore written in a form that the table format decides
correctly: bounds are inclusive and of the column's own type, and a float zero names both zeros. For
integers this loses nothing, because `< n` is `<= n - 1`.
"""

import math
from collections.abc import Collection
from typing import Final

from omnigraph.catalog.precision import to_double, to_single
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, INTEGERS, Scalar, ValueType
from omnigraph.compiler.ir import Comparator, Scalarish

NOTHING: Final = "false"

VALUES_MAX: Final = 500
"""The most values one filter lists: the time to parse a filter grows faster than its length."""

_I64_LOW: Final = INTEGER_BOUNDS[Scalar.I64][0]


def quote(column: str) -> str:
    return f"`{column}`"


def literal(value: Scalarish, base: Scalar) -> str:
    """A SQL literal of a value that the column can hold, with the column's type."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int() if base is Scalar.DATE:
            return f"CAST({value} AS DATE)"
        case int() if base is Scalar.DATETIME:
            return f"arrow_cast({_integer(value)}, 'Date64')"
        case int() if base in INTEGERS:
            return _integer(value)
        case int() | float() if base in FLOATS:
            return repr(float(value))
        case _:
            raise AssertionError(f"{value!r} is not a value of {base}")


def _integer(value: int) -> str:
    # The parser reads the sign and the number apart, and the number alone would not fit.
    return f"CAST('{value}' AS BIGINT)" if value == _I64_LOW else str(value)


def one_of(column: str, value_type: ValueType, values: Collection[Scalarish]) -> str:
    """The column holds one of these values. A null among them is ignored."""
    assert isinstance(value_type.base, Scalar)
    known = {literal(each, value_type.base) for each in values if each is not None}
    if value_type.base in FLOATS and any(each == 0 for each in values):
        known |= {"0.0", "-0.0"}
    return f"{quote(column)} IN ({', '.join(sorted(known))})" if known else NOTHING


def compare(
    column: str, value_type: ValueType, comparator: Comparator, value: Scalarish
) -> str | None:
    """A filter for the rows that may satisfy a comparison; None if no row can."""
    base = value_type.base
    assert isinstance(base, Scalar)
    if value is None:
        return None
    if base in INTEGERS:
        return _compare_integer(column, base, comparator, _as_number(value))
    if base in FLOATS:
        return _compare_float(column, base, comparator, _as_number(value))
    if base is Scalar.BOOL and comparator is not Comparator.EQ:
        return _present(column)
    return f"{quote(column)} {comparator} {literal(value, base)}"


def _present(column: str) -> str:
    return f"{quote(column)} IS NOT NULL"


def _as_number(value: Scalarish) -> float:
    assert isinstance(value, int | float), value
    return value


def _compare_integer(column: str, base: Scalar, comparator: Comparator, value: float) -> str | None:
    low, high = INTEGER_BOUNDS[base]
    match comparator:
        case Comparator.EQ:
            least, most = math.ceil(value), math.floor(value)
        case Comparator.NE:
            least, most = low, high
        case Comparator.LT:
            least, most = low, math.ceil(value) - 1
        case Comparator.LE:
            least, most = low, math.floor(value)
        case Comparator.GT:
            least, most = math.floor(value) + 1, high
        case Comparator.GE:
            least, most = math.ceil(value), high
    least, most = max(least, low), min(most, high)
    if least > most:
        return None
    bounds = []
    if least == most:
        bounds.append(f"{quote(column)} = {_integer(least)}")
    else:
        if least > low:
            bounds.append(f"{quote(column)} >= {_integer(least)}")
        if most < high:
            bounds.append(f"{quote(column)} <= {_integer(most)}")
    return " AND ".join(bounds) or _present(column)


def _compare_float(column: str, base: Scalar, comparator: Comparator, value: float) -> str | None:
    stored = to_single(value) if base is Scalar.F32 else to_double(value)
    if stored is None:
        # The value is less than every value of the column, or greater than every one.
        below = value < 0
        wants_more = comparator in (Comparator.GT, Comparator.GE)
        is_everything = comparator is Comparator.NE or wants_more == below
        return _present(column) if comparator is not Comparator.EQ and is_everything else None
    match comparator:
        case Comparator.EQ:
            return one_of(column, ValueType(base), (stored,)) if stored == value else None
        case Comparator.NE:
            return _present(column)
        case Comparator.LT | Comparator.LE:
            return f"{quote(column)} <= {stored or 0.0!r}"
        case Comparator.GT | Comparator.GE:
            return f"{quote(column)} >= {stored or -0.0!r}"
