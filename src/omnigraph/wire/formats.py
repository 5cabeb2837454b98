"""JSON Schema of texts in requests, for the OpenAPI description of the routes.

The patterns only inform clients: the engine checks each text itself and words the error. `exclude`
describes which fields of a request exclude each other.
"""

from typing import Any, Final

from omnigraph.ids import BRANCH_NAME_MAX

JsonSchema = dict[str, Any]

_SEGMENT: Final = r"\.?[\w-]+(\.[\w-]+)*\.?"
_NAME: Final = rf"(?![\s\S]*\.lock\s*$){_SEGMENT}(/{_SEGMENT})*"

BRANCH: Final[JsonSchema] = {"pattern": rf"^\s*{_NAME}\s*$", "maxLength": BRANCH_NAME_MAX}
"""Segments of letters, digits, `.`, `-` and `_`, with slashes between them. The server strips space
around a name."""

MAYBE_BRANCH: Final[JsonSchema] = {"pattern": rf"^(\s*{_NAME}\s*)?$", "maxLength": BRANCH_NAME_MAX}
"""A branch name or an empty text, which means no name."""

DELETABLE: Final[JsonSchema] = {"pattern": f"^(?!main$){_NAME}$", "maxLength": BRANCH_NAME_MAX}
"""Every branch name but main, in a path."""

VERSION_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

TIME: Final[JsonSchema] = {"format": "date-time"}

NOT_BLANK: Final[JsonSchema] = {"pattern": r"\S"}

LINE: Final[JsonSchema] = {"pattern": r"^[^\n]*\S[^\n]*$"}
"""One line that is not blank."""

PROGRAM: Final[JsonSchema] = {"minLength": 1}

TYPE: Final[JsonSchema] = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}

PAIR: Final[JsonSchema] = {"pattern": r"^[^=]+=[\s\S]+$"}

CONSTANT: Final[JsonSchema] = {"pattern": r"^[^=]+="}

START: Final[JsonSchema] = {"pattern": "^(now|beginning|after:.+)$"}

SIDE: Final[JsonSchema] = {"minLength": 1}


def exclude(*groups: tuple[str, ...]) -> JsonSchema:
    """A request has at most one field of each group; null counts as absent."""
    pairs = {(one, other) for group in groups for one in group for other in group if one < other}
    return {"allOf": [_not_both(*each) for each in sorted(pairs)]}


def _not_both(one: str, other: str) -> JsonSchema:
    given = {name: {"not": {"type": "null"}} for name in (one, other)}
    return {"not": {"required": [one, other], "properties": given}}
