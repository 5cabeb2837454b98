"""A load, from the request to the commit.

    heal → record the staging → ingest → check the rules → lock the tables → Change

1. Input is read and staged without a lock. Other writers wait for a load only while it commits.
2. Rules across rows are checked against the tables at the start of the load. If a table that they
   read moved before the locks are held, an append or a merge checks the rules of that table again
   and commits the same files; files that replace rows of a moved table are written again. An
   overwrite is refused, because it would undo the other write (D5).
3. Tables that were only read can still move; then the attempt checks the rules once more.
4. A load commits all of its input or nothing.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.staging import staging
from omnigraph.commit.manifest.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.records import Commit, JsonObject
from omnigraph.commit.recovery.heal import heal
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.load.bulk import (
    ERRORS_MAX,
    ORDINAL,
    BulkLoader,
    CheckResult,
    Ingested,
    LoadEngine,
    LoadJob,
    LoadMode,
    LoadTarget,
    Placement,
    Rejects,
)
from omnigraph.engine.load.incoming import Incoming, evaluate
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.settings import Settings
from omnigraph.engine.stages import stage
from omnigraph.engine.write.idempotency import IdempotencyKey, find_done
from omnigraph.engine.write.mutate import check_unmoved, only_maintenance_since
from omnigraph.errors import KeyConflict, LoadRejected, StorageFailure
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey, lance_branch, table_key
from omnigraph.storage.tables import Handle, Mark, Pieces, Staged, TableRef

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What to load, how, and onto which branch."""

    sources: Sequence[Input | str]
    mode: LoadMode
    branch: BranchName = MAIN
    actor: str | None = None
    errors_max: int = ERRORS_MAX
    idempotency: IdempotencyKey | None = None
    """A second request with the same key returns the result of the first."""
    branch_created: bool = False
    """Was the branch created for this load?"""
    rejects: Rejects | None = None
    """Receives every fault of a load that is refused."""
    message: str | None = None
    """Why the load is made; kept in the commit."""
    engine: LoadEngine | None = None
    """None: as `OMNIGRAPH_LOAD_ENGINE` says, else chosen by the size of the input."""


@dataclass(frozen=True, slots=True)
class Loaded:
    counts: Mapping[TableKey, int] = field(default_factory=dict)
    """How many records were read for each table."""
    commit: Commit | None = None
    """None when the input was empty."""
    branch_created: bool = False
    engine: LoadEngine | None = None
    """The engine that read the input; None if an older version loaded it under the same key."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load, as the SDK returns it."""

    uri: str
    branch: BranchName
    base_branch: BranchName | None
    branch_created: bool
    mode: LoadMode
    counts: Mapping[TableKey, int]
    """How many records were read for each table that had any, by table key."""
    actor: str | None
    commit: Commit | None
    """None when the input was empty."""
    timings_ms: Mapping[str, int] = field(default_factory=dict)
    """How long each stage took."""
    engine: LoadEngine | None = None
    """The engine that read the input; None if an older version loaded it under the same key."""


def load(
    context: WriteContext,
    schema: ActiveSchema,
    bulk: BulkLoader,
    request: LoadRequest,
    settings: Settings,
) -> Loaded:
    """Load all input as one commit, or nothing.

    Raises LoadRejected, KeyConflict, ExpectedVersionMismatch, BranchNotFound, FileUnreadable, the
    errors of the pipeline, and whatever `commit.attempt.phases` raises.
    """
    heal(context)
    base = context.bases.current(request.branch).manifest
    done = _loaded_before(base, request)
    if done is not None:
        return done
    base.check_schema(schema.schema_hash)
    operation_id = OperationId(context.stores.effects.new_id())
    versions = {key: pin.version for key, pin in base.pins.items()}
    job = LoadJob(
        sources=request.sources,
        mode=request.mode,
        branch=request.branch,
        operation_id=operation_id,
        catalog=schema.catalog,
        targets={key: _target(pin, request) for key, pin in base.pins.items()},
        root=context.stores.root,
        storage_options=settings.storage_options,
        durability=settings.durability,
        errors_max=request.errors_max,
        rejects=request.rejects,
        engine=request.engine,
    )
    with (
        staging(context.stores.objects, operation_id, request.branch, versions, settings.timing),
        bulk.ingest(job) as ingested,
    ):
        if not ingested.counts and not ingested.faults.count and request.idempotency is None:
            return Loaded(branch_created=request.branch_created, engine=ingested.engine)
        return _Load(context, schema, request, ingested, base).commit()


def _loaded_before(manifest: Manifest, request: LoadRequest) -> Loaded | None:
    """The result of an earlier load with the same idempotency key. Raises KeyReused."""
    done = find_done(manifest, request.idempotency, request.actor)
    if done is None:
        return None
    counts = done.result.get("counts")
    found = counts if isinstance(counts, dict) else {}
    created = done.result.get("branch_created") is True
    engine = done.result.get("engine")
    return Loaded(
        {TableKey(key): int(found[key]) for key in found},
        done.commit,
        created,
        LoadEngine(engine) if isinstance(engine, str) else None,
    )


def _target(pin: Pin, request: LoadRequest) -> LoadTarget:
    """Rows become fragments at once if the branch owns the table and no row can be replaced."""
    ref = TableRef(pin.path, lance_branch(pin.owner))
    is_decided = pin.owner == request.branch and request.mode is not LoadMode.MERGE
    placement = Placement.IN_PLACE if is_decided else Placement.PENDING
    return LoadTarget(ref, pin.version, placement, pin.row_count)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files of one table, staged on the version that the pin names."""

    pin: Pin
    pieces: tuple[Pieces, ...]


@dataclass
class _Load:
    """A load whose input was read."""

    context: WriteContext
    schema: ActiveSchema
    request: LoadRequest
    ingested: Ingested
    base: Manifest
    """The branch when the load began."""
    written: dict[TableKey, WrittenFiles] = field(default_factory=dict)
    has_begun: bool = False
    """Did the attempt begin? From then on its sidecar names the files."""

    def commit(self) -> Loaded:
        """Commit all of it, or delete the staged files that are known here."""
        try:
            self._check_records()
            return self._commit()
        except (Exception, KeyboardInterrupt):
            if not self.has_begun:
                self.discard()
            raise

    def _check_records(self) -> None:
        faults = self.ingested.faults
        if faults.count:
            if self.request.rejects is not None:
                for each in self.ingested.read_faults():
                    self.request.rejects(each)
            raise LoadRejected(faults.listed, count=faults.count)

    def _commit(self) -> Loaded:
        keys = tuple(self.ingested.counts)
        tables_read = None if self.ingested.is_small else self._check(self.base)
        self._write_early()
        with acquire_write_locks(self.context, self.request.branch, keys) as lock:
            done = _loaded_before(lock.base.manifest, self.request)
            if done is not None:
                self.discard()
                return done
            lock.base.manifest.check_schema(self.schema.schema_hash)
            if self.request.mode is LoadMode.OVERWRITE:
                check_unmoved(lock, {key: self.base.pins.get(key) for key in keys})
            if tables_read is None or self._has_moved(lock, tables_read | set(keys)):
                tables_read = self._check(lock.base.manifest)
            self.has_begun = True
            with stage("committing"):
                published = run(lock, self._change(lock.base.manifest, tables_read))
        created = self.request.branch_created
        return Loaded(self.ingested.counts, published.commits[-1], created, self.ingested.engine)

    def _check(self, manifest: Manifest) -> frozenset[TableKey]:
        """(4) The tables that the rules read. Raises LoadRejected, KeyConflict."""
        with stage("checking"):
            found = self._evaluate(manifest)
        if found.faults.count:
            raise LoadRejected(found.faults.listed, count=found.faults.count)
        for type_name, ids in sorted(found.existing.items()):
            is_node = table_key("node", type_name) in manifest.pins
            raise KeyConflict(type_name, ids=ids, kind="node" if is_node else "edge")
        return found.tables_read

    def _evaluate(self, manifest: Manifest) -> CheckResult:
        checked = self.ingested.check(manifest.pins)
        if checked is not None:
            return checked
        incoming = Incoming(self.schema.catalog, self.request.mode, self.ingested)
        request = self.request
        return evaluate(
            self.context.stores,
            manifest,
            incoming,
            errors_max=request.errors_max,
            rejects=request.rejects,
        )

    def _has_moved(self, lock: WriteLock, keys: Collection[TableKey]) -> bool:
        """(2) Did rows of one of these tables change since the load began?"""
        now = lock.base.manifest.pins
        moved = [key for key in keys if self.base.pins.get(key) != now.get(key)]
        return not all(
            only_maintenance_since(lock, self.base.pins.get(key), now.get(key)) for key in moved
        )

    def _change(self, manifest: Manifest, tables_read: frozenset[TableKey]) -> Change:
        keys = sorted(self.ingested.counts)

        result: JsonObject = {
            "counts": {str(key): count for key, count in self.ingested.counts.items()},
            "branch_created": self.request.branch_created,
            "engine": self.ingested.engine.value,
        }

        def recheck(moved: Manifest) -> None:
            self._check(moved)  # (3)

        return Change(
            kind=WriterKind.LOAD,
            branch=self.request.branch,
            writes=tuple(
                TableWrite(key, manifest.pins[key].version, (self._stage(key, manifest.pins[key]),))
                for key in keys
            ),
            actor=self.request.actor,
            message=self.request.message,
            reads={key: manifest.pins[key].version for key in tables_read if key not in keys},
            recheck=recheck,
            idempotency=None
            if self.request.idempotency is None
            else self.request.idempotency.record(result),
            schema_hash=self.schema.schema_hash,
        )

    def _stage(self, key: TableKey, pin: Pin) -> Stage:
        tables, ingested = self.context.stores.tables, self.ingested
        receipts = ingested.receipts.get(key, ())

        def append(handle: Handle, mark: Mark) -> Staged:
            if receipts:
                return tables.stage_receipts(handle, receipts, mark)
            if ingested.fits(key):
                rows = ingested.open_pending(key, handle.schema.names)
                return tables.stage_append(handle, rows, mark)
            return tables.stage_pieces(handle, self._write(pin, handle), mark)

        def merge(handle: Handle, mark: Mark) -> Staged:
            if ingested.fits(key):
                rows = last_of_each(ingested.read_pending(key))
                return tables.stage_upsert(handle, rows, mark, key="id")
            return tables.stage_pieces(handle, self._write(pin, handle), mark)

        def overwrite(handle: Handle, mark: Mark) -> Staged:
            schema, written = handle.schema, receipts
            if not written and ingested.fits(key):
                rows = ingested.open_pending(key, schema.names)
                return tables.stage_overwrite(handle, schema, mark, rows)
            if not written:
                pieces = self._write(pin, handle)
                written = tuple(each for part in pieces for each in part.fresh)
            return tables.stage_overwrite(handle, schema, mark, receipts=written)

        match self.request.mode:
            case LoadMode.APPEND:
                return append
            case LoadMode.MERGE:
                return merge
            case LoadMode.OVERWRITE:
                return overwrite
            case _:
                assert_never(self.request.mode)

    # (1) files that are written before the locks are held

    def _write_early(self) -> None:
        """Write pending rows that do not fit in memory, if the branch owns their table."""
        for key in self.ingested.counts:
            pin = self.base.pins[key]
            is_pending = not self.ingested.receipts.get(key)
            if is_pending and pin.owner == self.request.branch and not self.ingested.fits(key):
                ref = TableRef(pin.path, lance_branch(pin.owner))
                self.written[key] = WrittenFiles(pin, self.ingested.write_pending(key, pin, ref))

    def _write(self, pin: Pin, handle: Handle) -> tuple[Pieces, ...]:
        """The pending rows as files on the locked version.

        Files that were written early serve, unless the table moved since.
        """
        early = self.written.get(pin.key)
        if early is not None and early.pin == pin:
            return early.pieces
        if early is not None:
            self._discard(self.written.pop(pin.key))
        return self.ingested.write_pending(pin.key, pin, handle.ref)

    def discard(self) -> None:
        """Delete the staged files that no commit will name, as far as they are known here."""
        for key, receipts in self.ingested.receipts.items():
            self._discard(WrittenFiles(self.base.pins[key], (Pieces(fresh=receipts),)))
        for written in self.written.values():
            self._discard(written)

    def _discard(self, written: WrittenFiles) -> None:
        ref = TableRef(written.pin.path, lance_branch(written.pin.owner))
        try:
            for pieces in written.pieces:
                self.context.stores.tables.discard(ref, pieces)
        except StorageFailure as failure:
            logger.info("left files of %s for cleaning up: %s", written.pin.key, failure)


def last_of_each(rows: pa.Table) -> pa.Table:
    """One row for each id, the last in the order of the input, without the ordinals."""
    plain = rows.select([name for name in rows.column_names if name != ORDINAL])
    if len(pc.unique(rows["id"])) == rows.num_rows:
        return plain
    places = pa.table({"id": rows["id"], "at": pa.array(range(rows.num_rows), pa.int64())})
    last = places.group_by("id").aggregate([("at", "max")])["at_max"]
    return plain.take(last.take(pc.sort_indices(last)))
