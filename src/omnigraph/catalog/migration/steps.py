"""The steps of a migration: values, their JSON, and the sentences that describe them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from omnigraph.catalog.canonical import EntityKind, rename_columns
from omnigraph.catalog.codec import JsonObject, encode_annotation, encode_constraint, encode_type
from omnigraph.catalog.model import (
    Annotation,
    Check,
    Constraint,
    IndexConstraint,
    Key,
    Range,
    Unique,
)
from omnigraph.catalog.names import ID, ID_PROPERTY, spell_all, spelling_of
from omnigraph.catalog.types import ValueType


class Tier(StrEnum):
    """The risk of a change."""

    SAFE = "safe"
    VALIDATED = "validated"
    DESTRUCTIVE = "destructive"


@dataclass(frozen=True, slots=True)
class MigrationRule:
    code: str
    tier: Tier
    meaning: str


class DropMode(StrEnum):
    SOFT = "soft"
    """Hidden in new commits; older commits show it until cleanup."""
    HARD = "hard"
    """Older versions are deleted right after the publish."""


@dataclass(frozen=True, slots=True)
class AddType:
    type_kind: EntityKind
    name: str


@dataclass(frozen=True, slots=True)
class RenameType:
    type_kind: EntityKind
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropType:
    type_kind: EntityKind
    name: str
    mode: DropMode


@dataclass(frozen=True, slots=True)
class AddProperty:
    type_kind: EntityKind
    type_name: str
    property_name: str
    property_type: ValueType


@dataclass(frozen=True, slots=True)
class RenameProperty:
    type_kind: EntityKind
    type_name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropProperty:
    type_kind: EntityKind
    type_name: str
    property_name: str
    mode: DropMode


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    type_kind: EntityKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddConstraint:
    type_kind: EntityKind
    type_name: str
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata:
    type_kind: EntityKind
    name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata:
    type_kind: EntityKind
    type_name: str
    property_name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    entity: str
    """`node:Artwork` or `node:Artwork.title`."""
    reason: str
    rule: MigrationRule | None = None


Step = (
    AddType
    | RenameType
    | DropType
    | AddProperty
    | RenameProperty
    | DropProperty
    | ExtendEnum
    | AddConstraint
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | UnsupportedChange
)


# ── rendering ────────────────────────────────────────────────────────────────────────────────────


def describe_constraint(constraint: Constraint) -> str:
    """As the language spells it."""
    match constraint:
        case Key(columns):
            return f"@key({spell_all(columns)})"
        case Unique(columns):
            return f"@unique({spell_all(columns)})"
        case IndexConstraint(columns):
            return f"@index({spell_all(columns)})"
        case Range(name, low, high):
            bounds = f"{'' if low is None else low}..{'' if high is None else high}"
            return f"@range({spelling_of(name)}, {bounds})"
        case Check(name):
            return f"@check({spelling_of(name)}, …)"
    assert_never(constraint)


def encode_step(step: Step) -> JsonObject:
    """A step as the wire and `--json` show it."""
    match step:
        case AddType(kind, name):
            return {"kind": "add_type", "type_kind": kind, "name": name}
        case RenameType(kind, old, new):
            return {"kind": "rename_type", "type_kind": kind, "from": old, "to": new}
        case DropType(kind, name, mode):
            return {"kind": "drop_type", "type_kind": kind, "name": name, "mode": mode.value}
        case AddProperty(kind, type_name, name, value_type):
            return {
                **_property_step("add_property", kind, type_name, name),
                "property_type": encode_type(value_type),
            }
        case RenameProperty(kind, type_name, old, new):
            return {
                "kind": "rename_property",
                "type_kind": kind,
                "type_name": type_name,
                "from": spelling_of(old),
                "to": spelling_of(new),
            }
        case DropProperty(kind, type_name, name, mode):
            return {**_property_step("drop_property", kind, type_name, name), "mode": mode.value}
        case ExtendEnum(kind, type_name, name, added):
            return {
                **_property_step("extend_enum", kind, type_name, name),
                "added_values": list(added),
            }
        case AddConstraint(kind, type_name, constraint):
            return {
                "kind": "add_constraint",
                "type_kind": kind,
                "type_name": type_name,
                "constraint": encode_constraint(rename_columns(constraint, {ID_PROPERTY: ID})),
            }
        case UpdateTypeMetadata(kind, name, annotations):
            return {
                "kind": "update_type_metadata",
                "type_kind": kind,
                "name": name,
                "annotations": _annotations(annotations),
            }
        case UpdatePropertyMetadata(kind, type_name, name, annotations):
            return {
                **_property_step("update_property_metadata", kind, type_name, name),
                "annotations": _annotations(annotations),
            }
        case UnsupportedChange(entity, reason, rule):
            body: JsonObject = {"kind": "unsupported_change", "entity": entity, "reason": reason}
            return body if rule is None else {**body, "code": rule.code}
    assert_never(step)


def _property_step(tag: str, kind: EntityKind, type_name: str, name: str) -> JsonObject:
    return {
        "kind": tag,
        "type_kind": kind,
        "type_name": type_name,
        "property_name": spelling_of(name),
    }


def _annotations(annotations: Sequence[Annotation]) -> list[JsonObject]:
    return [encode_annotation(each) for each in annotations]


def describe_step(step: Step) -> str:
    """A step as a sentence."""
    match step:
        case AddType(kind, name):
            return f"add {kind} type '{name}'"
        case RenameType(kind, old, new):
            return f"rename {kind} type '{old}' to '{new}'"
        case DropType(kind, name, mode):
            return f"drop {kind} type '{name}' ({mode.value})"
        case AddProperty(kind, type_name, name, value_type):
            return f"add property '{spelling_of(name)}: {value_type}' to {kind} '{type_name}'"
        case RenameProperty(kind, type_name, old, new):
            was, now = spelling_of(old), spelling_of(new)
            return f"rename property '{was}' of {kind} '{type_name}' to '{now}'"
        case DropProperty(kind, type_name, name, mode):
            return f"drop property '{spelling_of(name)}' of {kind} '{type_name}' ({mode.value})"
        case ExtendEnum(kind, type_name, name, added):
            return f"let '{spelling_of(name)}' of {kind} '{type_name}' also be {', '.join(added)}"
        case AddConstraint(kind, type_name, constraint):
            return f"add {describe_constraint(constraint)} to {kind} '{type_name}'"
        case UpdateTypeMetadata(kind, name):
            return f"update the description of {kind} '{name}'"
        case UpdatePropertyMetadata(kind, type_name, name):
            return f"update the description of '{spelling_of(name)}' of {kind} '{type_name}'"
        case UnsupportedChange(entity, reason, rule):
            code = "" if rule is None else f"[{rule.code}] "
            return f"unsupported change of {entity}: {code}{reason}"
    assert_never(step)
