"""What texts in requests look like, as the description of the routes tells it.

The engine checks them and says what is wrong in its own words; these patterns are only told, so
that a client can know beforehand. `exclude` tells which fields exclude each other.
"""

from typing import Any, Final

from omnigraph.ids import BRANCH_NAME_MAX

Told = dict[str, Any]

_SEGMENT: Final = r"\.?[\w-]+(\.[\w-]+)*\.?"
_NAME: Final = rf"(?![\s\S]*\.lock\s*$){_SEGMENT}(/{_SEGMENT})*"

BRANCH: Final[Told] = {"pattern": rf"^\s*{_NAME}\s*$", "maxLength": BRANCH_NAME_MAX}
"""Segments of letters, digits, `.`, `-` and `_`, with slashes between them. Space around a name is
dropped."""

MAYBE_BRANCH: Final[Told] = {"pattern": rf"^(\s*{_NAME}\s*)?$", "maxLength": BRANCH_NAME_MAX}
"""An empty name is as good as none."""

DELETABLE: Final[Told] = {"pattern": f"^(?!main$){_NAME}$", "maxLength": BRANCH_NAME_MAX}
"""Every one but main, in an address."""

VERSION_MAX: Final = 2**53 - 1
"""The largest number that every reader of JSON spells as it was sent."""

TIME: Final[Told] = {"format": "date-time"}

PROGRAM: Final[Told] = {"minLength": 1}

TYPE: Final[Told] = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}

PAIR: Final[Told] = {"pattern": r"^[^=]+=[\s\S]+$"}

START: Final[Told] = {"pattern": "^(now|beginning|after:.+)$"}

SIDE: Final[Told] = {"minLength": 1}


def exclude(*groups: tuple[str, ...]) -> Told:
    """Of the fields of a group at most one is given; null is as good as not given."""
    pairs = {(one, other) for group in groups for one in group for other in group if one < other}
    return {"allOf": [_not_both(*each) for each in sorted(pairs)]}


def _not_both(one: str, other: str) -> Told:
    given = {name: {"not": {"type": "null"}} for name in (one, other)}
    return {"not": {"required": [one, other], "properties": given}}
