"""Operands as columns that Spark compares exactly.

Dates and instants compare as the integers that the table stores. Integers up to 64 bits are longs;
a U64 is a decimal. A float against an integer that a double cannot hold is compared through its
floor, because Spark would round the integer.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from pyspark.sql import Column, functions as f

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, Struct, ValueType
from omnigraph.compiler import ir
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import Comparator
from omnigraph.engine.query.columns.rows import ID
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.pipeline.datasource_schema import spark_type
from omnigraph.pipeline.queries.computed import computed_column
from omnigraph.pipeline.queries.rows import SparkRows

WIDE: Final = "decimal(38,0)"
_EXACT_MAX: Final = 2**53
_LONG_MAX: Final = 2**63 - 1
_HALF: Final = float(2**63)


class Kind(Enum):
    """How a column compares."""

    PLAIN = "plain"
    """As Spark compares it: texts and truth values."""
    SHORT = "short"
    """An integer that every double can hold."""
    LONG = "long"
    WIDE = "wide"
    """An integer beyond a long."""
    FLOAT = "float"


@dataclass(frozen=True, slots=True)
class Term:
    column: Column
    kind: Kind


def term_of(operand: ir.Operand, rows: SparkRows, execution: Execution) -> Term | None:
    """The operand, ready for comparison; None if it is null in every row."""
    match operand:
        case ir.PropertyOf(variable, name):
            return stored_term(rows.column(variable, name), operand.type)
        case ir.IdOf(variable):
            return Term(rows.column(variable, ID), Kind.PLAIN)
        case ir.Constant() | ir.ParameterRef() | ir.Now():
            return fixed_term(execution.value_of(operand))
        case ir.Computed() | ir.Choice() | ir.Truth():
            if is_fixed(operand):
                return fixed_term(execution.value_of(operand))
            return stored_term(
                computed_column(operand, operand.type, rows, execution), operand.type
            )
        case ir.PathOf():
            raise AssertionError("a read with paths is refused before")
        case _:
            assert_never(operand)


def stored_term(column: Column, of: ValueType) -> Term:
    """A column or an element of a list, as a table stores it."""
    if of.base is Scalar.DATE:
        return Term(f.unix_date(column), Kind.SHORT)
    if of.base is Scalar.DATETIME:
        return Term(f.unix_millis(column), Kind.LONG)
    if of.base in FLOATS:
        return Term(column.cast("double"), Kind.FLOAT)
    if of.base in (Scalar.I32, Scalar.U32):
        return Term(column.cast("long"), Kind.SHORT)
    if of.base in INTEGERS:
        return Term(column, Kind.WIDE if of.base is Scalar.U64 else Kind.LONG)
    return Term(column, Kind.PLAIN)


def fixed_term(value: object) -> Term | None:
    """A value that is the same for every row; None if it is null."""
    if value is None:
        return None
    if isinstance(value, bool | str):
        return Term(f.lit(value), Kind.PLAIN)
    if isinstance(value, float):
        return Term(f.lit(value), Kind.FLOAT)
    assert isinstance(value, int), value
    if abs(value) > _LONG_MAX:
        return Term(f.lit(str(value)).cast(WIDE), Kind.WIDE)
    return Term(f.lit(value).cast("long"), Kind.SHORT if abs(value) <= _EXACT_MAX else Kind.LONG)


# ── comparing ────────────────────────────────────────────────────────────────────────────────────

_MIRRORED: Final = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.LE: Comparator.GE,
    Comparator.GT: Comparator.LT,
    Comparator.GE: Comparator.LE,
}


def compare(left: Term | None, comparator: Comparator, right: Term | None) -> Column:
    """Null or false where the comparison is not true."""
    if left is None or right is None:
        return f.lit(False)
    match left.kind, right.kind:
        case (Kind.LONG | Kind.WIDE, Kind.FLOAT):
            return _compare_exactly(left.column, comparator, right.column)
        case (Kind.FLOAT, Kind.LONG | Kind.WIDE):
            return _compare_exactly(right.column, _MIRRORED[comparator], left.column)
        case (Kind.FLOAT, _) | (_, Kind.FLOAT):
            both = left.column.cast("double"), right.column.cast("double")
        case (Kind.WIDE, _) | (_, Kind.WIDE):
            both = left.column.cast(WIDE), right.column.cast(WIDE)
        case _:
            both = left.column, right.column
    return _apply(both[0], comparator, both[1])


def _apply(left: Column, comparator: Comparator, right: Column) -> Column:
    match comparator:
        case Comparator.EQ:
            return left == right
        case Comparator.NE:
            return left != right
        case Comparator.LT:
            return left < right
        case Comparator.LE:
            return left <= right
        case Comparator.GT:
            return left > right
        case Comparator.GE:
            return left >= right
        case _:
            assert_never(comparator)


def _compare_exactly(whole: Column, comparator: Comparator, real: Column) -> Column:
    """An integer with a double: through the integer at or below, or at or above, the double."""
    below, above = _as_whole(f.floor(real), real), _as_whole(f.ceil(real), real)
    number = whole.cast(WIDE)
    match comparator:
        case Comparator.EQ:
            return (below == above) & (number == below)
        case Comparator.NE:
            return (below != above) | (number != below)
        case Comparator.LT | Comparator.GE:
            return _apply(number, comparator, above)
        case Comparator.LE | Comparator.GT:
            return _apply(number, comparator, below)
        case _:
            assert_never(comparator)


def _as_whole(rounded: Column, real: Column) -> Column:
    """A rounded double as an integer, exactly. Spark's own cast goes through decimal digits."""
    far = f.lit("1" + "0" * 25).cast(WIDE)
    half = f.lit(str(2**63)).cast(WIDE)
    return (
        f.when(real < -_HALF, -far)
        .when(real < _HALF, rounded.cast("long").cast(WIDE))
        .when(real < 2 * _HALF, (real - _HALF).cast("long").cast(WIDE) + half)
        .when(real.isNotNull(), far)
    )


# ── results ──────────────────────────────────────────────────────────────────────────────────────


def result_of(
    operand: ir.Operand | ir.ObjectOf, of: ValueType, rows: SparkRows, execution: Execution
) -> Column:
    """The operand as a column of a result."""
    match operand:
        case ir.ObjectOf(variable, kind):
            assert isinstance(kind.base, Struct)
            shown = zip(kind.base.fields, operand.fields, strict=True)
            cells = [rows.column(variable, name).alias(label) for (label, _), (name, _) in shown]
            return f.when(rows.column(variable).isNotNull(), f.struct(*cells))
        case ir.PropertyOf(variable, name):
            return rows.column(variable, name)
        case ir.IdOf(variable):
            return rows.column(variable, ID)
        case ir.Constant() | ir.ParameterRef() | ir.Now():
            return fixed_column(execution.value_of(operand), of)
        case ir.Computed() | ir.Choice() | ir.Truth():
            if is_fixed(operand):
                return fixed_column(execution.value_of(operand), of)
            return computed_column(operand, of, rows, execution)
        case ir.PathOf():
            raise AssertionError("a read with paths is refused before")
        case _:
            assert_never(operand)


def fixed_column(value: object, of: ValueType) -> Column:
    if isinstance(value, tuple):
        return f.array(*(_fixed_scalar(each, of) for each in value)).cast(
            spark_type(arrow_type(of))
        )
    return _fixed_scalar(value, of).cast(spark_type(arrow_type(of)))


def _fixed_scalar(value: object, of: ValueType) -> Column:
    if value is None:
        return f.lit(None)
    if of.base is Scalar.DATE:
        return f.date_from_unix_date(f.lit(value))
    if of.base is Scalar.DATETIME:
        return f.timestamp_millis(f.lit(value))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LONG_MAX:
        return f.lit(str(value)).cast(WIDE)
    return f.lit(value)
