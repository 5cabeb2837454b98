"""Decoding a migration plan from the JSON of the wire."""

from typing import Final

from omnigraph.catalog.canonical import EntityKind
from omnigraph.catalog.codec import decode_annotation, decode_constraint, decode_type
from omnigraph.catalog.document import Field
from omnigraph.catalog.migration.planning import RULES, MigrationPlan
from omnigraph.catalog.migration.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    MigrationRule,
    RenameProperty,
    RenameType,
    Step,
    Tier,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)

_RULES: Final = {each.code: each for each in RULES}


def decode_plan(document: object) -> MigrationPlan:
    """What `MigrationPlan.to_json` made. Raises SchemaCorrupt."""
    return MigrationPlan(Field(document, "plan").key("steps").each(decode_step))


def decode_step(field: Field) -> Step:
    """What `steps.encode_step` made. Raises SchemaCorrupt."""
    if field.key("kind").text() == "unsupported_change":
        code = field.optional_key("code")
        rule = None if code is None else _rule(code.text())
        return UnsupportedChange(field.key("entity").text(), field.key("reason").text(), rule)
    kind = _kind(field.key("type_kind"))
    match field.key("kind").text():
        case "add_type":
            return AddType(kind, field.key("name").text())
        case "rename_type":
            return RenameType(kind, field.key("from").text(), field.key("to").text())
        case "drop_type":
            return DropType(kind, field.key("name").text(), _mode(field))
        case "update_type_metadata":
            annotations = field.key("annotations").each(decode_annotation)
            return UpdateTypeMetadata(kind, field.key("name").text(), annotations)
        case _:
            return _decode_member(field, kind, field.key("type_name").text())


def _decode_member(field: Field, kind: EntityKind, type_name: str) -> Step:
    """A step inside a type."""
    match field.key("kind").text():
        case "add_constraint":
            return AddConstraint(kind, type_name, decode_constraint(field.key("constraint")))
        case "rename_property":
            return RenameProperty(kind, type_name, field.key("from").text(), field.key("to").text())
        case tag:
            return _decode_property(field, tag, kind, type_name)


def _decode_property(field: Field, tag: str, kind: EntityKind, type_name: str) -> Step:
    name = field.key("property_name").text()
    match tag:
        case "add_property":
            return AddProperty(kind, type_name, name, decode_type(field.key("property_type")))
        case "drop_property":
            return DropProperty(kind, type_name, name, _mode(field))
        case "extend_enum":
            return ExtendEnum(kind, type_name, name, field.key("added_values").each(Field.text))
        case "update_property_metadata":
            annotations = field.key("annotations").each(decode_annotation)
            return UpdatePropertyMetadata(kind, type_name, name, annotations)
        case _:
            raise field.wrong("a step")


def _kind(field: Field) -> EntityKind:
    match field.text():
        case "interface":
            return "interface"
        case "node":
            return "node"
        case "edge":
            return "edge"
        case _:
            raise field.wrong("interface, node or edge")


def _mode(field: Field) -> DropMode:
    try:
        return DropMode(field.key("mode").text())
    except ValueError:
        raise field.wrong("a step with the mode soft or hard") from None


def _rule(code: str) -> MigrationRule:
    """The rule of a code; for a code of a newer program, a rule with the code only."""
    return _RULES.get(code) or MigrationRule(code, Tier.DESTRUCTIVE, "a rule of a newer version")
