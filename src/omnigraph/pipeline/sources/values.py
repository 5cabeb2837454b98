"""Columns of values → columns as tables hold them, as long as nothing about them is in doubt.

Incoming columns are typed loosely: texts, numbers, lists of them, as a reader of files finds them.
The result is exactly what `engine.write.coercion` makes of each value. If a value needs a closer
look, or may break a rule, `RowByRowNeeded` is raised for the whole column without a reason, and the
caller reads the rows one by one.

In doubt are always: floats as keys, blobs given as text, and members of a key of several that JSON
would have to escape.
"""

from collections.abc import Mapping
from math import ceil, floor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import Check, Property, Range
from omnigraph.catalog.regex import PatternInvalid, compile_pattern
from omnigraph.catalog.types import INTEGER_BOUNDS, INTEGERS, Scalar, ValueType, Vector
from omnigraph.engine.write.base_rows import Type
from omnigraph.pipeline.sources.identities import new_ids

Column = Any
"""An Arrow array or chunked array; the compute functions take either and return either."""

_DAY: Final = r"^\d{4}-\d{2}-\d{2}$"
_INSTANT: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,3})?Z?$"
_ESCAPED: Final = r'["\\\x00-\x1f]'
_EXACT_FLOAT_MAX: Final = 2**53
_COUNTED: Final[dict[Scalar, pa.DataType]] = {
    Scalar.DATE: pa.int32(),
    Scalar.DATETIME: pa.int64(),
}
"""What a table really holds of a day and of an instant."""


class RowByRowNeeded(Exception):
    """These values need a closer look."""


def fit_column(of: Property, column: Column) -> Column:
    """One property as its table holds it. Raises RowByRowNeeded, or an error of Arrow."""
    if not of.type.nullable:
        require(column)
    whole = joined(column)
    if isinstance(of.type.base, Vector):
        return _vector(whole, of.type)
    if of.type.is_list:
        return _list(whole, of.type)
    return _scalar(whole, of.type)


def require(column: Column) -> Column:
    if column.null_count:
        raise RowByRowNeeded
    return column


def joined(column: Column) -> Column:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def check_all(truths: Column) -> None:
    """True wherever it is not null."""
    if not pc.all(truths, skip_nulls=True, min_count=0).as_py():
        raise RowByRowNeeded


def _scalar(column: Column, value_type: ValueType) -> Column:
    base = value_type.base
    match base:
        case Scalar.F32 | Scalar.F64:
            # Through a double in any case: so a number is rounded as often as in `coercion`.
            double = pc.cast(column, pa.float64(), safe=False)
            stored: Column = pc.cast(double, arrow_type(ValueType(base)), safe=False)
            check_all(pc.is_finite(stored))
            return stored
        case Scalar.DATE | Scalar.DATETIME if pa.types.is_integer(column.type):
            return joined(pc.cast(column, _COUNTED[base])).view(arrow_type(ValueType(base)))
        case Scalar.DATE:
            check_all(pc.match_substring_regex(column, _DAY))
            return pc.cast(column, pa.date32())
        case Scalar.DATETIME:
            check_all(pc.match_substring_regex(column, _INSTANT))
            instants = pc.cast(pc.utf8_rtrim(column, characters="Z"), pa.timestamp("ms"))
            return joined(pc.cast(instants, pa.int64())).view(pa.date64())
        case Scalar.BLOB:
            return _blob(column, value_type)
        case _ if value_type.enum_values is not None:
            known = pc.is_in(column, value_set=pa.array(value_type.enum_values, pa.string()))
            check_all(pc.or_(known, pc.is_null(column)))
            return column
        case _ if base in INTEGERS:
            return pc.cast(column, arrow_type(ValueType(base)))
        case _:
            return column


def _blob(column: Column, value_type: ValueType) -> Column:
    if not pa.types.is_large_binary(column.type):
        raise RowByRowNeeded
    wanted = arrow_type(value_type)
    assert isinstance(wanted, pa.StructType)
    nowhere = pa.nulls(len(column), pa.string())
    absent = joined(pc.is_null(column))
    return pa.StructArray.from_arrays([column, nowhere], fields=list(wanted), mask=absent)


def _list(column: Column, value_type: ValueType) -> Column:
    items = require(column.flatten())
    # An enum limits single values; the items of a list are plain texts to every other writer too.
    stored = _scalar(items, ValueType(value_type.base))
    offsets = pc.subtract(column.offsets, column.offsets[0])
    wanted = arrow_type(value_type)
    assert isinstance(wanted, pa.ListType)
    if column.null_count:
        return pa.ListArray.from_arrays(
            joined(offsets), stored, type=wanted, mask=joined(pc.is_null(column))
        )
    return pa.ListArray.from_arrays(joined(offsets), stored, type=wanted)


def _vector(column: Column, value_type: ValueType) -> Column:
    assert isinstance(value_type.base, Vector)
    check_all(pc.equal(pc.list_value_length(column), pa.scalar(value_type.base.dimension)))
    require(column.flatten())
    doubles: Column = pc.cast(column, pa.list_(pa.float64()), safe=False)
    singles: Column = pc.cast(doubles, pa.list_(pa.float32()), safe=False)
    check_all(pc.is_finite(singles.flatten()))
    return pc.cast(singles, arrow_type(value_type))


# ── identity ─────────────────────────────────────────────────────────────────────────────────────


def identify(type_: Type, given: Column, columns: Mapping[str, Column]) -> tuple[Column, int]:
    """The ids of rows whose columns are read, and how many of them were not made up here.

    `given` are the ids that the rows bring themselves, null where they do not.

    Raises RowByRowNeeded.
    """
    key = type_.key
    if key:
        spelled = _spell(type_, key, columns)
        if given.null_count < len(given):
            check_all(pc.equal(given, spelled))
        return spelled, len(spelled)
    if not given.null_count:
        return given, len(given)
    made = new_ids(len(given))
    ids = made if given.null_count == len(given) else pc.coalesce(given, made)
    return ids, len(given) - given.null_count


def _spell(type_: Type, key: tuple[str, ...], columns: Mapping[str, Column]) -> Column:
    texts = [_key_text(type_, name, require(columns[name])) for name in key]
    if len(texts) == 1:
        return texts[0]
    for text in texts:
        if pc.any(pc.match_substring_regex(text, _ESCAPED), min_count=0).as_py():
            raise RowByRowNeeded
    inner = pc.binary_join_element_wise(*texts, '","')
    return pc.binary_join_element_wise('["', inner, '"]', "")


def _key_text(type_: Type, name: str, column: Column) -> Column:
    member = type_.find(name)
    match Scalar.STRING if member is None else member.type.base:
        case Scalar.STRING:
            return column
        case Scalar.DATE | Scalar.DATETIME as moment:
            return pc.cast(joined(column).view(_COUNTED[moment]), pa.string())
        case base if base is Scalar.BOOL or base in INTEGERS:
            return pc.cast(column, pa.string())
        case _:
            raise RowByRowNeeded


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def check_rules(type_: Type, columns: Mapping[str, Column]) -> None:
    """Every rule that is about single values. Raises RowByRowNeeded."""
    for constraint in type_.constraints:
        if isinstance(constraint, Range):
            _check_range(columns[constraint.property], constraint)
        elif isinstance(constraint, Check):
            _check_pattern(columns[constraint.property], constraint)


def _check_range(column: Column, bounds: Range) -> None:
    for bound, compare, is_low in (
        (bounds.low, pc.greater_equal, True),
        (bounds.high, pc.less_equal, False),
    ):
        if bound is None:
            continue
        limit = _limit(bound, column.type, is_low=is_low)
        check_all(compare(column, limit))


def _limit(bound: float, of: pa.DataType, *, is_low: bool) -> "pa.Scalar[Any]":
    """A bound as a value of the column's own type, so that comparing is exact."""
    if pa.types.is_floating(of):
        if isinstance(bound, int) and abs(bound) > _EXACT_FLOAT_MAX:
            raise RowByRowNeeded
        return pa.scalar(float(bound), pa.float64())
    whole = ceil(bound) if is_low else floor(bound)
    low, high = INTEGER_BOUNDS[Scalar[_NAMES[str(of)]]]
    if not low <= whole <= high:
        raise RowByRowNeeded
    return pa.scalar(whole, of)


_NAMES: Final = {"int32": "I32", "int64": "I64", "uint32": "U32", "uint64": "U64"}


def _check_pattern(column: Column, check: Check) -> None:
    try:
        pattern = compile_pattern(check.pattern)
    except PatternInvalid:
        raise RowByRowNeeded from None
    check_all(pc.less_equal(pc.binary_length(column), pa.scalar(pattern.length_max)))
    check_all(pc.match_substring_regex(column, pattern.text))
