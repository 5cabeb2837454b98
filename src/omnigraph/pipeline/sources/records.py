"""The row reader of JSON lines: reads one record strictly, and reports its exact faults.

    {"type": "Gallery", "data": {"code": "W1"}}
    {"edge": "Hangs", "from": "AB-7", "to": "W1", "data": {"since": "2023-02-11"}}
    {"edge": "LocatedIn", "from": {"Person": "ada"}, "to": {"City": "Turin"}}

Nothing is guessed and nothing is ignored: a repeated name, an unknown field, a number where a text
belongs are faults. `engine.write.coercion` decides what a row may hold, as for every
other write.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.spelling import suggest
from omnigraph.engine.load.bulk import RECORD, Fault, fault_of
from omnigraph.engine.tables.cells import Row
from omnigraph.engine.write.base_rows import Type
from omnigraph.engine.write.batch import ENDS_GIVEN, find_faults, pick_pair
from omnigraph.engine.write.coercion import coerce_row
from omnigraph.engine.write.violations import Violation, ViolationKind, clip
from omnigraph.jsontext import read_json

_NODE_FIELDS: Final = ("type", "data")
_EDGE_FIELDS: Final = ("edge", "from", "to", "data")


class Malformed(Exception):
    """A line that is not a record. The message says why."""


@dataclass(frozen=True, slots=True)
class Record:
    """A row that was read."""

    type: Type
    row: Row
    is_new: bool
    """The id was generated."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The faults of a line, without file and line number."""

    faults: tuple[Fault, ...]


def read_record(
    catalog: Catalog, line: bytes, new_id: Callable[[], str]
) -> Record | Rejected | None:
    """None for a blank line."""
    try:
        parsed = _parse(line)
        if parsed is None:
            return None
        found = _find_type(catalog, parsed)
    except Malformed as malformed:
        return Rejected((Fault(RECORD, str(malformed)),))
    if isinstance(found, Violation):
        return _rejected([found])
    type_, document = found
    violations = list(_find_envelope_faults(type_, document))
    data = document.get("data", {})
    if not isinstance(data, dict):
        violations.append(_violation(type_, "data", data, f"expected an object, got {clip(data)}"))
        return _rejected(violations)
    coerced = coerce_row(type_, {**data, **_ends_of(type_, document)}, new_id)
    violations += find_faults(type_, coerced)
    if violations:
        return _rejected(violations)
    return Record(type_, coerced.row, coerced.is_new)


def _rejected(violations: list[Violation]) -> Rejected:
    return Rejected(tuple(fault_of(each) for each in violations))


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def _parse(line: bytes) -> dict[str, object] | None:
    """Raises Malformed."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8: {error.reason} at byte {error.start + 1}") from None
    if not text.strip(" \t\r\n"):
        return None
    try:
        document = read_json(text, object_pairs_hook=_object, parse_constant=_refuse)
    except Malformed:
        raise
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise Malformed(f"not JSON we can read: {error}") from None
    if not isinstance(document, dict):
        raise Malformed(f"expected an object, got {clip(document)}")
    return document


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        repeated = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value] # a set's add is the test's other half
        raise Malformed(f"the name {clip(repeated)} is given twice")
    return made


def _refuse(constant: str) -> object:
    raise Malformed(f"not JSON: {constant} is not a number")


# ── envelopes ────────────────────────────────────────────────────────────────────────────────────


def _find_type(
    catalog: Catalog, document: Mapping[str, object]
) -> tuple[Type, Mapping[str, object]] | Violation:
    """The type of a record, and the record with the ids of its ends. Raises Malformed."""
    if "type" in document and "edge" in document:
        raise Malformed("a record has 'type' or 'edge', not both")
    if "type" in document:
        name = _name_of(document, "type")
        node = catalog.node(name)
        if node is not None:
            return node, document
        names = [each.name for each in catalog.nodes]
        raise Malformed(_unknown("node type", name, names))
    if "edge" in document:
        name = _name_of(document, "edge")
        edge = catalog.edge_named(name)
        if edge is not None:
            return edge, document
        if pairs := catalog.edges_named(name):
            return pick_pair(pairs, document)
        raise Malformed(_unknown("edge type", name, catalog.edge_names))
    raise Malformed("expected 'type' or 'edge'")


def _name_of(document: Mapping[str, object], field: str) -> str:
    name = document[field]
    if not isinstance(name, str):
        raise Malformed(f"'{field}' is the name of a type, not {clip(name)}")
    return name


def _unknown(what: str, name: str, names: Sequence[str]) -> str:
    hint = suggest(name, names)
    return f"there is no {what} {clip(name)}{'' if hint is None else f'; {hint}'}"


def _find_envelope_faults(type_: Type, document: Mapping[str, object]) -> Iterator[Violation]:
    fields = _EDGE_FIELDS if isinstance(type_, EdgeType) else _NODE_FIELDS
    for name in document:
        if name not in fields:
            hint = suggest(name, fields) or "properties belong in 'data'"
            message = f"unknown field {clip(name)} beside 'data' of {type_.name}; {hint}"
            yield Violation(
                ViolationKind.UNKNOWN_PROPERTY, type_.name, name, (), document[name], message
            )
    data = document.get("data")
    if isinstance(type_, EdgeType) and isinstance(data, dict):
        for name in ENDS_GIVEN:
            if name in data:
                message = f"'{name}' of {type_.name} belongs beside 'data', not in it"
                yield Violation(
                    ViolationKind.UNKNOWN_PROPERTY, type_.name, name, (), data[name], message
                )


def _ends_of(type_: Type, document: Mapping[str, object]) -> dict[str, object]:
    if isinstance(type_, NodeType):
        return {}
    return {name: document.get(name) for name in ENDS_GIVEN}


def _violation(type_: Type, name: str, value: object, reason: str) -> Violation:
    message = f"'{name}' of {type_.name}: {reason}"
    return Violation(ViolationKind.VALUE, type_.name, name, (), value, message)
