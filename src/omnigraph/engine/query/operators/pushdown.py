"""Conditions as SQL filters that a table scan applies.

A pushed filter may let too many rows through, so a scan evaluates the conditions again. A ranking
counts the rows that pass its filter, so it must know whether the filter is exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from omnigraph.catalog.types import FLOATS, Scalar, ValueType
from omnigraph.compiler import ir
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import STRING, Comparator, Scalarish, Value
from omnigraph.engine.query.operators.conditions import fixed_value
from omnigraph.engine.tables import filters


@dataclass(frozen=True, slots=True)
class Pushed:
    """A SQL filter, and whether it is exact; None is no filter."""

    where: str | None
    is_exact: bool


def push(conditions: Sequence[ir.Condition], parameters: Mapping[str, Value]) -> Pushed:
    """The conditions on one variable, as far as SQL can express them."""
    parts = [_sql(each, parameters) for each in conditions]
    known = [each.where for each in parts if each.where is not None]
    if filters.NOTHING in known:
        return Pushed(filters.NOTHING, is_exact=True)
    where = " AND ".join(f"({each})" for each in known) or None
    return Pushed(where, all(each.is_exact for each in parts))


_ANYTHING = Pushed(None, is_exact=False)
_NOTHING = Pushed(filters.NOTHING, is_exact=True)


def _sql(condition: ir.Condition, parameters: Mapping[str, Value]) -> Pushed:
    match condition:
        case ir.Compare(ir.PropertyOf() | ir.IdOf() as held, comparator, value) if is_fixed(value):
            return _compare(held, comparator, fixed_value(value, parameters))
        case ir.Member(ir.PropertyOf() | ir.IdOf() as held, haystack):
            return _member(held, haystack, parameters)
        case ir.StringMatch(ir.PropertyOf(name=name), test, pattern) if is_fixed(pattern):
            return _string_match(name, test, fixed_value(pattern, parameters))
        case ir.NullTest(ir.PropertyOf(name=name), negated):
            return Pushed(
                f"{filters.quote(name)} IS {'NOT ' if negated else ''}NULL", is_exact=True
            )
        case ir.AllOf(conditions):
            return push(conditions, parameters)
        case ir.AnyOf(conditions):
            parts = [_sql(each, parameters) for each in conditions]
            known = [each.where for each in parts if each.where is not None]
            if len(known) < len(parts):
                return _ANYTHING
            where = " OR ".join(f"({each})" for each in known) or filters.NOTHING
            return Pushed(where, all(each.is_exact for each in parts))
        case (
            ir.Compare()
            | ir.Member()
            | ir.StringMatch()
            | ir.NullTest()
            | ir.TextMatch()
            | ir.Not()
        ):
            return _ANYTHING
        case _:
            assert_never(condition)


def _compare(held: ir.PropertyOf | ir.IdOf, comparator: Comparator, value: Value) -> Pushed:
    column, value_type = _column(held)
    assert not isinstance(value, tuple)
    where = filters.compare(column, value_type, comparator, value)
    if where is None:
        return _NOTHING
    return Pushed(where, _is_exact(value_type, comparator))


def _is_exact(value_type: ValueType, comparator: Comparator) -> bool:
    """`filters.compare` does not express inequality, and its float bounds are inclusive."""
    if value_type.base is Scalar.BOOL:
        return comparator is Comparator.EQ
    if not value_type.is_number:
        return True
    if value_type.base in FLOATS:
        return comparator is Comparator.EQ
    return comparator is not Comparator.NE


def _member(
    held: ir.PropertyOf | ir.IdOf,
    haystack: ir.Operand | tuple[ir.Operand, ...],
    parameters: Mapping[str, Value],
) -> Pushed:
    column, value_type = _column(held)
    if value_type.base is not Scalar.STRING or value_type.is_list:
        return _ANYTHING
    if isinstance(haystack, tuple):
        if not all(map(is_fixed, haystack)):
            return _ANYTHING
        values: Value = tuple(_scalar(fixed_value(each, parameters)) for each in haystack)
    elif is_fixed(haystack):
        values = fixed_value(haystack, parameters)
    else:
        return _ANYTHING
    if values is None:
        return _NOTHING
    assert isinstance(values, tuple)
    if len(values) > filters.VALUES_MAX:
        return _ANYTHING
    return Pushed(filters.one_of(column, STRING, values), is_exact=True)


def _string_match(column: str, test: ir.StringTest, pattern: Value) -> Pushed:
    if pattern is None:
        return _NOTHING
    assert isinstance(pattern, str)
    function = "contains" if test is ir.StringTest.CONTAINS else "starts_with"
    literal = filters.literal(pattern, Scalar.STRING)
    return Pushed(f"{function}({filters.quote(column)}, {literal})", is_exact=True)


def _column(held: ir.PropertyOf | ir.IdOf) -> tuple[str, ValueType]:
    return ("id", STRING) if isinstance(held, ir.IdOf) else (held.name, held.type)


def _scalar(value: Value) -> Scalarish:
    assert not isinstance(value, tuple)
    return value
