"""An error as a document, and the same error again on the other side.

The facts of an error are its fields. Things it lists, such as the findings about a program, travel
as the attributes their protocols promise.
"""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Any, Final

from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.engine.merge.classify import ConflictKind
from omnigraph.engine.merge.conflicts import Conflict, conflict_document
from omnigraph.errors import Clash, Code, MergeConflicts, OmnigraphError
from omnigraph.ids import TableKey, split_table_key

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
"""What findings, violations and faults have between them."""


def cause_document(error: OmnigraphError) -> JsonObject:
    facts = {
        key: _encode(value)
        for key, value in vars(error).items()
        if not key.startswith("_") and not _is_told_beside(error, key)
    }
    return {"code": error.code.value, "facts": facts}


def _is_told_beside(error: OmnigraphError, key: str) -> bool:
    """Conflicts may be many, with whole rows: they are sent once, as the detail clients know."""
    return isinstance(error, MergeConflicts) and key == "conflicts"


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


def clash_document(clash: Clash) -> JsonObject:
    """A conflict of a merge, under the names of both generations."""
    kind, name = split_table_key(TableKey(clash.table))
    later: JsonObject = {"entity_kind": kind, "type_name": name, "entity_id": clash.row_id}
    return {**conflict_document(clash), **later}


def read_clash(document: Mapping[str, Any]) -> Conflict:
    """Raises KeyError, ValueError."""
    return Conflict(
        kind=ConflictKind(document["kind"]),
        table=TableKey(document["table_key"]),
        row_id=document["row_id"],
        property_name=document["property"],
        base=document["base"],
        ours=document["ours"],
        theirs=document["theirs"],
        message=document["message"],
    )


class ErrorDocument(SimpleNamespace):
    """A finding, violation or fault that somebody else found."""

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


def read_cause(
    message: str,
    code: str,
    facts: Mapping[str, object],
    clashes: Sequence[Mapping[str, Any]] = (),
) -> OmnigraphError | None:
    """The error that was told of; None if nothing of ours is called so.

    Raises KeyError, ValueError for a conflict that is not one.
    """
    kind = find_error_class(code)
    if kind is None:
        return None
    error = kind.restore(message, {name: _decode(value) for name, value in facts.items()})
    if isinstance(error, MergeConflicts):
        error.conflicts = tuple(map(read_clash, clashes))
    return error


def _decode(value: object) -> object:
    if isinstance(value, list):
        return tuple(_decode(each) for each in value)
    if isinstance(value, dict):
        return ErrorDocument(**{str(key): _decode(each) for key, each in value.items()})
    return value
