"""Converting values from outside to the types of the language, for parameters and for rows.

Nothing is guessed: `3.0` is not an integer and `"3"` is not a number. The callers add their own
rules: which integers may be text, the name of the value in messages, how lists are decoded.
"""

import base64
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final, Self

from omnigraph.catalog.precision import to_double, to_single
from omnigraph.catalog.temporal import TemporalInvalid, parse_date, parse_datetime
from omnigraph.catalog.types import Scalar
from omnigraph.ids import is_encodable

INLINE: Final = "base64:"
"""Text with this prefix encodes the bytes of a Blob; any other text is an address."""


class Misfit(Exception):
    """A value that its type cannot hold. The message gives the reason without the name."""


class Misread(str):
    """A text that its reader could not read as it was told to; fitting it tells the reason."""

    __slots__ = ("reason",)

    def __new__(cls, text: str, reason: str) -> Self:
        made = super().__new__(cls, text)
        made.reason = reason
        return made

    reason: str


def fit_text(value: object) -> str:
    """Raises Misfit."""
    if isinstance(value, Misread):
        raise Misfit(value.reason)
    if not isinstance(value, str):
        raise Misfit(f"expected a string, got {spell_kind(value)}")
    if not is_encodable(value):
        raise Misfit("the text holds half of a surrogate pair")
    return value


def fit_blob_text(value: object) -> str:
    """The bytes of a Blob as text, or its address. Raises Misfit."""
    if isinstance(value, bytes | bytearray | memoryview):
        return INLINE + base64.b64encode(value).decode()
    return fit_text(value)


def fit_boolean(value: object) -> bool:
    """Raises Misfit."""
    if isinstance(value, bool):
        return value
    raise Misfit(f"expected a boolean, got {spell_kind(value)}")


def fit_float(value: object, wanted: Scalar) -> float:
    """A finite number, rounded to the stored precision. Raises Misfit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misfit(f"expected a number, got {spell_kind(value)}")
    number = to_single(value) if wanted is Scalar.F32 else to_double(value)
    if number is None:
        raise Misfit("the number is not finite, or out of range")
    return number


def fit_moment(value: object, wanted: Scalar) -> int:
    """A Date as days, a DateTime as milliseconds; from text or from `datetime`. Raises Misfit."""
    is_date = wanted is Scalar.DATE
    if isinstance(value, Misread):
        raise Misfit(value.reason)
    match value:
        case datetime() if not is_date:
            zoned = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return parse_datetime(zoned.isoformat())
        case date() if is_date and not isinstance(value, datetime):
            return parse_date(value.isoformat())
        case str():
            try:
                return parse_date(value) if is_date else parse_datetime(value)
            except TemporalInvalid as error:
                raise Misfit(f"invalid {wanted} literal '{value[:60]}': {error}") from None
        case _:
            raise Misfit(f"expected a string, got {spell_kind(value)}")


def spell_kind(value: object) -> str:
    """The JSON type of a value, for messages; the value may be long or secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return f"the number {value}"
        case str():
            return "a string"
        case list() | tuple():
            return "an array"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"
