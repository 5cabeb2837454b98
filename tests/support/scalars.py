"""What the functions of expressions mean, value by value, straight from the rules.

Nothing is shared with `omnigraph.compiler.scalars`: integers are Python's, which never overflow and
are judged afterwards, and dates go through `datetime`.
"""

import calendar
import math
import re
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from omnigraph.catalog.regex import compile_pattern
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, INTEGERS, Scalar, ValueType
from omnigraph.compiler.ir import Function, Value

Given = tuple[Value, ValueType | None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000
_I64 = INTEGER_BOUNDS[Scalar.I64]


def compute(function: Function, given: Sequence[Given], kind: ValueType) -> Value:
    values = [value for value, _ in given]
    if function is Function.COALESCE:
        found = [each for each in given if each[0] is not None]
        return convert(*found[0], kind) if found else None
    if any(value is None for value in values):
        return None
    try:
        return _compute(function, given, kind)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None


def _compute(function: Function, given: Sequence[Given], kind: ValueType) -> Value:
    values = [value for value, _ in given]
    first = values[0]
    match function:
        case Function.CAST:
            return convert(first, given[0][1], kind)
        case Function.CONCAT:
            return "".join(map(str, values))
        case Function.LOWER:
            return "".join(c.lower() if len(c.lower()) == 1 else c for c in str(first))
        case Function.UPPER:
            return "".join(c.upper() if len(c.upper()) == 1 else c for c in str(first))
        case Function.TRIM:
            return str(first).strip(" \t\n\r\v\f")
        case Function.LENGTH:
            return len(str(first))
        case Function.LEN:
            assert isinstance(first, tuple)
            return len(first)
        case Function.AT:
            place = _whole(values[1])
            assert isinstance(first, tuple)
            return first[place - 1] if 1 <= place <= len(first) else None
        case Function.SUBSTRING:
            start = _whole(values[1])
            stop = None if len(values) == 2 else start + _whole(values[2])
            return "".join(
                letter
                for place, letter in enumerate(str(first), start=1)
                if place >= start and (stop is None or place < stop)
            )
        case Function.MATCHES:
            return compile_pattern(str(values[1])).is_found_in(str(first))
        case Function.DATE_DIFF:
            ends = [_moment(each) for each in given[1:]]
            return _unit(str(first), ends[1]) - _unit(str(first), ends[0])
        case (
            Function.YEAR
            | Function.MONTH
            | Function.DAY
            | Function.HOUR
            | Function.MINUTE
            | Function.SECOND
        ):
            return int(getattr(_moment(given[0]), function.value))
        case Function.ADD_DAYS:
            return _days(_moment(given[0]) + timedelta(days=_whole(values[1])))
        case Function.ADD_MILLISECONDS:
            return _milliseconds(_moment(given[0]) + timedelta(milliseconds=_whole(values[1])))
        case Function.ADD_MONTHS:
            moved = _add_months(_moment(given[0]), _whole(values[1]))
            is_date = kind.base is Scalar.DATE
            return _days(moved) if is_date else _milliseconds(moved)
        case _:
            return _number(function, values, kind)


def _number(function: Function, values: Sequence[Value], kind: ValueType) -> Value:
    if kind.base is Scalar.I64:
        numbers: list[int] | list[float] = [_whole(each) for each in values]
    else:
        numbers = [_real(each) for each in values]
    left = numbers[0]
    right = numbers[-1]
    match function:
        case Function.ADD:
            found: float = left + right
        case Function.SUBTRACT:
            found = left - right
        case Function.MULTIPLY:
            found = left * right
        case Function.DIVIDE:
            found = left / right
        case Function.REMAINDER:
            is_whole = isinstance(left, int) and isinstance(right, int)
            found = _remainder(int(left), int(right)) if is_whole else math.fmod(left, right)
        case Function.NEGATE:
            found = -left
        case Function.ABS:
            found = abs(left)
        case Function.FLOOR:
            found = float(math.floor(left)) if isinstance(left, float) else left
        case Function.CEIL:
            found = float(math.ceil(left)) if isinstance(left, float) else left
        case Function.ROUND:
            found = left
            if isinstance(left, float):
                found = math.copysign(math.floor(abs(left) + 0.5), left)
        case _:
            raise AssertionError(function)
    return _within(found)


def _remainder(left: int, right: int) -> int:
    """With the sign of the dividend."""
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _whole(value: Value) -> int:
    assert isinstance(value, int)
    if not _I64[0] <= value <= _I64[1]:
        raise OverflowError
    return value


def _real(value: Value) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _within(number: float) -> float | None:
    if isinstance(number, int):
        return number if _I64[0] <= number <= _I64[1] else None
    return number if math.isfinite(number) else None


# ── moments ──────────────────────────────────────────────────────────────────────────────────────


def _moment(given: Given) -> datetime:
    value, kind = given
    assert isinstance(value, int)
    assert kind is not None
    unit = timedelta(days=value) if kind.base is Scalar.DATE else timedelta(milliseconds=value)
    return _EPOCH + unit


def _days(moment: datetime) -> int:
    return (moment - _EPOCH).days


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _add_months(moment: datetime, months: int) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _unit(unit: str, moment: datetime) -> int:
    match unit:
        case "year":
            return moment.year
        case "month":
            return moment.year * 12 + moment.month
        case "week":
            return (moment.date() - date(1, 1, 1)).days // 7  # a Monday
        case _:
            return (moment - _EPOCH) // timedelta(**{f"{unit}s": 1})


# ── conversions ──────────────────────────────────────────────────────────────────────────────────


def convert(value: Value, given: ValueType | None, wanted: ValueType) -> Value:
    if value is None or given is None:
        return None
    base = wanted.base
    if given.base == base or isinstance(value, tuple):
        return value
    assert isinstance(base, Scalar)
    if isinstance(value, str):
        return _parse(value, base)
    if base is Scalar.STRING:
        return _spell(value, given)
    if base in INTEGERS:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        whole, (low, high) = int(value), INTEGER_BOUNDS[base]
        return whole if low <= whole <= high else None
    if base in FLOATS:
        return _narrowed(float(value), base)
    assert isinstance(value, int)
    return value * _DAY if base is Scalar.DATETIME else value // _DAY


def _narrowed(number: float, base: Scalar) -> float | None:
    if base is Scalar.F32:
        try:
            number = struct.unpack("f", struct.pack("f", number))[0]
        except OverflowError:
            return None
    return number if math.isfinite(number) else None


def _spell(value: float, given: ValueType) -> str:
    match given.base:
        case Scalar.DATE:
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case Scalar.DATETIME:
            moment = _EPOCH + timedelta(milliseconds=value)
            return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
        case Scalar.BOOL:
            return "true" if value else "false"
        case _:
            return repr(value)


def _parse(text: str, base: Scalar) -> Value:
    if base is Scalar.BOOL:
        return {"true": True, "false": False}.get(text)
    if base in INTEGERS:
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
            return None
        low, high = INTEGER_BOUNDS[base]
        return int(text) if low <= int(text) <= high else None
    if base in FLOATS:
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII):
            return None
        return _narrowed(float(Decimal(text)), base)
    try:
        if base is Scalar.DATE:
            is_day = re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII)
            return _days(datetime.fromisoformat(f"{text}T00:00:00+00:00")) if is_day else None
        is_instant = re.fullmatch(r"\d{4}-\d{2}-\d{2}([T ].*)?", text, re.ASCII)
        moment = datetime.fromisoformat(text) if is_instant else None
    except ValueError:
        return None
    return None if moment is None else _milliseconds(moment.replace(tzinfo=moment.tzinfo or UTC))
