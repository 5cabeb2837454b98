"""Which form of an answer a request prefers, as its `Accept` says."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.request import parse_http_list

_WORD: Final = r"[!#$%&'*+.^_`|~0-9a-z-]+"
_RANGE: Final = re.compile(rf"{_WORD}/{_WORD}")
_WEIGHT: Final = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def choose_form(accept: Sequence[str], offered: Sequence[str]) -> str:
    """The form that has the greatest weight; among equals the first that is offered.

    `accept` are the values of the header, which may be sent more than once. A part that cannot be
    understood counts as not said. Where nothing offered is accepted, the first is answered all the
    same: clients say `Accept` carelessly, and can use it after all.
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
            # Of one form with several parameters, which we do not tell apart, the best counts.
            ranges[name] = max(ranges.get(name, 0.0), float(weights[0]))
    return ranges


def _weigh(form: str, ranges: dict[str, float]) -> float:
    """What is said most exactly counts: the form itself, then its family, then everything."""
    family = form.partition("/")[0]
    return next((ranges[each] for each in (form, f"{family}/*", "*/*") if each in ranges), 0.0)
