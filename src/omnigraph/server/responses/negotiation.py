"""The media type of an answer, by the `Accept` header of the request."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.request import parse_http_list

_WORD: Final = r"[!#$%&'*+.^_`|~0-9a-z-]+"
_RANGE: Final = re.compile(rf"{_WORD}/{_WORD}")
_WEIGHT: Final = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def choose_form(accept: Sequence[str], offered: Sequence[str]) -> str:
    """The offered type with the greatest weight; among equals, the first offered.

    `accept` holds the values of the header, which may be sent more than once. A part that cannot be
    parsed is ignored. If no offered type is accepted, the first one is returned: many clients send
    an `Accept` that is too narrow, and can read the answer all the same.
    """
    ranges = _read_ranges(",".join(accept).lower())
    weights = [_weigh(each, ranges) for each in offered]
    return offered[weights.index(max(weights))]


def _read_ranges(accept: str) -> dict[str, float]:
    ranges: dict[str, float] = {}
    for element in parse_http_list(accept):
        name, *parameters = (each.strip() for each in element.split(";"))
        weights = [each[2:] for each in parameters if each.startswith("q=")] or ["1"]
        if _RANGE.fullmatch(name) and _WEIGHT.fullmatch(weights[0]):
            # Parameters other than q are ignored; of equal types the greatest weight counts.
            ranges[name] = max(ranges.get(name, 0.0), float(weights[0]))
    return ranges


def _weigh(media: str, ranges: dict[str, float]) -> float:
    """The most specific range counts: the type, then its family, then `*/*`."""
    family = media.partition("/")[0]
    return next((ranges[each] for each in (media, f"{family}/*", "*/*") if each in ranges), 0.0)
