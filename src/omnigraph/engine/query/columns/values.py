"""Columns of values.

For comparison, dates and instants are the integers that the table stores. So every compared value
is text, a boolean or a number.
"""

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.types import ValueType
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Operand, Value
from omnigraph.engine.query.columns.rows import ID
from omnigraph.engine.tables.arrays import Array, Mask, is_null, nulls
from omnigraph.engine.tables.columns import carrier_of

ValueOf = Callable[[Operand], object]


class Columns(Protocol):
    """Rows that can produce a column of each variable."""

    @property
    def count(self) -> int: ...
    def column(self, variable: str, name: str) -> Array: ...


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
