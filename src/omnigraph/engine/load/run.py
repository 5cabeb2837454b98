"""A load, from the request to the commit.

    heal → record the staging → ingest → check the rules → lock the tables → Change

1. Input is read and staged without a lock. Other writers wait for a load only while it commits.
2. Rules across rows are checked against the tables at the start of the load. If a table that they
   read moved before the locks are held, an append or a merge checks the rules of that table again
   and commits the same files; files that replace rows of a moved table are written again. An
   overwrite is refused, because it would undo the other write (D5).
3. Tables that were only read can still move; then the attempt checks the rules once more.
4. A load commits all of its input or nothing.
5. A small append or merge is a write like any other (`LoadTask`): it may share a group (D29).
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.staging import staging
from omnigraph.commit.manifest.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.records import Commit, PipelineRun
from omnigraph.commit.recovery.heal import heal
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.load.bulk import (
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
from omnigraph.engine.load.early_files import EarlyFiles
from omnigraph.engine.load.incoming import Incoming, evaluate
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.load.load_task import LoadTask, check_records, encode_result
from omnigraph.engine.settings import ERRORS_MAX, Settings
from omnigraph.engine.stages import stage
from omnigraph.engine.write.idempotency import IdempotencyKey, find_done
from omnigraph.engine.write.mutate import (
    WriteOutcome,
    WriteRequest,
    WriteTask,
    carry_out,
    check_unmoved,
    only_maintenance_since,
)
from omnigraph.errors import KeyConflict, LoadRejected
from omnigraph.errors.base import counted
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey, lance_branch, table_key
from omnigraph.storage.tables import Handle, Mark, Staged, TableRef

CarryOut = Callable[[ActiveSchema, WriteTask, WriteRequest], WriteOutcome]
"""Carries a write out: alone, or in a group."""

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
    input_options: Mapping[str, str] | None = field(default=None, repr=False)
    """How the input is reached, if not like the graph."""
    pipeline: PipelineRun | None = None
    """The run of a pipeline file that this is, if it is to be remembered."""


@dataclass(frozen=True, slots=True)
class Loaded:
    counts: Mapping[TableKey, int] = field(default_factory=dict)
    """How many records were read for each table."""
    commit: Commit | None = None
    """None when the input was empty."""
    branch_created: bool = False
    engine: LoadEngine | None = None
    """The engine that read the input; None if an older version loaded it under the same key."""
    tables: tuple[TableKey, ...] = ()
    """The tables whose upkeep is left to the caller."""


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

    def __repr__(self) -> str:
        made = "no commit" if self.commit is None else f"commit {self.commit.id}"
        rows = counted(sum(self.counts.values()), "row")
        return f"<LoadResult {rows} onto {self.branch}: {made}>"


def load(
    context: WriteContext,
    schema: ActiveSchema,
    bulk: BulkLoader,
    request: LoadRequest,
    settings: Settings,
    *,
    write: CarryOut | None = None,
) -> Loaded:
    """Load all input as one commit, or nothing. `write` carries a small load out (5).

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
        targets={
            key: find_target(pin, request.branch, request.mode) for key, pin in base.pins.items()
        },
        root=context.stores.root,
        storage_options=settings.storage_options,
        durability=settings.durability,
        errors_max=request.errors_max,
        rejects=request.rejects,
        engine=request.engine,
        input_options=request.input_options,
    )
    with (
        staging(context.stores.objects, operation_id, request.branch, versions, settings.timing),
        bulk.ingest(job) as ingested,
    ):
        if not ingested.counts and not ingested.faults.count and request.idempotency is None:
            return Loaded(branch_created=request.branch_created, engine=ingested.engine)
        # The commit of a run of a pipeline records more than a member of a group can.
        is_alone = request.mode is LoadMode.OVERWRITE or request.pipeline is not None
        if ingested.is_small and not is_alone:
            return _load_rows(schema, request, ingested, write or partial(carry_out, context))
        return _Load(context, schema, request, ingested, base).commit()


def _load_rows(
    schema: ActiveSchema, request: LoadRequest, ingested: Ingested, write: CarryOut
) -> Loaded:
    """(5) Write the rows of a small load as any other write."""
    incoming = Incoming(schema.catalog, request.mode, ingested, has_blobs=True)
    task = LoadTask(incoming, request.errors_max, branch_created=request.branch_created)
    signed = WriteRequest(
        request.branch,
        request.actor,
        idempotency=request.idempotency,
        message=request.message,
    )
    try:
        with stage("checking"):
            if request.idempotency is None:
                # The answer to a repeated key comes before that to faulty records.
                task.check_alone()
        with stage("committing"):
            written = write(schema, task, signed)
    except LoadRejected:
        task.reject(request.rejects)
        raise
    if written.recorded is not None:
        return _decode_result(written.recorded, written.commit)
    return Loaded(
        ingested.counts, written.commit, request.branch_created, ingested.engine, written.tables
    )


def _loaded_before(manifest: Manifest, request: LoadRequest) -> Loaded | None:
    """The result of an earlier load with the same idempotency key. Raises KeyReused."""
    done = find_done(manifest, request.idempotency, request.actor)
    if done is None:
        return None
    return _decode_result(done.result, done.commit)


def _decode_result(result: Mapping[str, object], commit: Commit | None) -> Loaded:
    counts = result.get("counts")
    found = counts if isinstance(counts, dict) else {}
    created = result.get("branch_created") is True
    engine = result.get("engine")
    return Loaded(
        {TableKey(key): int(found[key]) for key in found},
        commit,
        created,
        LoadEngine(engine) if isinstance(engine, str) else None,
    )


def find_target(pin: Pin, branch: BranchName, mode: LoadMode) -> LoadTarget:
    """Rows become fragments at once if the branch owns the table and no row can be replaced."""
    ref = TableRef(pin.path, lance_branch(pin.owner))
    is_decided = pin.owner == branch and mode is not LoadMode.MERGE
    placement = Placement.IN_PLACE if is_decided else Placement.PENDING
    return LoadTarget(ref, pin.version, placement, pin.row_count)


@dataclass
class _Load:
    """A load whose input was read."""

    context: WriteContext
    schema: ActiveSchema
    request: LoadRequest
    ingested: Ingested
    base: Manifest
    """The branch when the load began."""
    has_begun: bool = False
    """Did the attempt begin? From then on its sidecar names the files."""

    @cached_property
    def files(self) -> EarlyFiles:
        return EarlyFiles(self.context.stores.tables, self.request.branch, self.ingested, self.base)

    def commit(self) -> Loaded:
        """Commit all of it, or delete the staged files that are known here."""
        try:
            check_records(self.ingested, self.request.rejects)
            return self._commit()
        except (Exception, KeyboardInterrupt):
            if not self.has_begun:
                self.files.discard()
            raise

    def _commit(self) -> Loaded:
        keys = tuple(self.ingested.counts)
        tables_read = None if self.ingested.is_small else self._check(self.base)
        self.files.write_all()
        with acquire_write_locks(self.context, self.request.branch, keys) as lock:
            done = _loaded_before(lock.base.manifest, self.request)
            if done is not None:
                self.files.discard()
                return done
            lock.base.manifest.check_schema(self.schema.schema_hash)
            if self.request.mode is LoadMode.OVERWRITE:
                check_unmoved(lock, {key: self.base.pins.get(key) for key in keys})
            if tables_read is None or self._has_moved(lock, tables_read | set(keys)):
                tables_read = self._check(lock.base.manifest)
            self.has_begun = True
            with stage("committing"):
                published = run(lock, self._change(lock.base.manifest, tables_read))
        return Loaded(
            self.ingested.counts,
            published.commits[-1],
            self.request.branch_created,
            self.ingested.engine,
            keys,
        )

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

        result = encode_result(self.ingested, branch_created=self.request.branch_created)

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
            pipeline=self.request.pipeline,
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
            return tables.stage_pieces(handle, self.files.write(pin, handle), mark)

        def merge(handle: Handle, mark: Mark) -> Staged:
            if ingested.fits(key):
                rows = last_of_each(ingested.read_pending(key))
                return tables.stage_upsert(handle, rows, mark, key="id")
            return tables.stage_pieces(handle, self.files.write(pin, handle), mark)

        def overwrite(handle: Handle, mark: Mark) -> Staged:
            schema, written = handle.schema, receipts
            if not written and ingested.fits(key):
                rows = ingested.open_pending(key, schema.names)
                return tables.stage_overwrite(handle, schema, mark, rows)
            if not written:
                pieces = self.files.write(pin, handle)
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


def last_of_each(rows: pa.Table) -> pa.Table:
    """One row for each id, the last in the order of the input, without the ordinals."""
    plain = rows.select([name for name in rows.column_names if name != ORDINAL])
    if len(pc.unique(rows["id"])) == rows.num_rows:
        return plain
    places = pa.table({"id": rows["id"], "at": pa.array(range(rows.num_rows), pa.int64())})
    last = places.group_by("id").aggregate([("at", "max")])["at_max"]
    return plain.take(last.take(pc.sort_indices(last)))
