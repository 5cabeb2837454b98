"""Dates and instants: their text, and the numbers that are stored.

A Date is a count of days, a DateTime a count of milliseconds, both since 1970-01-01 UTC. Parsing is
strict: four-digit years, real days, no leap second, no text before or after. Printing is total:
every stored number has a text, even if a load stored it as a plain number outside the years that
can be parsed.
"""

import re
from datetime import date

DAY_MS = 86_400_000

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
"""The Gregorian calendar repeats after this many days, which are 400 years."""

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})"
    r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
    r"(?:Z|([+-])(\d{2}):?(\d{2}))?)?",
    re.ASCII,
)


class TemporalInvalid(ValueError):
    """A text is not a date or an instant. The message says which part is wrong."""


def parse_date(text: str) -> int:
    """`2024-05-01` as days since the epoch."""
    parts = _DATE.fullmatch(text)
    if parts is None:
        raise TemporalInvalid("expected YYYY-MM-DD")
    year, month, day = map(int, parts.groups())
    # Python has no year 0; the year 400 has the same calendar.
    cycles = 1 if year == 0 else 0
    try:
        ordinal = date(year + cycles * _CYCLE_YEARS, month, day).toordinal()
    except ValueError as error:
        raise TemporalInvalid("no such day in the calendar") from error
    return ordinal - cycles * _CYCLE_DAYS - _EPOCH_ORDINAL


def parse_datetime(text: str) -> int:
    """An ISO-8601 instant as milliseconds since the epoch.

    An offset is converted to UTC, a text without one is UTC, a date alone is its midnight.
    Fractions finer than a millisecond are cut off.
    """
    parts = _DATETIME.fullmatch(text)
    if parts is None:
        raise TemporalInvalid("expected YYYY-MM-DDTHH:MM:SS, with an optional fraction and offset")
    day, hour, minute, second, fraction, sign, offset_hour, offset_minute = parts.groups()
    days_ms = parse_date(day) * DAY_MS
    time_ms = _time_ms(hour or "0", minute or "0", second or "0", fraction or "0")
    if sign is None:
        return days_ms + time_ms
    offset_ms = _time_ms(offset_hour, offset_minute, "0", "0")
    return days_ms + time_ms - (offset_ms if sign == "+" else -offset_ms)


def _time_ms(hour: str, minute: str, second: str, fraction: str) -> int:
    hours, minutes, seconds = int(hour), int(minute), int(second)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise TemporalInvalid("no such time of day")
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + int(fraction[:3].ljust(3, "0"))


def format_date(days: int) -> str:
    """`2024-05-01`; years beyond four digits carry a sign."""
    # Shift by whole cycles into the years of Python's calendar, then correct the year.
    cycles, day_of_cycle = divmod(days, _CYCLE_DAYS)
    shifted = date.fromordinal(_EPOCH_ORDINAL + day_of_cycle)
    year = shifted.year + cycles * _CYCLE_YEARS
    text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{text}-{shifted.month:02d}-{shifted.day:02d}"


def format_datetime(ms: int) -> str:
    """`2024-05-01T08:00:00.000Z`: always milliseconds, always UTC."""
    days, ms_of_day = divmod(ms, DAY_MS)
    seconds, millis = divmod(ms_of_day, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{format_date(days)}T{hour:02d}:{minute:02d}:{second:02d}.{millis:03d}Z"
