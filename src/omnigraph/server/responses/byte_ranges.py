"""Conditional and range requests for a blob (RFC 9110, sections 13 and 14).

`If-Match` and `If-Range` compare tags strongly, so a weak tag never matches. `If-None-Match`
compares weakly. A range that cannot be parsed, and several ranges at once, are ignored, as the
standard allows. Only a valid range outside the blob is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.errors import BlobChanged, BlobRangeInvalid

# No two parts match the same text: a hostile header cannot make these backtrack.
_TAG: Final = re.compile(r'(\*|(?:W/)?"[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)')
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII | re.IGNORECASE)
_DIGITS_MAX: Final = 19
_FAR: Final = 10**_DIGITS_MAX
"""Beyond the end of any blob."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of a blob. A part is answered with 206, the whole with 200."""

    start: int
    end: int
    """The first byte after the range."""
    is_part: bool


def is_known(headers: Mapping[str, str], tag: str) -> bool:
    """Does the caller have this version? Raises BlobChanged if `If-Match` names others."""
    wanted = headers.get("if-match")
    if wanted is not None and not {"*", tag} & set(_TAG.findall(wanted)):
        raise BlobChanged(expected=wanted, actual=tag)
    known = headers.get("if-none-match")
    if known is None:
        return False
    return bool({"*", tag} & {each.removeprefix("W/") for each in _TAG.findall(known)})


def find_span(headers: Mapping[str, str], tag: str, length: int) -> ByteRange:
    """Raises BlobRangeInvalid."""
    everything = ByteRange(0, length, is_part=False)
    condition = headers.get("if-range")
    requested = _RANGE.fullmatch(headers.get("range", "").strip())
    if requested is None or (condition is not None and condition.strip() != tag):
        return everything
    first, last = map(_number, requested.groups())
    if first is None:
        return _last_bytes(last, length) or everything
    if last is not None and last < first:
        return everything  # not a range
    if first >= length:
        raise BlobRangeInvalid(start=first, end=last, length=length)
    end = length if last is None else min(last + 1, length)
    return ByteRange(first, end, is_part=True)


def _last_bytes(count: int | None, length: int) -> ByteRange | None:
    """None if it is not a range; of an empty blob, the last bytes are the whole blob."""
    if count is None or (count and not length):
        return None
    if not count:
        raise BlobRangeInvalid(start=length, end=None, length=length)
    return ByteRange(max(length - count, 0), length, is_part=True)


def _number(digits: str) -> int | None:
    if not digits:
        return None
    return int(digits) if len(digits) < _DIGITS_MAX else _FAR
