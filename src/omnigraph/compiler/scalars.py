"""What the functions of expressions compute, over whole Arrow columns.

This is the only implementation: the compiler folds constants with it, the engine evaluates morsels
with it, and tasks of Spark evaluate batches with it.

A function of null is null, except `coalesce`. A computation without a value is null too: division
by zero, an integer beyond I64, a float that is not finite, a text that is no number, a day outside
of the years 1 to 9999. So the order in which conditions are evaluated never shows.

Columns are plain: a Date is its days and a DateTime its milliseconds since the epoch, as integers.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.regex import compile_pattern
from omnigraph.catalog.temporal import (
    DAY_MS,
    TemporalInvalid,
    format_date,
    format_datetime,
    parse_date,
    parse_datetime,
)
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, INTEGERS, NUMBERS, Scalar, ValueType
from omnigraph.compiler.ir import Function, Scalarish, Value

# The stubs of Arrow describe less than it accepts, so its functions are used through these.
_pa: Final[Any] = pa
_pc: Final[Any] = pc

Array: TypeAlias = Any
Numbers: TypeAlias = Any

BLANKS: Final = " \t\n\r\v\f"
"""What `trim` removes."""

CALENDAR: Final = (parse_date("0001-01-01"), parse_date("9999-12-31"))

_I64_MIN, _I64_MAX = INTEGER_BOUNDS[Scalar.I64]
_MONTHS_MAX: Final = 200_000
"""More months lead out of the calendar from everywhere."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")

UNITS_MS: Final = {
    "week": 7 * DAY_MS,
    "day": DAY_MS,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
}
UNITS: Final = ("year", "month", *UNITS_MS)
"""The units of `date_diff`."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """One value for every row, in canonical form."""

    value: Value


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a function: its values and its type. The type of a bare null is None."""

    values: Fixed | Array
    type: ValueType | None

    @property
    def is_temporal(self) -> bool:
        return self.type is not None and self.type.base in (Scalar.DATE, Scalar.DATETIME)

    def column(self, count: int, kind: pa.DataType) -> Array:
        """As a column of an Arrow type; the values must fit it."""
        values = self.values
        if isinstance(values, Fixed):
            return repeated(values.value, count, kind)
        return values if values.type == kind else values.cast(kind)


def plain_type(value_type: ValueType) -> pa.DataType:
    """The Arrow type of a plain column."""
    match value_type.base:
        case Scalar.DATE:
            kind: pa.DataType = _pa.int32()
        case Scalar.DATETIME:
            kind = _pa.int64()
        case _:
            return arrow_type(value_type)
    return _pa.list_(_pa.field("item", kind, nullable=True)) if value_type.is_list else kind


def repeated(value: Value, count: int, kind: pa.DataType) -> Array:
    item: Any = list(value) if isinstance(value, tuple) else value
    return _pa.repeat(_pa.scalar(item, kind), count)


def evaluate(function: Function, arguments: Sequence[Argument], result: ValueType) -> Value:
    """The value of a function of fixed values."""
    column = apply(function, arguments, result, 1)
    found: Any = column[0].as_py()
    return tuple(found) if isinstance(found, list) else found


def apply(
    function: Function, arguments: Sequence[Argument], result: ValueType, count: int
) -> Array:
    """A plain column of the result type, with one value per row."""
    found = _apply(function, arguments, result, count)
    kind = plain_type(result)
    return found if found.type == kind else found.cast(kind)


def _apply(
    function: Function, arguments: Sequence[Argument], result: ValueType, count: int
) -> Array:
    match function:
        case (
            Function.ADD
            | Function.SUBTRACT
            | Function.MULTIPLY
            | Function.DIVIDE
            | Function.REMAINDER
        ):
            return _arithmetic(function, arguments, result, count)
        case Function.NEGATE | Function.ABS | Function.FLOOR | Function.CEIL | Function.ROUND:
            return _unary(function, arguments[0], result, count)
        case Function.LOWER | Function.UPPER | Function.TRIM | Function.LENGTH:
            return _text(function, arguments[0].column(count, _pa.string()))
        case Function.CONCAT:
            texts = [each.column(count, _pa.string()) for each in arguments]
            return _pc.binary_join_element_wise(*texts, "", null_handling="emit_null")
        case Function.SUBSTRING:
            return _substring(arguments, count)
        case Function.MATCHES:
            return _matches(arguments[0], arguments[1], count)
        case (
            Function.YEAR
            | Function.MONTH
            | Function.DAY
            | Function.HOUR
            | Function.MINUTE
            | Function.SECOND
        ):
            return _part(function, arguments[0], count)
        case Function.ADD_MONTHS | Function.ADD_DAYS | Function.ADD_MILLISECONDS:
            return _shift(function, arguments[0], arguments[1], count)
        case Function.DATE_DIFF:
            return _difference(arguments, count)
        case Function.COALESCE:
            kind = plain_type(result)
            choices = [convert(each, result, count) for each in arguments]
            return _pc.coalesce(*choices) if choices else _pa.nulls(count, kind)
        case Function.CAST:
            return convert(arguments[0], result, count)
        case Function.LEN:
            return _length(arguments[0], count)
        case Function.AT:
            return _element(arguments[0], arguments[1], count)
        case _:
            assert_never(function)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────


def _arithmetic(
    function: Function, arguments: Sequence[Argument], result: ValueType, count: int
) -> Array:
    if result.base is Scalar.I64:
        (left, left_null), (right, right_null) = (_integers(each, count) for each in arguments)
        with np.errstate(all="ignore"):
            value, is_wrong = _compute_integers(function, left, right)
        return _pa.array(value, mask=left_null | right_null | is_wrong)
    (left, left_null), (right, right_null) = (_floats(each, count) for each in arguments)
    with np.errstate(all="ignore"):
        return _finite(_compute_floats(function, left, right), left_null | right_null)


def _compute_integers(
    function: Function, left: Numbers, right: Numbers
) -> "tuple[Numbers, npt.NDArray[np.bool_]]":
    """The results modulo 2⁶⁴, and which of them are wrong."""
    match function:
        case Function.ADD:
            value = left + right
            return value, ((left ^ value) & (right ^ value)) < 0
        case Function.SUBTRACT:
            value = left - right
            return value, ((left ^ right) & (left ^ value)) < 0
        case Function.MULTIPLY:
            value = left * right
            divisor = np.where(left == 0, 1, left)
            is_wrapped = (left == -1) & (right == _I64_MIN)
            return value, (left != 0) & (is_wrapped | (value // divisor != right))
        case _:
            assert function is Function.REMAINDER, function
            # The smallest integer divided by -1 would overflow, and every remainder is 0 there.
            divisor = np.where((right == 0) | (right == -1), 1, right)
            return np.fmod(left, divisor), right == 0


def _compute_floats(function: Function, left: Numbers, right: Numbers) -> Numbers:
    match function:
        case Function.ADD:
            return left + right
        case Function.SUBTRACT:
            return left - right
        case Function.MULTIPLY:
            return left * right
        case Function.DIVIDE:
            return left / right
        case _:
            assert function is Function.REMAINDER, function
            return np.fmod(left, right)


def _unary(function: Function, argument: Argument, result: ValueType, count: int) -> Array:
    if result.base is Scalar.I64:
        whole, is_null = _integers(argument, count)
        if function not in (Function.NEGATE, Function.ABS):
            return _pa.array(whole, mask=is_null)
        with np.errstate(all="ignore"):
            value = -whole if function is Function.NEGATE else np.abs(whole)
        return _pa.array(value, mask=is_null | (whole == _I64_MIN))
    real, is_null = _floats(argument, count)
    with np.errstate(all="ignore"):
        match function:
            case Function.NEGATE:
                value = -real
            case Function.ABS:
                value = np.abs(real)
            case Function.FLOOR:
                value = np.floor(real)
            case Function.CEIL:
                value = np.ceil(real)
            case _:
                assert function is Function.ROUND, function
                value = np.copysign(np.floor(np.abs(real) + 0.5), real)
    return _finite(value, is_null)


def _integers(argument: Argument, count: int) -> "tuple[Numbers, npt.NDArray[np.bool_]]":
    """As I64, and where there is none: null, or a U64 beyond it."""
    values = argument.values
    if isinstance(values, Fixed):
        value = values.value
        fits = isinstance(value, int) and _I64_MIN <= value <= _I64_MAX
        return np.full(count, value if fits else 0, np.int64), np.full(count, not fits)
    if _pa.types.is_null(values.type):
        return np.zeros(count, np.int64), np.ones(count, np.bool_)
    missing = np.asarray(values.is_null())
    numbers = np.asarray(values.fill_null(0) if values.null_count else values)
    if numbers.dtype == np.uint64:
        missing = missing | (numbers > _I64_MAX)
    return numbers.astype(np.int64), missing


def _floats(argument: Argument, count: int) -> "tuple[Numbers, npt.NDArray[np.bool_]]":
    values = argument.values
    if isinstance(values, Fixed):
        value = values.value
        number = float(value) if isinstance(value, int | float) else None
        return np.full(count, number or 0.0), np.full(count, number is None)
    if _pa.types.is_null(values.type):
        return np.zeros(count), np.ones(count, np.bool_)
    missing = np.asarray(values.is_null())
    numbers = np.asarray(values.fill_null(0) if values.null_count else values)
    return numbers.astype(np.float64), missing


def _finite(value: Numbers, is_null: "npt.NDArray[np.bool_]") -> Array:
    """Without infinities and NaN; the zero has no sign."""
    return _pa.array(value + 0.0, mask=is_null | ~np.isfinite(value))


# ── texts ────────────────────────────────────────────────────────────────────────────────────────


def _text(function: Function, texts: Array) -> Array:
    match function:
        case Function.LOWER:
            return _pc.utf8_lower(texts)
        case Function.UPPER:
            return _pc.utf8_upper(texts)
        case Function.TRIM:
            return _pc.utf8_trim(texts, characters=BLANKS)
        case _:
            assert function is Function.LENGTH, function
            return _pc.utf8_length(texts).cast(_pa.int64())


def _substring(arguments: Sequence[Argument], count: int) -> Array:
    """The characters from a position on, counted from 1; as many as there are of those wanted."""
    texts = arguments[0].column(count, _pa.string())
    bounds = [each.values for each in arguments[1:]]
    if all(isinstance(each, Fixed) for each in bounds):
        start, stop = _window(*(each.value for each in bounds if isinstance(each, Fixed)))
        if start is None:
            return _pa.nulls(count, _pa.string())
        return _pc.utf8_slice_codeunits(texts, start=start, stop=stop)
    columns = [each.column(count, _pa.int64()).to_pylist() for each in arguments[1:]]
    found: list[str | None] = []
    for text, *wanted in zip(texts.to_pylist(), *columns, strict=True):
        start, stop = _window(*wanted)
        found.append(None if text is None or start is None else text[start:stop])
    return _pa.array(found, _pa.string())


def _window(start: Value, *length: Value) -> tuple[int | None, int | None]:
    """From where to where to slice; None for the start if a bound is null."""
    if not isinstance(start, int):
        return None, None
    first = max(start - 1, 0)
    if not length:
        return first, None
    if not isinstance(length[0], int):
        return None, None
    return first, max(start - 1 + length[0], first)


def _matches(text: Argument, pattern: Argument, count: int) -> Array:
    assert isinstance(pattern.values, Fixed), "a pattern is the same for every row"
    if not isinstance(pattern.values.value, str):
        return _pa.nulls(count, _pa.bool_())
    compiled = compile_pattern(pattern.values.value)
    texts = text.column(count, _pa.string()).dictionary_encode()
    found = [
        None if each is None or compiled.is_too_long(each) else compiled.is_found_in(each)
        for each in texts.dictionary.to_pylist()
    ]
    return _pa.array(found, _pa.bool_()).take(texts.indices)


# ── dates and instants ───────────────────────────────────────────────────────────────────────────

_PARTS: Final[dict[Function, Callable[[Any], Any]]] = {
    Function.YEAR: _pc.year,
    Function.MONTH: _pc.month,
    Function.DAY: _pc.day,
    Function.HOUR: _pc.hour,
    Function.MINUTE: _pc.minute,
    Function.SECOND: _pc.second,
}


def _part(function: Function, argument: Argument, count: int) -> Array:
    if argument.type is None:
        return _pa.nulls(count, _pa.int64())
    plain = argument.column(count, plain_type(argument.type))
    is_date = argument.type.base is Scalar.DATE
    found: Array = _PARTS[function](plain.view(_pa.date32() if is_date else _pa.timestamp("ms")))
    return found


def _shift(function: Function, moved: Argument, by: Argument, count: int) -> Array:
    numbers, is_null = _integers(moved, count)
    amount, no_amount = _integers(by, count)
    missing = is_null | no_amount
    if moved.type is None:
        return _pa.nulls(count, _pa.int32())
    is_date = moved.type.base is Scalar.DATE
    unit = 1 if is_date else DAY_MS
    if function is Function.ADD_MONTHS:
        days, rest = np.divmod(numbers, unit)
        shifted = _add_months(days, np.clip(amount, -_MONTHS_MAX, _MONTHS_MAX)) * unit + rest
    else:
        with np.errstate(all="ignore"):
            shifted, is_wrong = _compute_integers(Function.ADD, numbers, amount)
        missing = missing | is_wrong
    low, high = CALENDAR[0] * unit, (CALENDAR[1] + 1) * unit - 1
    missing = missing | (shifted < low) | (shifted > high)
    kept = np.where(missing, 0, shifted)
    return _pa.array(kept.astype(np.int32 if is_date else np.int64), mask=missing)


def _add_months(days: Numbers, months: Numbers) -> Numbers:
    """A month without that day ends at its last."""
    month, day = _months_of(days)
    target = (month + months).astype("datetime64[M]")
    first = target.astype("datetime64[D]").astype(np.int64)
    after = (target + 1).astype("datetime64[D]").astype(np.int64)
    return first + np.minimum(day, after - first - 1)


def _months_of(days: Numbers) -> tuple[Numbers, Numbers]:
    """Months since the epoch, and days since the beginning of the month."""
    whole = days.astype("datetime64[D]").astype("datetime64[M]")
    return whole.astype(np.int64), days - whole.astype("datetime64[D]").astype(np.int64)


def _difference(arguments: Sequence[Argument], count: int) -> Array:
    """How many units begin after the first and up to the second."""
    unit, *ends = arguments
    assert isinstance(unit.values, Fixed), "a unit is a literal"
    (start, no_start), (end, no_end) = (_units(unit.values.value, each, count) for each in ends)
    return _pa.array(end - start, mask=no_start | no_end)


def _units(unit: Value, argument: Argument, count: int) -> "tuple[Numbers, npt.NDArray[np.bool_]]":
    numbers, is_null = _integers(argument, count)
    is_date = argument.type is not None and argument.type.base is Scalar.DATE
    days = numbers if is_date else numbers // DAY_MS
    match unit:
        case "year":
            return _months_of(days)[0] // 12, is_null
        case "month":
            return _months_of(days)[0], is_null
        case "week":  # they begin on Monday, and the epoch was a Thursday
            return (days + 3) // 7, is_null
        case _:
            assert isinstance(unit, str)
            milliseconds = numbers * DAY_MS if is_date else numbers
            return milliseconds // UNITS_MS[unit], is_null


# ── lists ────────────────────────────────────────────────────────────────────────────────────────


def _length(argument: Argument, count: int) -> Array:
    if argument.type is None:
        return _pa.nulls(count, _pa.int64())
    return _pc.list_value_length(argument.column(count, plain_type(argument.type)))


def _element(argument: Argument, position: Argument, count: int) -> Array:
    """The element at a position, counted from 1; null beyond the ends."""
    assert argument.type is not None, "the list has a type"
    lists: Any = argument.column(count, plain_type(argument.type))
    at, is_null = _integers(position, count)
    offsets = np.asarray(lists.offsets).astype(np.int64)
    starts, sizes = offsets[:-1], np.diff(offsets)
    missing = is_null | np.asarray(lists.is_null()) | (at < 1) | (at > sizes)
    places = _pa.array(np.where(missing, 0, starts + at - 1), mask=missing)
    return lists.values.take(places)


# ── conversions ──────────────────────────────────────────────────────────────────────────────────


def convert(argument: Argument, wanted: ValueType, count: int) -> Array:
    """As a column of another type; null where a value has no counterpart in it."""
    given, kind = argument.type, plain_type(wanted)
    if given is None or argument.values == Fixed(None):
        return _pa.nulls(count, kind)
    if given.base == wanted.base or (given.is_list and wanted.is_list):
        return argument.column(count, kind)
    if wanted.base in INTEGERS and given.base in NUMBERS:
        return _to_integer(argument, wanted, count)
    if wanted.base in FLOATS and given.base in NUMBERS:
        real, is_null = _floats(argument, count)
        with np.errstate(all="ignore"):
            narrowed = real.astype(np.float32) if wanted.base is Scalar.F32 else real
        return _finite(narrowed, is_null)
    column = argument.column(count, plain_type(given))
    if given.base is Scalar.DATE and wanted.base is Scalar.DATETIME:
        return _pc.multiply(column.cast(_pa.int64()), _pa.scalar(DAY_MS, _pa.int64()))
    if given.base is Scalar.DATETIME and wanted.base is Scalar.DATE:
        return _to_date(argument, count)
    if given.base is Scalar.BOOL and wanted.base in INTEGERS:
        return column.cast(kind)
    found = [None if each is None else _reread(each, given, wanted) for each in column.to_pylist()]
    return _pa.array(found, kind)


def _to_integer(argument: Argument, wanted: ValueType, count: int) -> Array:
    """A fraction is cut off."""
    assert isinstance(wanted.base, Scalar)
    low, high = INTEGER_BOUNDS[wanted.base]
    values = argument.values
    if isinstance(values, Fixed):
        number: Any = values.value
        whole = int(number) if np.isfinite(number) else None
        fits = whole is not None and low <= whole <= high
        return repeated(whole if fits else None, count, plain_type(wanted))
    missing = np.asarray(values.is_null())
    numbers = np.asarray(values.fill_null(0) if values.null_count else values)
    with np.errstate(all="ignore"):
        if numbers.dtype.kind == "f":
            cut = np.trunc(numbers.astype(np.float64))
            # Both bounds plus one are powers of two, which a float holds.
            missing = missing | ~((cut >= float(low)) & (cut < float(high + 1)))
            numbers = np.where(missing, 0.0, cut)
        elif numbers.dtype == np.uint64:
            missing = missing | (numbers > np.uint64(high))
        else:
            whole_numbers = numbers.astype(np.int64)
            missing = missing | (whole_numbers < low)
            if high < _I64_MAX:
                missing = missing | (whole_numbers > high)
        kept = np.where(missing, 0, numbers)
    return _pa.array(kept.astype(plain_type(wanted).to_pandas_dtype()), mask=missing)


def _to_date(argument: Argument, count: int) -> Array:
    numbers, is_null = _integers(argument, count)
    return _pa.array((numbers // DAY_MS).astype(np.int32), mask=is_null)


def _reread(value: Any, given: ValueType, wanted: ValueType) -> Scalarish:
    """A text from a value, or a value from a text; None if it is not one."""
    if wanted.base is Scalar.STRING:
        match given.base:
            case Scalar.DATE:
                return format_date(value)
            case Scalar.DATETIME:
                return format_datetime(value)
            case Scalar.BOOL:
                return "true" if value else "false"
            case _:
                return repr(value)
    return _parse(value, wanted)


def _parse(text: str, wanted: ValueType) -> Scalarish:
    base = wanted.base
    assert isinstance(base, Scalar)
    if base is Scalar.BOOL:
        return {"true": True, "false": False}.get(text)
    if base in INTEGERS:
        low, high = INTEGER_BOUNDS[base]
        whole = int(text) if _INTEGER.fullmatch(text) else None
        return whole if whole is not None and low <= whole <= high else None
    if base in FLOATS:
        real = float(text) if _DECIMAL.fullmatch(text) else np.inf
        single = float(np.float32(real)) if base is Scalar.F32 else real
        return single if np.isfinite(single) else None
    try:
        return parse_date(text) if base is Scalar.DATE else parse_datetime(text)
    except TemporalInvalid:
        return None
