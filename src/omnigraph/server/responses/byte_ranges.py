"""What the headers of a request make of a blob: which bytes of it, if any (RFC 9110, 13 and 14).

`If-Match` and `If-Range` compare tags as they stand; a weak tag matches nothing. `If-None-Match`
does not mind whether a tag is weak. A range that cannot be read, or several at once, are ignored,
as the standard allows; only one that is understood and lies outside is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.errors import BlobChanged, BlobRangeInvalid

# No part of these can match the same text in two ways: a header may be long, and made to be slow.
_TAG: Final = re.compile(r'(\*|(?:W/)?"[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)')
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII | re.IGNORECASE)
_DIGITS_MAX: Final = 19
_FAR: Final = 10**_DIGITS_MAX
"""Farther than any blob reaches, and a number that may be spelled."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of a blob. A part of it is answered with 206, all of it with 200."""

    start: int
    end: int
    """The first byte that is no longer meant."""
    is_part: bool


def is_known(headers: Mapping[str, str], tag: str) -> bool:
    """Does the caller have it already? Raises BlobChanged if it insists on another one."""
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
        return everything  # which is no range at all
    if first >= length:
        raise BlobRangeInvalid(start=first, end=last, length=length)
    end = length if last is None else min(last + 1, length)
    return ByteRange(first, end, is_part=True)


def _last_bytes(count: int | None, length: int) -> ByteRange | None:
    """None for what is no range; of an empty blob the last bytes are all of it."""
    if count is None or (count and not length):
        return None
    if not count:
        raise BlobRangeInvalid(start=length, end=None, length=length)
    return ByteRange(max(length - count, 0), length, is_part=True)


def _number(digits: str) -> int | None:
    if not digits:
        return None
    return int(digits) if len(digits) < _DIGITS_MAX else _FAR
