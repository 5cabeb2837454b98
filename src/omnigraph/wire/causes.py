"""An error as a document, and the error that the client restores from the document.

The facts of an error are its fields. An entry that the error lists, such as a finding about a
program, becomes an object of the attributes that its protocol in `errors.findings` names.
"""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Any, Final

from omnigraph import errors
from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.engine.merge.classify import ConflictKind
from omnigraph.engine.merge.conflicts import Conflict, conflict_document
from omnigraph.errors import Clash, MergeConflicts, OmnigraphError
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
"""The attributes of findings, violations, faults and conflicts."""


_CLASSES: Final[Mapping[str, type[OmnigraphError]]] = {
    each.code: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, OmnigraphError) and "code" in vars(each)
}


def cause_document(error: OmnigraphError) -> JsonObject:
    facts = {
        key: encode(value)
        for key, value in vars(error).items()
        if not key.startswith("_") and not _is_sent_as_detail(error, key)
    }
    return {"code": error.code.value, "facts": facts}


def _is_sent_as_detail(error: OmnigraphError, key: str) -> bool:
    """Conflicts may be many and hold whole rows: they are sent once, as `merge_conflicts`."""
    return isinstance(error, MergeConflicts) and key == "conflicts"


def encode(value: object) -> JsonValue:
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): encode(each) for key, each in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        return [encode(each) for each in value]
    to_json = getattr(value, "to_json", None)
    if callable(to_json):
        return encode(to_json())
    listed = {name: encode(getattr(value, name)) for name in _LISTED if hasattr(value, name)}
    if not listed:
        return str(value)
    render = getattr(value, "render", None)
    return {**listed, "rendered": render() if callable(render) else None}


def clash_document(clash: Clash) -> JsonObject:
    """A conflict of a merge, under the field names of both generations."""
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
    """A finding, violation or fault that a server sent."""

    def to_json(self) -> dict[str, object]:
        return vars(self)

    def render(self) -> str:
        return str(getattr(self, "rendered", None) or getattr(self, "message", ""))


def read_cause(
    message: str,
    code: str,
    facts: Mapping[str, object],
    clashes: Sequence[Mapping[str, Any]] = (),
) -> OmnigraphError | None:
    """The error that a document describes; None for a code that only a newer program knows.

    Raises KeyError, ValueError for a malformed conflict.
    """
    kind = _CLASSES.get(code)
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
