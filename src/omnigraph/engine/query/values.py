"""Operands as values: one value for the whole execution, or a column with one value per row.

For comparison, dates and instants are the integers that the table stores. So every compared value
is text, a boolean or a number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.types import ValueType
from omnigraph.compiler import ir
from omnigraph.compiler.ir import NOW_PARAMETER, Operand, Value
from omnigraph.engine.query.rows import ID
from omnigraph.engine.tables.arrays import Array, Mask, is_null, nulls
from omnigraph.engine.tables.columns import carrier_of

ValueOf = Callable[[Operand], object]


@dataclass(frozen=True, slots=True)
class Fixed:
    """One value for every row, in canonical form."""

    value: Value


class Columns(Protocol):
    """Rows that can produce a column of each variable."""

    @property
    def count(self) -> int: ...
    def column(self, variable: str, name: str) -> Array: ...


def is_fixed(operand: Operand) -> bool:
    return isinstance(operand, ir.Constant | ir.ParameterRef | ir.Now)


def fixed_value(operand: Operand, parameters: Mapping[str, Value]) -> Value:
    match operand:
        case ir.Constant(value):
            return value
        case ir.ParameterRef(name):
            return parameters[name]
        case ir.Now():
            return parameters[NOW_PARAMETER]
        case ir.PropertyOf() | ir.IdOf():
            raise AssertionError(f"{operand} has a value for each row")
        case _:
            assert_never(operand)


def stored_column(operand: ir.PropertyOf | ir.IdOf, columns: Columns) -> Array:
    """The column of an operand, as its table stores it."""
    name = ID if isinstance(operand, ir.IdOf) else operand.name
    column = columns.column(operand.variable, name)
    return nulls(len(column), arrow_type(operand.type)) if is_null(column) else column


def object_column(
    operand: ir.ObjectOf, count: int, column_of: Callable[[str], Array], unbound: Mask | None
) -> Array:
    """Objects, built of the columns of their table; null where the variable is unbound."""
    wanted = arrow_type(operand.type)
    assert isinstance(wanted, pa.StructType)
    children: list[Array] = []
    for at, (name, of) in enumerate(operand.fields):
        column = column_of(name)
        kind = wanted.field(at).type
        if is_null(column):
            column = nulls(count, kind)
        children.append(column if column.type == kind or carrier_of(of) else column.cast(kind))
    mask = None if unbound is None else pa.array(unbound)
    made: Array = pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    return made


def value_of(
    operand: Operand, columns: Columns, parameters: Mapping[str, Value]
) -> "Fixed | Array":
    """The value or column of an operand, ready for comparison."""
    if isinstance(operand, ir.PropertyOf | ir.IdOf):
        return as_plain(stored_column(operand, columns), operand.type)
    return Fixed(fixed_value(operand, parameters))


def as_plain(column: Array, value_type: ValueType) -> Array:
    """The column with dates and instants as integers."""
    carrier = carrier_of(value_type)
    return column if carrier is None else column.view(carrier)


def build_column(value: Value, count: int, value_type: ValueType) -> Array:
    """A column that repeats one value."""
    wanted = arrow_type(value_type)
    if value is None:
        return nulls(count, wanted)
    carrier = carrier_of(value_type)
    item = list(value) if isinstance(value, tuple) else value
    if carrier is None:
        return _build([item] * count, wanted)
    return _build([item] * count, carrier).view(wanted)


def _build(items: "list[Any]", kind: pa.DataType) -> Array:
    return pa.array(items, kind)
