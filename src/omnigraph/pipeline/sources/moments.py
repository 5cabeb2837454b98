"""Dates and instants that are not spelled as ISO 8601, read by a pattern.

A pattern is text with directives, as `strptime` has them: `%d.%m.%Y %H:%M`. It must name a whole
day, or be a count since 1970 (`%s` seconds, `%Q` milliseconds). Nothing else is guessed: a text
that differs from its pattern is a fault.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.fitting import Misread
from omnigraph.catalog.temporal import DAY_MS, TemporalInvalid, parse_date, parse_datetime
from omnigraph.catalog.types import INTEGER_BOUNDS, Scalar
from omnigraph.pipeline.sources.values import Column, RowByRowNeeded, joined

_LONG_MONTHS: Final = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MONTHS: Final = tuple(each[:3] for each in _LONG_MONTHS)
_PARTS: Final[Mapping[str, str]] = {
    "Y": r"(?P<Y>\d{4})",
    "m": r"(?P<m>\d{1,2})",
    "d": r"(?P<d>\d{1,2})",
    "b": rf"(?P<b>{'|'.join(_MONTHS)})",
    "B": rf"(?P<B>{'|'.join(_LONG_MONTHS)})",
    "H": r"(?P<H>\d{1,2})",
    "I": r"(?P<I>\d{1,2})",
    "p": r"(?P<p>am|pm)",
    "M": r"(?P<M>\d{1,2})",
    "S": r"(?P<S>\d{1,2})",
    "f": r"(?P<f>\d{1,9})",
    "z": r"(?P<z>Z|[+-]\d{2}:?\d{2})",
    "s": r"(?P<s>-?\d{1,18})",
    "Q": r"(?P<Q>-?\d{1,18})",
}
_CLOCK: Final = frozenset("HIpMSfz")
_COUNTS: Final = frozenset("sQ")
_NOON: Final = 12


class PatternUnknown(ValueError):
    """A pattern that cannot be read. The message says why."""


def check_pattern(text: str) -> None:
    """Raises PatternUnknown."""
    _compile(text)


@lru_cache(maxsize=64)
def _compile(text: str) -> re.Pattern[str]:
    pieces: list[str] = []
    names: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "%":
            pieces.append(re.escape(text[at]))
            at += 1
            continue
        name = text[at + 1 : at + 2]
        if name == "%":
            pieces.append("%")
        elif name in _PARTS and name not in names:
            pieces.append(_PARTS[name])
            names.append(name)
        else:
            known = " ".join(f"%{each}" for each in _PARTS)
            raise PatternUnknown(f"'%{name}' is given twice, or is none of {known}")
        at += 2
    months = [each for each in names if each in ("m", "b", "B")]
    is_count = len(names) == 1 and names[0] in _COUNTS
    is_day = "Y" in names and "d" in names and len(months) == 1 and not _COUNTS & set(names)
    if not is_count and not is_day:
        raise PatternUnknown("it names neither a day (%Y, %m or %b or %B, %d) nor a count (%s, %Q)")
    if is_day and _CLOCK & set(names) and not {"H", "I"} & set(names):
        raise PatternUnknown("it names a part of a time of day without the hour (%H or %I)")
    if ("I" in names) != ("p" in names) or {"H", "I"} <= set(names):
        raise PatternUnknown("%I goes with %p, and without %H")
    return re.compile("".join(pieces), re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MomentPattern:
    """How the texts of one column spell a Date or a DateTime."""

    text: str
    scalar: Scalar

    def read(self, text: str) -> int | Misread:
        """The number that is stored."""
        try:
            number = self._read(text)
        except TemporalInvalid as error:
            return Misread(text, f"'{text[:60]}' does not follow '{self.text}': {error}")
        is_date = self.scalar is Scalar.DATE
        low, high = INTEGER_BOUNDS[Scalar.I32 if is_date else Scalar.I64]
        if not low <= number <= high:
            return Misread(text, f"'{text[:60]}' is out of range")
        return number

    def read_column(self, column: Column) -> Column:
        """A column of texts as numbers. Raises RowByRowNeeded."""
        encoded = pc.dictionary_encode(joined(column))
        numbers = [self.read(each) for each in encoded.dictionary.to_pylist()]
        if any(isinstance(each, Misread) for each in numbers):
            raise RowByRowNeeded
        stored = pa.int32() if self.scalar is Scalar.DATE else pa.int64()
        return pa.array(numbers, stored).take(encoded.indices)

    def _read(self, text: str) -> int:
        """Raises TemporalInvalid."""
        found = _compile(self.text).fullmatch(text)
        if found is None:
            raise TemporalInvalid("it is spelled otherwise")
        parts = found.groupdict()
        is_date = self.scalar is Scalar.DATE
        if (count := parts.get("s") or parts.get("Q")) is not None:
            ms = int(count) * (1_000 if parts.get("s") else 1)
            return ms // DAY_MS if is_date else ms
        month = int(parts["m"]) if parts.get("m") else _month_of(parts)
        day = f"{parts['Y']}-{month:02}-{int(parts['d']):02}"
        if is_date:
            return parse_date(day)
        hour = int(parts.get("H") or 0)
        if parts.get("I") is not None:
            if not 1 <= int(parts["I"]) <= _NOON:
                raise TemporalInvalid("no such time of day")
            hour = int(parts["I"]) % _NOON + (_NOON if parts["p"].lower() == "pm" else 0)
        minute, second = int(parts.get("M") or 0), int(parts.get("S") or 0)
        fraction = f".{parts['f']}" if parts.get("f") else ""
        zone = (parts.get("z") or "").upper()
        return parse_datetime(f"{day}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}")


def _month_of(parts: Mapping[str, str]) -> int:
    if parts.get("b"):
        return _MONTHS.index(parts["b"].lower()) + 1
    return _LONG_MONTHS.index(parts["B"].lower()) + 1
