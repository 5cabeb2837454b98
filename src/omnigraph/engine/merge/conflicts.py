"""Conflicts of a merge as values, and the conflict file in which a person resolves them.

The file is JSON: the heads of both branches, and every conflict with the content of each side. A
person writes `"ours"`, `"theirs"` or `{"value": …}` as the `resolution` of each conflict. A merge
that is given the file applies it if the heads have not moved.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.engine.merge.classify import ConflictKind
from omnigraph.engine.write.violations import Violation, ViolationKind
from omnigraph.errors import Clash, ResolutionsInvalid
from omnigraph.ids import BranchName, CommitId, TableKey
from omnigraph.jsontext import read_json

FORMAT: Final = 1

Place = tuple[str, str, str, str]
"""Identifies a conflict: table, row, property, kind."""


@dataclass(frozen=True, slots=True)
class Conflict:
    kind: ConflictKind
    table: TableKey
    row_id: str | None
    property_name: str | None
    """None if the conflict is about the whole row."""
    base: JsonValue
    """The content in the merge base; null if it was missing."""
    ours: JsonValue
    """The content in the target."""
    theirs: JsonValue
    """The content in the source."""
    message: str

    @property
    def place(self) -> Place:
        return self.table, self.row_id or "", self.property_name or "", self.kind.value


@dataclass(frozen=True, slots=True)
class RuleBreach:
    """A rule of the schema that the merged graph would break."""

    conflict: Conflict
    rows: tuple[tuple[TableKey, str], ...] = ()
    """The rows that break the rule together. Each branch obeys the rule, so it holds once all of
    these rows are as one branch has them. Empty if a value that a person wrote breaks it."""


_KINDS: Final = {
    ViolationKind.ENDPOINT: ConflictKind.ORPHAN_EDGE,
    ViolationKind.UNIQUE: ConflictKind.UNIQUE_VIOLATION,
    ViolationKind.CARDINALITY: ConflictKind.CARDINALITY_VIOLATION,
}


_BROKEN: Final = frozenset(_KINDS.values())
_OF_NO_ROW: Final = ConflictKind.CARDINALITY_VIOLATION
"""Its `row_id` is the node that has too many or too few edges."""
_DIVERGENT: Final = (ConflictKind.DIVERGENT_UPDATE, ConflictKind.DIVERGENT_INSERT)


def conflict_of(table: TableKey, violation: Violation) -> Conflict:
    return Conflict(
        kind=_KINDS.get(violation.kind, ConflictKind.VALUE_CONSTRAINT_VIOLATION),
        table=table,
        row_id=violation.ids[0] if violation.ids else None,
        property_name=violation.property_name,
        base=None,
        ours=None,
        theirs=None,
        message=violation.message,
    )


# ── the file ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a person wrote in place of either side."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class Resolution:
    """A decision about a row, about one property of it, or about a broken rule."""

    table: TableKey
    row_id: str
    property_name: str | None
    choice: "str | Value"
    """`ours`, `theirs`, or a value."""
    broken: Place | None = None
    """The conflict that it decides, if several rows break a rule together."""


@dataclass(frozen=True, slots=True)
class ConflictFile:
    """The conflicts of one merge, resolved or not."""

    source: BranchName
    target: BranchName
    source_commit: CommitId
    target_commit: CommitId
    detect: str
    resolutions: tuple[Resolution, ...] = ()


def encode_conflicts(of: ConflictFile, conflicts: Sequence[Conflict]) -> str:
    """The conflict file with every `resolution` null, for a person to fill in."""
    document: JsonObject = {
        "format": FORMAT,
        "source": of.source,
        "target": of.target,
        "source_commit_id": of.source_commit,
        "target_commit_id": of.target_commit,
        "detect": of.detect,
        "conflicts": [conflict_document(each, resolution=None) for each in conflicts],
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def conflict_document(conflict: Clash, **more: JsonValue) -> JsonObject:
    return {
        "table_key": conflict.table,
        "row_id": conflict.row_id,
        "property": conflict.property_name,
        "kind": str(conflict.kind),
        "message": conflict.message,
        "base": conflict.base,
        "ours": conflict.ours,
        "theirs": conflict.theirs,
        **more,
    }


def decode_resolutions(text: str) -> ConflictFile:
    """Raises ResolutionsInvalid."""
    try:
        document = read_json(text)
    except ValueError as error:
        raise ResolutionsInvalid(f"not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ResolutionsInvalid(f"not a file of conflicts of format {FORMAT}")
    listed = document.get("conflicts")
    if not isinstance(listed, list):
        raise ResolutionsInvalid("'conflicts' is not an array")
    return ConflictFile(
        source=BranchName(_text(document, "source")),
        target=BranchName(_text(document, "target")),
        source_commit=CommitId(_text(document, "source_commit_id")),
        target_commit=CommitId(_text(document, "target_commit_id")),
        detect=_text(document, "detect"),
        resolutions=tuple(_resolution(each, at) for at, each in enumerate(listed, start=1)),
    )


def _text(document: JsonObject, name: str) -> str:
    found = document.get(name)
    if not isinstance(found, str):
        raise ResolutionsInvalid(f"'{name}' is {found!r}, not a text")
    return found


def _resolution(found: JsonValue, at: int) -> Resolution:
    if not isinstance(found, dict):
        raise ResolutionsInvalid(f"conflict {at} is not an object")
    row_id, name, kind = found.get("row_id"), found.get("property"), found.get("kind")
    if not isinstance(row_id, str):
        raise ResolutionsInvalid(f"conflict {at} names no row, so nothing can be chosen for it")
    chosen = found.get("resolution")
    match chosen:
        case "ours" | "theirs":
            choice: str | Value = str(chosen)
        case {"value": value, **more} if not more and kind != _OF_NO_ROW:
            choice = Value(value)
        case None:
            raise ResolutionsInvalid(f"conflict {at}, {row_id!r}, is not resolved")
        case _:
            allowed = (
                '"ours" or "theirs"' if kind == _OF_NO_ROW else '"ours", "theirs" or {"value": …}'
            )
            raise ResolutionsInvalid(f"conflict {at} is resolved as {chosen!r}, not as {allowed}")
    table, named = _text(found, "table_key"), name if isinstance(name, str) else None
    is_broken = kind in _BROKEN and isinstance(choice, str)
    return Resolution(
        TableKey(table),
        row_id,
        named if kind in _DIVERGENT else None,
        choice,
        (table, row_id, named or "", str(kind)) if is_broken else None,
    )
