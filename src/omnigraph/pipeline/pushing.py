"""Filters of Spark as filters of tables.

A table may let too much through, never too little: Spark tries every row again. So a filter that
cannot be said exactly is left out, and only costs time.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

import pyarrow as pa
from pyspark.sql import datasource

from omnigraph.catalog.fitting import Misfit, fit_moment
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.ir import Comparator, Scalarish
from omnigraph.engine.filters import NOTHING, compare, one_of, quote
from omnigraph.pipeline.shapes import stored_name

_SCALARS: Final = {
    pa.string(): Scalar.STRING,
    pa.bool_(): Scalar.BOOL,
    pa.int32(): Scalar.I32,
    pa.int64(): Scalar.I64,
    pa.uint32(): Scalar.U32,
    pa.uint64(): Scalar.U64,
    pa.float32(): Scalar.F32,
    pa.float64(): Scalar.F64,
    pa.date32(): Scalar.DATE,
    pa.date64(): Scalar.DATETIME,
}
_COMPARATORS: Final[dict[type[datasource.Filter], Comparator]] = {
    datasource.EqualTo: Comparator.EQ,
    datasource.GreaterThan: Comparator.GT,
    datasource.GreaterThanOrEqual: Comparator.GE,
    datasource.LessThan: Comparator.LT,
    datasource.LessThanOrEqual: Comparator.LE,
}


class Unsaid(Exception):
    """A filter that has no exact form."""


def spell_filters(filters: Sequence[datasource.Filter], schema: pa.Schema) -> str | None:
    """What of these a table can decide; None if nothing."""
    said = []
    for each in filters:
        try:
            said.append(f"({_spell(each, schema)})")
        except Unsaid:
            continue
    return " AND ".join(said) or None


def _spell(asked: datasource.Filter, schema: pa.Schema) -> str:
    """Raises Unsaid."""
    match asked:
        case datasource.IsNull(attribute):
            return f"{quote(_column(attribute, schema))} IS NULL"
        case datasource.IsNotNull(attribute):
            return f"{quote(_column(attribute, schema))} IS NOT NULL"
        case datasource.In(attribute, values):
            column = _column(attribute, schema)
            base = _scalar(column, schema)
            return one_of(column, ValueType(base), [_value(each, base) for each in values])
        case (
            datasource.EqualTo(attribute, value)
            | datasource.GreaterThan(attribute, value)
            | datasource.GreaterThanOrEqual(attribute, value)
            | datasource.LessThan(attribute, value)
            | datasource.LessThanOrEqual(attribute, value)
        ):
            column = _column(attribute, schema)
            base = _scalar(column, schema)
            comparator = _COMPARATORS[type(asked)]
            return compare(column, ValueType(base), comparator, _value(value, base)) or NOTHING
        case _:
            raise Unsaid


def _column(attribute: tuple[str, ...], schema: pa.Schema) -> str:
    name = stored_name(attribute[0])
    if len(attribute) != 1 or name not in schema.names:
        raise Unsaid
    return name


def _scalar(column: str, schema: pa.Schema) -> Scalar:
    found = _SCALARS.get(schema.field(column).type)
    if found is None:
        raise Unsaid
    return found


def _value(value: object, base: Scalar) -> Scalarish:
    """A value of Spark's as the column holds it. Raises Unsaid."""
    match base:
        case Scalar.DATE | Scalar.DATETIME:
            return _moment(value, base)
        case Scalar.STRING:
            if isinstance(value, str):
                return value
        case Scalar.BOOL:
            if isinstance(value, bool):
                return value
        case _:
            if isinstance(value, Decimal) and value == value.to_integral_value():
                return int(value)
            if isinstance(value, int | float) and value == value:  # noqa: PLR0124 - not a NaN
                return value
    raise Unsaid


def _moment(value: object, base: Scalar) -> int:
    if isinstance(value, datetime):
        # Without a zone it is not an instant, and a table counts whole milliseconds.
        if value.tzinfo is None or value.microsecond % 1_000:
            raise Unsaid
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if isinstance(value, date):
        try:
            return fit_moment(value, base)
        except Misfit:
            raise Unsaid from None
    raise Unsaid
