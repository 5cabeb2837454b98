"""An error as a document, and the same error again on the other side.

The facts of an error are its fields. Things it lists, such as the findings about a program, travel
as the attributes their protocols promise.
"""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Final

from omnigraph.commit.records import JsonObject, JsonValue
from omnigraph.errors import Code, OmnigraphError

_LISTED: Final = (
    "code",
    "kind",
    "message",
    "file",
    "line",
    "column",
    "table",
    "table_key",
    "row_id",
    "type_name",
    "property_name",
    "ids",
    "value",
)
"""What findings, violations, faults and conflicts have between them."""


def cause_document(error: OmnigraphError) -> JsonObject:
    facts = {key: _encode(value) for key, value in vars(error).items() if not key.startswith("_")}
    return {"code": error.code.value, "facts": facts}


def _encode(value: object) -> JsonValue:
    if isinstance(value, Enum):
        return _encode(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _encode(each) for key, each in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        return [_encode(each) for each in value]
    listed = {name: _encode(getattr(value, name)) for name in _LISTED if hasattr(value, name)}
    if not listed:
        return str(value)
    render = getattr(value, "render", None)
    return {**listed, "rendered": render() if callable(render) else None}


class Told(SimpleNamespace):
    """A finding, violation, fault or conflict that somebody else found."""

    def render(self) -> str:
        return str(getattr(self, "rendered", None) or getattr(self, "message", ""))


def find_error_class(code: str) -> type[OmnigraphError] | None:
    """The class of the errors with this code; None for one of a newer program."""
    try:
        wanted = Code(code)
    except ValueError:
        return None
    remaining = [OmnigraphError]
    while remaining:
        found = remaining.pop()
        if found.__dict__.get("code") is wanted:
            return found
        remaining += found.__subclasses__()
    return None


def read_cause(message: str, code: str, facts: Mapping[str, object]) -> OmnigraphError | None:
    """The error that was told of; None if nothing of ours is called so."""
    kind = find_error_class(code)
    if kind is None:
        return None
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    for name, value in facts.items():
        setattr(error, name, _decode(value))
    return error


def _decode(value: object) -> object:
    if isinstance(value, list):
        return tuple(_decode(each) for each in value)
    if isinstance(value, dict):
        return Told(**{str(key): _decode(each) for key, each in value.items()})
    return value
