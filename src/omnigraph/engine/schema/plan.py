"""What a new schema would do to a graph: the steps of the migration, table by table.

Planning reads the manifest and writes nothing. `apply` carries the same shapes out.

| step of the migration | table | manifest |
|---|---|---|
| a type is added | an empty table is created | registered |
| a type is renamed | unchanged | the same table under the new key, the old key hidden |
| a type is dropped | unchanged; removed after the commit if data loss is allowed | hidden |
| properties are added, renamed, dropped | other columns for the same rows, one commit | version |
| a key is added to an edge type | every row under the id that its key spells | version |
| anything else | unchanged | the commit alone |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

import pyarrow as pa

from omnigraph.catalog.migration.plan_codec import decode_plan
from omnigraph.catalog.migration.planning import MigrationPlan, plan_migration
from omnigraph.catalog.migration.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    DropMode,
    DropProperty,
    DropType,
    RenameProperty,
    RenameType,
    Step,
)
from omnigraph.catalog.model import Catalog, EdgeType, Key, NodeType, Property
from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.active_schema import ActiveSchema, compile_active_schema
from omnigraph.engine.schema.backfill import find_fill
from omnigraph.engine.tables.columns import schema_of
from omnigraph.engine.write.idempotency import IdempotencyKey
from omnigraph.errors import BackfillInvalid
from omnigraph.ids import TableKey, TypeKind, table_key
from omnigraph.storage.tables import Reshape


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """The schema text to apply, and how to apply it."""

    text: str
    name: str = "<schema>"
    allow_data_loss: bool = False
    backfill: Mapping[str, str] = field(default_factory=dict)
    """Maps `Type.property` to a SQL expression over the columns of a row."""
    actor: str | None = None
    idempotency: IdempotencyKey | None = None
    """A repeated request with this key returns the first result and changes nothing."""
    message: str | None = None
    """Why the schema changes. The commit keeps it."""

    @property
    def drop_mode(self) -> DropMode:
        return DropMode.HARD if self.allow_data_loss else DropMode.SOFT


class EffectKind(StrEnum):
    """What a schema change does to a table; if it does several things, the most expensive."""

    CREATED = "created"
    RENAMED = "renamed"
    RESHAPED = "reshaped"
    """The columns change; no row is written."""
    FILLED = "filled"
    """One or more columns are written for every row."""
    REWRITTEN = "rewritten"
    """Every row is written again."""
    REKEYED = "rekeyed"
    """Every row is written again, under another id."""
    HIDDEN = "hidden"
    """The branch no longer shows the table; older commits still do."""
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class TableEffect:
    key: TableKey
    """The key after the change; for a dropped table, the key before."""
    effect: EffectKind
    row_count: int


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """The migration steps of a new schema, and the effect on each table."""

    migration: MigrationPlan
    effects: tuple[TableEffect, ...]

    def to_json(self) -> JsonObject:
        effects = [
            {"table_key": each.key, "effect": each.effect.value, "row_count": each.row_count}
            for each in self.effects
        ]
        return cast("JsonObject", {**self.migration.to_json(), "effects": effects})


def decode_schema_plan(document: Mapping[str, object]) -> SchemaPlan:
    """The inverse of `SchemaPlan.to_json`.

    Raises SchemaCorrupt, ValueError, KeyError, TypeError.
    """
    found = document["effects"]
    effects = [
        TableEffect(
            TableKey(each["table_key"]), EffectKind(each["effect"]), row_count=each["row_count"]
        )
        for each in (found if isinstance(found, list) else [])
    ]
    return SchemaPlan(decode_plan(document), tuple(effects))


def plan_schema(manifest: Manifest, accepted: ActiveSchema, request: SchemaRequest) -> SchemaPlan:
    """Plan without changing anything. The plan may contain unsupported steps.

    Raises SchemaInvalid, BackfillInvalid.
    """
    desired = compile_active_schema(request.text, name=request.name)
    migration, shapes = plan_shapes(accepted, desired, request)
    return SchemaPlan(migration, tuple(find_effects(manifest, shapes)))


# ── the steps by table ───────────────────────────────────────────────────────────────────────────


@dataclass
class TableShape:
    """All steps of a migration that concern one table."""

    kind: TypeKind
    name: str
    old_name: str
    type: NodeType | EdgeType | None
    """The type in the new schema; None for a dropped type."""
    is_added: bool = False
    is_hard: bool = False
    drops: list[str] = field(default_factory=list)
    renames: dict[str, str] = field(default_factory=dict)
    added: list[Property] = field(default_factory=list)
    reshape: Reshape | None = None
    is_rekeyed: bool = False
    """Do the rows get the ids that a new key spells?"""

    @property
    def key(self) -> TableKey:
        return table_key(self.kind, self.name)

    @property
    def was(self) -> TableKey:
        return table_key(self.kind, self.old_name)


def plan_shapes(
    accepted: ActiveSchema, desired: ActiveSchema, request: SchemaRequest
) -> tuple[MigrationPlan, tuple[TableShape, ...]]:
    migration = plan_migration(
        accepted.catalog,
        desired.catalog,
        drop_mode=request.drop_mode,
        filled=request.backfill.keys(),
    )
    shapes = _group_steps(migration.steps, desired.catalog)
    known = {f"{shape.name}.{each.spelling}" for shape in shapes for each in shape.added}
    for entity in sorted(request.backfill):
        if entity not in known:
            raise BackfillInvalid(entity, reason="no property of that name is added")
    for shape in shapes:
        shape.reshape = _find_reshape(shape, request.backfill)
    return migration, shapes


def _group_steps(steps: tuple[Step, ...], desired: Catalog) -> tuple[TableShape, ...]:
    """Group the steps by table. Interfaces have no table."""
    shapes: dict[TableKey, TableShape] = {}
    for step in steps:
        match step:
            case AddType("node" | "edge" as kind, name):
                _shape(shapes, desired, kind, name).is_added = True
            case RenameType("node" | "edge" as kind, old, name):
                _shape(shapes, desired, kind, name).old_name = old
            case DropType("node" | "edge" as kind, name, mode):
                _shape(shapes, desired, kind, name).is_hard = mode is DropMode.HARD
            case AddProperty("node" | "edge" as kind, name, property_name):
                shape = _shape(shapes, desired, kind, name)
                added = None if shape.type is None else shape.type.find(property_name)
                assert added is not None, "an added property is in the new schema"
                shape.added.append(added)
            case RenameProperty("node" | "edge" as kind, name, old, new):
                _shape(shapes, desired, kind, name).renames[old] = new
            case DropProperty("node" | "edge" as kind, name, property_name, mode):
                shape = _shape(shapes, desired, kind, name)
                shape.drops.append(property_name)
                shape.is_hard |= mode is DropMode.HARD
            case AddConstraint("edge" as kind, name, Key()):
                _shape(shapes, desired, kind, name).is_rekeyed = True
            case _:
                continue
    return tuple(shapes.values())


def _shape(
    shapes: dict[TableKey, TableShape], desired: Catalog, kind: TypeKind, name: str
) -> TableShape:
    type_ = desired.node(name) if kind == "node" else desired.edge(name)
    return shapes.setdefault(table_key(kind, name), TableShape(kind, name, name, type_))


def _find_reshape(shape: TableShape, backfill: Mapping[str, str]) -> Reshape | None:
    if not (shape.drops or shape.renames or shape.added):
        return None
    found = [(each, find_fill(shape.name, each, backfill)) for each in shape.added]
    return Reshape(
        drops=tuple(shape.drops),
        renames=shape.renames,
        nulls=tuple(_field_of(shape, each) for each, fill in found if fill is None),
        fills=tuple(fill for _, fill in found if fill is not None),
    )


def _field_of(shape: TableShape, added: Property) -> "pa.Field[pa.DataType]":
    assert shape.type is not None, "a dropped type gets no property"
    return schema_of(shape.type).field(added.name)


def find_effects(manifest: Manifest, shapes: tuple[TableShape, ...]) -> Iterator[TableEffect]:
    for shape in shapes:
        pin = manifest.pins.get(shape.was)
        rows = 0 if pin is None else pin.row_count
        yield TableEffect(shape.key, _effect_on(shape, rows), rows)


def _effect_on(shape: TableShape, row_count: int) -> EffectKind:
    if shape.is_added:
        return EffectKind.CREATED
    if shape.type is None:
        return EffectKind.REMOVED if shape.is_hard else EffectKind.HIDDEN
    if row_count and shape.is_rekeyed:
        return EffectKind.REKEYED
    if shape.reshape is None:
        return EffectKind.RESHAPED if shape.is_rekeyed else EffectKind.RENAMED
    if row_count and shape.is_hard:
        return EffectKind.REWRITTEN
    return EffectKind.FILLED if row_count and shape.reshape.fills else EffectKind.RESHAPED
