"""Applying a new schema: one commit that changes every affected table (`plan` says which).

A schema changes on main while main is the only branch. The writer locks every table, so no other
writer can be half way through a write under the old schema.

1. Adding a property writes no row, whatever the size of the table, unless the property is filled.
2. Version numbers only rise. A hidden key is shown again by a version above its tombstone; empty
   commits raise the version of the table until it is high enough (D15).
3. After a soft drop, old rows keep the values of the property until cleanup. A hard drop writes
   the rows again without the property and deletes the older versions of the table.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.catalog.model import EdgeType
from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.attempt.schema_lock import check_unlocked, locked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.change import Change, Creation, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest.model import Manifest, Pin, TableVersion
from omnigraph.commit.manifest.records import Commit, Idempotency, RowCounts
from omnigraph.commit.manifest.schema_files import SchemaShift, keep_schema
from omnigraph.commit.manifest.updates import DropTable, RegisterTable, SetVersion, Update
from omnigraph.commit.recovery.heal import heal
from omnigraph.engine.active_schema import ActiveSchema, SchemaCache, compile_active_schema
from omnigraph.engine.schema.plan import (
    EffectKind,
    SchemaPlan,
    SchemaRequest,
    TableShape,
    decode_schema_plan,
    find_effects,
    plan_shapes,
)
from omnigraph.engine.schema.rekeying import check_rekeying, stage_rekeying
from omnigraph.engine.schema.rewriting import RewriterFactory, Rewriting, in_process
from omnigraph.engine.stages import stage
from omnigraph.engine.tables.columns import schema_of
from omnigraph.engine.write.idempotency import find_done, run_idempotent
from omnigraph.errors import (
    BranchesExist,
    ExpectedVersionMismatch,
    OmnigraphError,
    TableNotFound,
)
from omnigraph.ids import MAIN, TableKey, Version
from omnigraph.storage.layout import table_path
from omnigraph.storage.tables import Handle, Mark, Reshape, Staged, TableRef, TableSettings

LIFT: Final = TableSettings(config={"omnigraph.lift": "1"})
"""(2) The content of an empty commit."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchemaResult:
    """The plan that was applied, and its commit."""

    plan: SchemaPlan
    manifest_version: Version
    commit: Commit | None
    """None if nothing changed and the request had no idempotency key to record."""

    @property
    def applied(self) -> bool:
        return self.commit is not None and bool(self.plan.migration.steps)


def apply_schema(
    context: WriteContext,
    schemas: SchemaCache,
    request: SchemaRequest,
    rewriter_for: RewriterFactory = in_process,
) -> SchemaResult:
    """Change the schema, as one commit or not at all.

    `rewriter_for` chooses who writes a table again: for a large table, workers of Spark.

    Raises SchemaInvalid, MigrationUnsupported, BackfillInvalid before anything is touched;
    SchemaLocked, SchemaChanged, BranchesExist, and what `commit.attempt.phases` raises.
    """
    heal(context)

    def find() -> SchemaResult | None:
        if request.idempotency is None:
            return None
        return _applied_before(context.bases.current(MAIN).manifest, request)

    return run_idempotent(find, lambda: _apply(context, schemas, request, rewriter_for))


def _applied_before(manifest: Manifest, request: SchemaRequest) -> SchemaResult | None:
    """The result of an earlier request with the same key. Raises KeyReused."""
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
    migration, shapes = plan_shapes(accepted, desired, request)
    migration.check_supported()
    plan = SchemaPlan(migration, tuple(find_effects(manifest, shapes)))
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
            plan = SchemaPlan(migration, tuple(find_effects(manifest, shapes)))
            for each in (accepted, desired):
                keep_schema(context.stores.objects, each.source, each.schema_hash)
            draft = _Draft(lock, shapes, rewriter_for)
            draft.check_keys()
            change = replace(
                draft.change(accepted, desired, request.actor, _idempotency_record(plan, request)),
                message=request.message,
                counts=_counts(plan),
            )
            with stage("changing the tables"):
                published = run(lock, change)
        schemas.adopt(desired)
        if request.allow_data_loss:
            _purge(context, manifest, published.base.manifest, shapes)
    return SchemaResult(plan, published.base.manifest.version, published.commits[-1])


def _change_nothing(
    context: WriteContext, accepted: ActiveSchema, plan: SchemaPlan, request: SchemaRequest
) -> SchemaResult:
    """Make no commit, except to record an idempotency key: then one that moves no table."""
    if request.idempotency is None:
        return SchemaResult(plan, context.bases.current(MAIN).manifest.version, None)
    with acquire_write_locks(context, MAIN, ()) as lock:
        change = Change(
            WriterKind.SCHEMA_APPLY,
            MAIN,
            (),
            actor=request.actor,
            message=request.message,
            idempotency=_idempotency_record(plan, request),
            schema_hash=accepted.schema_hash,
        )
        published = run(lock, change)
    return SchemaResult(plan, published.base.manifest.version, published.commits[-1])


def _idempotency_record(plan: SchemaPlan, request: SchemaRequest) -> Idempotency | None:
    return None if request.idempotency is None else request.idempotency.record(plan.to_json())


def _counts(plan: SchemaPlan) -> dict[TableKey, RowCounts]:
    """The rows that a schema change writes or hides. New columns without values write none."""
    return {each.key: _COUNTED[each.effect](each.row_count) for each in plan.effects}


_COUNTED: Final[Mapping[EffectKind, Callable[[int], RowCounts]]] = {
    EffectKind.CREATED: lambda _: RowCounts(),
    EffectKind.RENAMED: lambda _: RowCounts(),
    EffectKind.RESHAPED: lambda _: RowCounts(),
    EffectKind.FILLED: lambda rows: RowCounts(updated=rows),
    EffectKind.REWRITTEN: lambda rows: RowCounts(updated=rows),
    EffectKind.REKEYED: lambda rows: RowCounts(inserted=rows, deleted=rows),
    EffectKind.HIDDEN: lambda rows: RowCounts(deleted=rows),
    EffectKind.REMOVED: lambda rows: RowCounts(deleted=rows),
}


# ── the change ───────────────────────────────────────────────────────────────────────────────────


class _Draft:
    """Builds the `Change`, while the locks of all tables are held."""

    def __init__(
        self, lock: WriteLock, shapes: tuple[TableShape, ...], rewriter_for: RewriterFactory
    ) -> None:
        self.tables = lock.context.stores.tables
        self.rewriting = Rewriting(self.tables, rewriter_for)
        self.manifest = lock.base.manifest
        self.shapes = shapes
        self.writes: list[TableWrite] = []
        self.updates: list[Update] = []
        self.taken = {pin.path for pin in self.manifest.pins.values()}

    def check_keys(self) -> None:
        """Raises MigrationUnsupported if edges would share a new key."""
        for shape in self.shapes:
            pin = self.manifest.pins.get(shape.was)
            if shape.is_rekeyed and pin is not None and pin.row_count:
                assert isinstance(shape.type, EdgeType), "only edges get a key later"
                former = {new: old for old, new in shape.renames.items()}
                handle = self.tables.open_at(TableRef(pin.path), pin.version)
                check_rekeying(self.tables, handle, shape.type, former)

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

    def _add(self, shape: TableShape) -> None:
        assert shape.type is not None, "an added type is in the new schema"
        path = self._find_path(shape)
        found = self._find_version(path)
        lifts = max(0, self._floor(shape.key) - (found + 1))
        creation = Creation(path, schema_of(shape.type))
        self.updates.append(RegisterTable(shape.key, path))
        self.writes.append(TableWrite(shape.key, found, (self._lift,) * lifts, creation=creation))

    def _hide(self, pin: Pin) -> None:
        self.updates.append(DropTable(pin.key, Version(pin.version + 1)))

    def _alter(self, shape: TableShape, pin: Pin) -> None:
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

    def _stages(self, shape: TableShape, pin: Pin) -> Iterator[Stage]:
        if shape.reshape is not None:
            yield from self._reshaping(shape, shape.reshape, pin)
        if shape.is_rekeyed and pin.row_count:
            edge = shape.type
            assert isinstance(edge, EdgeType), "only edges get a key later"
            yield lambda handle, mark: stage_rekeying(self.tables, handle, mark, edge)

    def _reshaping(self, shape: TableShape, reshape: Reshape, pin: Pin) -> Iterator[Stage]:
        type_ = shape.type
        assert type_ is not None, "a dropped type is not reshaped"
        schema = schema_of(type_)

        def alter(handle: Handle, mark: Mark) -> Staged:
            if handle.row_count == 0:
                return self.tables.stage_overwrite(handle, schema, mark)
            return self.rewriting.reshape(handle, reshape, mark)

        yield alter
        if self._is_indexed(pin, reshape.renames.keys()):
            # An index belongs to a column name, and a new property may take the old name.
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
        stats = self.tables.inspect(self.tables.open_at(TableRef(pin.path), pin.version))
        return any(each.column in columns for each in stats.indices)

    def _lift(self, handle: Handle, mark: Mark) -> Staged:
        return self.tables.stage_settings(handle, LIFT, mark)

    def _floor(self, key: TableKey) -> int:
        """(2) The lowest version at which the manifest can show a hidden or new key."""
        latest = self.manifest.latest.get(key)
        shown = 0 if latest is None else latest.version
        return max(self.manifest.tombstones.get(key, 0), shown) + 1

    def _find_path(self, shape: TableShape) -> str:
        """The former path of the key, else the path of its name, else a free path beside it.

        A renamed type keeps the path of its former name, so that path can be taken.
        """
        path = self.manifest.paths.get(shape.key, table_path(shape.kind, shape.name))
        number = 2
        while path in self.taken:
            path = table_path(shape.kind, f"{shape.name}~{number}")
            number += 1
        self.taken.add(path)
        return path

    def _find_version(self, path: str) -> Version:
        """The newest version of the hidden table at a path; 0 if the path holds no table."""
        try:
            return Version(self.tables.open_at(TableRef(path)).version)
        except TableNotFound:
            return Version(0)


@dataclass(frozen=True, slots=True)
class _Recheck:
    """No table may have moved since the change was planned."""

    before: Manifest

    def __call__(self, now: Manifest) -> None:
        for key, pin in self.before.pins.items():
            if now.version_of(key) != pin.version:
                raise ExpectedVersionMismatch(key, expected=pin.version, actual=now.version_of(key))


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────


def _purge(
    context: WriteContext, before: Manifest, after: Manifest, shapes: tuple[TableShape, ...]
) -> None:
    """(3) Delete what a hard drop made unreachable. What fails here is left for cleanup."""
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
