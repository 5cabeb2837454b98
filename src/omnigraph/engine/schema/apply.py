"""Changing the schema of a graph: what a new one would do, and doing it.

A schema is changed on main while it is the only branch. Whoever changes it holds every table, so
no writer is half done under the old one, and the change is one commit like any other:

| step of the plan | table | manifest |
|---|---|---|
| a type is added | an empty one is made | registered |
| a type is renamed | nothing | the same table under another key, the old key hidden |
| a type is dropped | nothing; removed afterwards if data may be lost | hidden |
| properties are added, renamed, dropped | other columns for the same rows, one commit | version |
| anything else | nothing | the commit alone |

1. A property that is added costs nothing, whatever the table weighs, unless it is filled.
2. Numbers only rise: a key that was hidden is shown again by a version above its tombstone, and
   commits that say nothing are made until there is one (D15).
3. Old rows keep what a dropped property held until they are cleaned up, unless data may be lost:
   then they are written anew without it, and the older versions go.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, cast

import pyarrow as pa

from omnigraph.catalog.migration import MigrationPlan, plan_migration
from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.catalog.plan_codec import decode_plan
from omnigraph.catalog.steps import (
    AddProperty,
    AddType,
    DropMode,
    DropProperty,
    DropType,
    RenameProperty,
    RenameType,
    Step,
)
from omnigraph.commit.attempt.phases import WriteLock, acquire_write_locks, run
from omnigraph.commit.attempt.schema_lock import check_unlocked, locked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.change import Change, Creation, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest.model import Manifest, Pin, TableVersion
from omnigraph.commit.manifest.records import Commit, Idempotency, JsonObject
from omnigraph.commit.manifest.schema_files import SchemaShift, keep_schema
from omnigraph.commit.manifest.updates import DropTable, RegisterTable, SetVersion, Update
from omnigraph.commit.recovery.heal import heal
from omnigraph.engine.active_schema import ActiveSchema, SchemaCache, compile_active_schema
from omnigraph.engine.schema.backfill import find_fill
from omnigraph.engine.schema.rewriting import RewriterFactory, Rewriting, in_process
from omnigraph.engine.stages import stage
from omnigraph.engine.tables.columns import schema_of
from omnigraph.engine.write.idempotency import IdempotencyKey, find_done, run_idempotent
from omnigraph.errors import (
    BackfillInvalid,
    BranchesExist,
    ExpectedVersionMismatch,
    OmnigraphError,
    TableNotFound,
)
from omnigraph.ids import MAIN, TableKey, TypeKind, Version, table_key
from omnigraph.storage.layout import table_path
from omnigraph.storage.tables import Handle, Mark, Reshape, Staged, TableRef, TableSettings

LIFT: Final = TableSettings(config={"omnigraph.lift": "1"})
"""(2) A commit that says nothing."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """What somebody asks for."""

    text: str
    name: str = "<schema>"
    allow_data_loss: bool = False
    backfill: Mapping[str, str] = field(default_factory=dict)
    """`Type.property` to an expression over the columns of a row."""
    actor: str | None = None
    idempotency: IdempotencyKey | None = None
    """The key that makes asking again harmless."""

    @property
    def drop_mode(self) -> DropMode:
        return DropMode.HARD if self.allow_data_loss else DropMode.SOFT


class Effect(StrEnum):
    """What a change does to a table, the costliest of it."""

    CREATED = "created"
    RENAMED = "renamed"
    RESHAPED = "reshaped"
    """Other columns, and no row is touched."""
    FILLED = "filled"
    """A column is written for every row."""
    REWRITTEN = "rewritten"
    """Every row is written anew."""
    HIDDEN = "hidden"
    """Older commits still show it."""
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class TableEffect:
    key: TableKey
    """As the table is called afterwards, or was before, if it goes."""
    effect: Effect
    row_count: int


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """What a schema would change."""

    migration: MigrationPlan
    effects: tuple[TableEffect, ...]

    def to_json(self) -> JsonObject:
        effects = [
            {"table_key": each.key, "effect": each.effect.value, "row_count": each.row_count}
            for each in self.effects
        ]
        return cast("JsonObject", {**self.migration.to_json(), "effects": effects})


def decode_schema_plan(document: Mapping[str, object]) -> SchemaPlan:
    """What `SchemaPlan.to_json` made. Raises SchemaCorrupt, ValueError, KeyError, TypeError."""
    found = document["effects"]
    effects = [
        TableEffect(
            TableKey(each["table_key"]), Effect(each["effect"]), row_count=each["row_count"]
        )
        for each in (found if isinstance(found, list) else [])
    ]
    return SchemaPlan(decode_plan(document), tuple(effects))


@dataclass(frozen=True, slots=True)
class SchemaResult:
    """What a schema changed."""

    plan: SchemaPlan
    manifest_version: Version
    commit: Commit | None
    """None when there was nothing to change, and no key to remember it by."""

    @property
    def applied(self) -> bool:
        return self.commit is not None and bool(self.plan.migration.steps)


def plan_schema(manifest: Manifest, accepted: ActiveSchema, request: SchemaRequest) -> SchemaPlan:
    """Raises SchemaInvalid, BackfillInvalid. A plan may hold steps that cannot be taken."""
    desired = compile_active_schema(request.text, name=request.name)
    migration, shapes = _plan(accepted, desired, request)
    return SchemaPlan(migration, tuple(_find_effects(manifest, shapes)))


def apply_schema(
    context: WriteContext,
    schemas: SchemaCache,
    request: SchemaRequest,
    rewriter_for: RewriterFactory = in_process,
) -> SchemaResult:
    """Change the schema, as one commit or not at all; large tables are written anew by whom `hire`
    names.

    Raises SchemaInvalid, MigrationUnsupported, BackfillInvalid before anything is touched;
    SchemaLocked, SchemaChanged, BranchesExist, and whatever `commit.attempt.phases` raises.
    """
    heal(context)

    def find() -> SchemaResult | None:
        if request.idempotency is None:
            return None
        return _applied_before(context.bases.current(MAIN).manifest, request)

    return run_idempotent(find, lambda: _apply(context, schemas, request, rewriter_for))


def _applied_before(manifest: Manifest, request: SchemaRequest) -> SchemaResult | None:
    """What came of it when this was asked for before. Raises KeyReused."""
    done = find_done(manifest, request.idempotency, request.actor)
    if done is None:
        return None
    return SchemaResult(decode_schema_plan(done.result), done.commit.manifest_version, done.commit)


def _apply(
    context: WriteContext,
    schemas: SchemaCache,
    request: SchemaRequest,
    rewriter_for: RewriterFactory,
) -> SchemaResult:
    check_unlocked(context)
    manifest = context.bases.current(MAIN).manifest
    accepted = schemas.for_manifest(manifest)
    desired = compile_active_schema(request.text, name=request.name)
    migration, shapes = _plan(accepted, desired, request)
    migration.check_supported()
    plan = SchemaPlan(migration, tuple(_find_effects(manifest, shapes)))
    if not migration.steps:
        return _change_nothing(context, accepted, plan, request)
    keys = {*manifest.pins, *(each.key for each in shapes), *(each.was for each in shapes)}
    with acquire_write_locks(context, MAIN, keys, is_schema_change=True) as lock:
        manifest = lock.base.manifest
        done = _applied_before(manifest, request)
        if done is not None:
            return done
        manifest.check_schema(accepted.schema_hash)
        with locked(context, lock.leases, lock.base):
            if others := find_branches(context.stores)[1:]:
                raise BranchesExist(others)
            plan = SchemaPlan(migration, tuple(_find_effects(manifest, shapes)))
            for each in (accepted, desired):
                keep_schema(context.stores.objects, each.source, each.schema_hash)
            draft = _Draft(lock, shapes, rewriter_for)
            change = draft.change(accepted, desired, request.actor, _note(plan, request))
            with stage("changing the tables"):
                published = run(lock, change)
        schemas.adopt(desired)
        if request.allow_data_loss:
            _purge(context, manifest, published.base.manifest, shapes)
    return SchemaResult(plan, published.base.manifest.version, published.commits[-1])


def _change_nothing(
    context: WriteContext, accepted: ActiveSchema, plan: SchemaPlan, request: SchemaRequest
) -> SchemaResult:
    """No commit; but for a key, which has to be somewhere, one that moves no table."""
    if request.idempotency is None:
        return SchemaResult(plan, context.bases.current(MAIN).manifest.version, None)
    with acquire_write_locks(context, MAIN, ()) as lock:
        change = Change(
            WriterKind.SCHEMA_APPLY,
            MAIN,
            (),
            actor=request.actor,
            idempotency=_note(plan, request),
            schema_hash=accepted.schema_hash,
        )
        published = run(lock, change)
    return SchemaResult(plan, published.base.manifest.version, published.commits[-1])


def _note(plan: SchemaPlan, request: SchemaRequest) -> Idempotency | None:
    return None if request.idempotency is None else request.idempotency.record(plan.to_json())


# ── what happens to each table ───────────────────────────────────────────────────────────────────


@dataclass
class _Shape:
    """What becomes of one table."""

    kind: TypeKind
    name: str
    old_name: str
    type: NodeType | EdgeType | None
    """As the new schema has it; None if it is dropped."""
    is_added: bool = False
    is_hard: bool = False
    drops: list[str] = field(default_factory=list)
    renames: dict[str, str] = field(default_factory=dict)
    added: list[Property] = field(default_factory=list)
    reshape: Reshape | None = None

    @property
    def key(self) -> TableKey:
        return table_key(self.kind, self.name)

    @property
    def was(self) -> TableKey:
        return table_key(self.kind, self.old_name)


def _plan(
    accepted: ActiveSchema, desired: ActiveSchema, request: SchemaRequest
) -> tuple[MigrationPlan, tuple[_Shape, ...]]:
    migration = plan_migration(
        accepted.catalog,
        desired.catalog,
        drop_mode=request.drop_mode,
        filled=request.backfill.keys(),
    )
    shapes = _gather(migration.steps, desired.catalog)
    known = {f"{shape.name}.{each.name}" for shape in shapes for each in shape.added}
    for entity in sorted(request.backfill):
        if entity not in known:
            raise BackfillInvalid(entity, reason="no property of that name is added")
    for shape in shapes:
        shape.reshape = _find_reshape(shape, request.backfill)
    return migration, shapes


def _gather(steps: tuple[Step, ...], desired: Catalog) -> tuple[_Shape, ...]:
    """The steps, table by table. Interfaces have none."""
    shapes: dict[TableKey, _Shape] = {}
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
                assert added is not None, "what is added is in the new schema"
                shape.added.append(added)
            case RenameProperty("node" | "edge" as kind, name, old, new):
                _shape(shapes, desired, kind, name).renames[old] = new
            case DropProperty("node" | "edge" as kind, name, property_name, mode):
                shape = _shape(shapes, desired, kind, name)
                shape.drops.append(property_name)
                shape.is_hard |= mode is DropMode.HARD
            case _:
                continue
    return tuple(shapes.values())


def _shape(shapes: dict[TableKey, _Shape], desired: Catalog, kind: TypeKind, name: str) -> _Shape:
    type_ = desired.node(name) if kind == "node" else desired.edge(name)
    return shapes.setdefault(table_key(kind, name), _Shape(kind, name, name, type_))


def _find_reshape(shape: _Shape, backfill: Mapping[str, str]) -> Reshape | None:
    if not (shape.drops or shape.renames or shape.added):
        return None
    found = [(each, find_fill(shape.name, each, backfill)) for each in shape.added]
    return Reshape(
        drops=tuple(shape.drops),
        renames=shape.renames,
        nulls=tuple(_field_of(shape, each) for each, fill in found if fill is None),
        fills=tuple(fill for _, fill in found if fill is not None),
    )


def _field_of(shape: _Shape, added: Property) -> "pa.Field[pa.DataType]":
    assert shape.type is not None, "only what stays gets a property"
    return schema_of(shape.type).field(added.name)


def _find_effects(manifest: Manifest, shapes: tuple[_Shape, ...]) -> Iterator[TableEffect]:
    for shape in shapes:
        pin = manifest.pins.get(shape.was)
        rows = 0 if pin is None else pin.row_count
        yield TableEffect(shape.key, _effect_on(shape, rows), rows)


def _effect_on(shape: _Shape, row_count: int) -> Effect:
    if shape.is_added:
        return Effect.CREATED
    if shape.type is None:
        return Effect.REMOVED if shape.is_hard else Effect.HIDDEN
    if shape.reshape is None:
        return Effect.RENAMED
    if row_count and shape.is_hard:
        return Effect.REWRITTEN
    return Effect.FILLED if row_count and shape.reshape.fills else Effect.RESHAPED


# ── the change ───────────────────────────────────────────────────────────────────────────────────


class _Draft:
    """The change while it is put together, under the leases of all tables."""

    def __init__(
        self, lock: WriteLock, shapes: tuple[_Shape, ...], rewriter_for: RewriterFactory
    ) -> None:
        self.tables = lock.context.stores.tables
        self.rewriting = Rewriting(self.tables, rewriter_for)
        self.manifest = lock.base.manifest
        self.shapes = shapes
        self.writes: list[TableWrite] = []
        self.updates: list[Update] = []
        self.taken = {pin.path for pin in self.manifest.pins.values()}

    def change(
        self,
        accepted: ActiveSchema,
        desired: ActiveSchema,
        actor: str | None,
        idempotency: Idempotency | None,
    ) -> Change:
        for shape in self.shapes:
            if shape.is_added:
                self._add(shape)
            elif shape.type is None:
                self._hide(self.manifest.pins[shape.key])
            else:
                self._alter(shape, self.manifest.pins[shape.was])
        written = {each.key for each in self.writes if each.creation is None}
        touched = {*self.manifest.pins, *(each.key for each in self.shapes)}
        return Change(
            kind=WriterKind.SCHEMA_APPLY,
            branch=MAIN,
            writes=tuple(self.writes),
            actor=actor,
            updates=tuple(self.updates),
            reads={key: self.manifest.version_of(key) for key in touched - written},
            recheck=_Recheck(self.manifest),
            idempotency=idempotency,
            schema_hash=accepted.schema_hash,
            schema=SchemaShift(accepted.schema_hash, desired.files()),
        )

    def _add(self, shape: _Shape) -> None:
        assert shape.type is not None, "what is added is in the new schema"
        path = self._find_path(shape)
        found = self._find_version(path)
        lifts = max(0, self._floor(shape.key) - (found + 1))
        creation = Creation(path, schema_of(shape.type))
        self.updates.append(RegisterTable(shape.key, path))
        self.writes.append(TableWrite(shape.key, found, (self._lift,) * lifts, creation=creation))

    def _hide(self, pin: Pin) -> None:
        self.updates.append(DropTable(pin.key, Version(pin.version + 1)))

    def _alter(self, shape: _Shape, pin: Pin) -> None:
        stages = list(self._stages(shape, pin))
        if shape.key != pin.key:
            self.updates.append(RegisterTable(shape.key, pin.path))
            self._hide(pin)
            lifts = self._floor(shape.key) - (pin.version + len(stages))
            stages += [self._lift] * max(0, lifts)
        if stages:
            shown_as = None if shape.key == pin.key else shape.key
            write = TableWrite(pin.key, pin.version, tuple(stages), shown_as=shown_as)
            self.writes.append(write)
        elif shape.key != pin.key:
            shown = self.manifest.latest[pin.key]
            moved = TableVersion(shape.key, shown.version, shown.owner, shown.row_count, shown.file)
            self.updates.append(SetVersion(moved))

    def _stages(self, shape: _Shape, pin: Pin) -> Iterator[Stage]:
        type_, reshape = shape.type, shape.reshape
        if type_ is None or reshape is None:
            return
        schema = schema_of(type_)

        def alter(handle: Handle, mark: Mark) -> Staged:
            if handle.row_count == 0:
                return self.tables.stage_overwrite(handle, schema, mark)
            return self.rewriting.reshape(handle, reshape, mark)

        yield alter
        if self._is_indexed(pin, reshape.renames.keys()):
            # Indexes go by the names of their columns, and the old name may be used again.
            renamed = frozenset(reshape.renames.values())
            yield lambda handle, mark: self.tables.stage_unindex(handle, renamed, mark)
        if (
            shape.is_hard
            and pin.row_count
            and not any(each.type.is_blob for each in type_.properties)
        ):
            yield self.rewriting.copy  # (3)

    def _is_indexed(self, pin: Pin, columns: Collection[str]) -> bool:
        if not columns or not pin.row_count:
            return False
        anatomy = self.tables.inspect(self.tables.open_at(TableRef(pin.path), pin.version))
        return any(each.column in columns for each in anatomy.indices)

    def _lift(self, handle: Handle, mark: Mark) -> Staged:
        return self.tables.stage_settings(handle, LIFT, mark)

    def _floor(self, key: TableKey) -> int:
        """(2) The lowest version by which a key that is hidden, or new, can be shown."""
        latest = self.manifest.latest.get(key)
        shown = 0 if latest is None else latest.version
        return max(self.manifest.tombstones.get(key, 0), shown) + 1

    def _find_path(self, shape: _Shape) -> str:
        """Where it was before, or where its name belongs, or beside that if another type is there.

        A type that was renamed stays where its former name put it.
        """
        path = self.manifest.paths.get(shape.key, table_path(shape.kind, shape.name))
        number = 2
        while path in self.taken:
            path = table_path(shape.kind, f"{shape.name}~{number}")
            number += 1
        self.taken.add(path)
        return path

    def _find_version(self, path: str) -> Version:
        """The newest version of what is there, which nobody shows; 0 if there is nothing."""
        try:
            return Version(self.tables.open_at(TableRef(path)).version)
        except TableNotFound:
            return Version(0)


@dataclass(frozen=True, slots=True)
class _Recheck:
    """Nothing may move under a change of the schema."""

    before: Manifest

    def __call__(self, now: Manifest) -> None:
        for key, pin in self.before.pins.items():
            if now.version_of(key) != pin.version:
                raise ExpectedVersionMismatch(key, expected=pin.version, actual=now.version_of(key))


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────


def _purge(
    context: WriteContext, before: Manifest, after: Manifest, shapes: tuple[_Shape, ...]
) -> None:
    """(3) What was dropped for good goes now. What cannot go is left for cleanup."""
    for shape in shapes:
        if not shape.is_hard:
            continue
        pin = before.pins[shape.was]
        try:
            if shape.type is None:
                context.stores.objects.delete_prefix(pin.path)
            else:
                shown = after.pins[shape.key]
                handle = context.stores.tables.open_at(TableRef(pin.path), shown.version)
                older = [
                    each.version
                    for each in context.stores.tables.find_versions(handle)
                    if each.version < shown.version
                ]
                context.stores.tables.single_step.delete_versions(handle, older)
        except OmnigraphError as trouble:
            logger.warning("older versions of %s were not purged: %s", shape.key, trouble)
