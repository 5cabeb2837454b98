"""A load, from the question to the commit.

    ask the gate → heal → note the staging → ingest → evaluate → hold the tables → Change

1. Everything is read and staged without holding anything. Nobody waits for a load until it commits.
2. What spans rows is judged against the tables as they are. If one of those moved by the time the
   tables are held, an append or a merge is judged again, as far as that table has a part in it, and
   commits the very same files, unless rows were to replace others of it; an overwrite is refused,
   because whoever wrote meanwhile would lose it (D5).
3. Tables that were only looked at can still move; then the attempt has the load judged once more.
4. Nothing is loaded unless all of it is valid.
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
    """What to load, how, and where to."""

    sources: Sequence[Input | str]
    mode: LoadMode
    branch: BranchName = MAIN
    actor: str | None = None
    errors_max: int = ERRORS_MAX
    idempotency: IdempotencyKey | None = None
    """The key that makes asking again harmless."""
    branch_created: bool = False
    """Was the branch made for this load?"""
    rejects: Rejects | None = None
    """Is told of every fault of a load that is refused."""
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
    """The engine that read the input; None if an earlier load with the same key did."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did."""

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
    """The engine that read the input; None if an earlier load with the same key did."""


def load(
    context: WriteContext,
    contract: ActiveSchema,
    bulk: BulkLoader,
    order: LoadRequest,
    settings: Settings,
) -> Loaded:
    """Load all input as one commit, or nothing.

    Raises LoadRejected, KeyConflict, ExpectedVersionMismatch, BranchNotFound, FileUnreadable, the
    errors of the pipeline, and whatever `commit.attempt.phases` raises.
    """
    heal(context)
    base = context.bases.current(order.branch).manifest
    done = _loaded_before(base, order)
    if done is not None:
        return done
    base.check_schema(contract.schema_hash)
    operation_id = OperationId(context.stores.effects.new_id())
    versions = {key: pin.version for key, pin in base.pins.items()}
    job = LoadJob(
        sources=order.sources,
        mode=order.mode,
        branch=order.branch,
        operation_id=operation_id,
        catalog=contract.catalog,
        targets={key: _target(pin, order) for key, pin in base.pins.items()},
        root=context.stores.root,
        storage_options=settings.storage_options,
        durability=settings.durability,
        errors_max=order.errors_max,
        rejects=order.rejects,
        engine=order.engine,
    )
    with (
        staging(context.stores.objects, operation_id, order.branch, versions, settings.timing),
        bulk.ingest(job) as ingested,
    ):
        if not ingested.counts and not ingested.faults.count and order.idempotency is None:
            return Loaded(branch_created=order.branch_created, engine=ingested.engine)
        return _Load(context, contract, order, ingested, base).commit()


def _loaded_before(manifest: Manifest, order: LoadRequest) -> Loaded | None:
    """What was loaded when this was asked for before. Raises KeyReused."""
    done = find_done(manifest, order.idempotency, order.actor)
    if done is None:
        return None
    counts = done.result.get("counts")
    found = counts if isinstance(counts, dict) else {}
    created = done.result.get("branch_created") is True
    return Loaded({TableKey(key): int(found[key]) for key in found}, done.commit, created)


def _target(pin: Pin, order: LoadRequest) -> LoadTarget:
    """Rows are in place where the branch has a place for them, and nothing to compare them with."""
    ref = TableRef(pin.path, lance_branch(pin.owner))
    is_decided = pin.owner == order.branch and order.mode is not LoadMode.MERGE
    placement = Placement.IN_PLACE if is_decided else Placement.PENDING
    return LoadTarget(ref, pin.version, placement, pin.row_count)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files of one table, on the version of it that they are of use on."""

    pin: Pin
    pieces: tuple[Pieces, ...]


@dataclass
class _Load:
    """Input that was read."""

    context: WriteContext
    contract: ActiveSchema
    order: LoadRequest
    ingested: Ingested
    base: Manifest
    """The branch when the load began."""
    written: dict[TableKey, WrittenFiles] = field(default_factory=dict)
    has_begun: bool = False
    """Did the attempt begin? From then on its note speaks for the files."""

    def commit(self) -> Loaded:
        """All of it, or nothing and as little left on disk as possible."""
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
            if self.order.rejects is not None:
                for each in self.ingested.read_faults():
                    self.order.rejects(each)
            raise LoadRejected(faults.listed, count=faults.count)

    def _commit(self) -> Loaded:
        keys = tuple(self.ingested.counts)
        asked = None if self.ingested.is_small else self._check(self.base)
        self._write_early()
        with acquire_write_locks(self.context, self.order.branch, keys) as lock:
            done = _loaded_before(lock.base.manifest, self.order)
            if done is not None:
                self.discard()
                return done
            lock.base.manifest.check_schema(self.contract.schema_hash)
            if self.order.mode is LoadMode.OVERWRITE:
                check_unmoved(lock, {key: self.base.pins.get(key) for key in keys})
            if asked is None or self._has_moved(lock, asked | set(keys)):
                asked = self._check(lock.base.manifest)
            self.has_begun = True
            with stage("committing"):
                published = run(lock, self._change(lock.base.manifest, asked))
        created = self.order.branch_created
        return Loaded(self.ingested.counts, published.commits[-1], created, self.ingested.engine)

    def _check(self, manifest: Manifest) -> frozenset[TableKey]:
        """(4) The tables that were looked at. Raises LoadRejected, KeyConflict."""
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
        incoming = Incoming(self.contract.catalog, self.order.mode, self.ingested)
        order = self.order
        return evaluate(
            self.context.stores,
            manifest,
            incoming,
            errors_max=order.errors_max,
            rejects=order.rejects,
        )

    def _has_moved(self, lock: WriteLock, keys: Collection[TableKey]) -> bool:
        """(2) Did any of these get other rows since the load began?"""
        now = lock.base.manifest.pins
        moved = [key for key in keys if self.base.pins.get(key) != now.get(key)]
        return not all(
            only_maintenance_since(lock, self.base.pins.get(key), now.get(key)) for key in moved
        )

    def _change(self, manifest: Manifest, asked: frozenset[TableKey]) -> Change:
        keys = sorted(self.ingested.counts)

        result: JsonObject = {
            "counts": {str(key): count for key, count in self.ingested.counts.items()},
            "branch_created": self.order.branch_created,
        }

        def recheck(moved: Manifest) -> None:
            self._check(moved)  # (3)

        return Change(
            kind=WriterKind.LOAD,
            branch=self.order.branch,
            writes=tuple(
                TableWrite(key, manifest.pins[key].version, (self._stage(key, manifest.pins[key]),))
                for key in keys
            ),
            actor=self.order.actor,
            message=self.order.message,
            reads={key: manifest.pins[key].version for key in asked if key not in keys},
            recheck=recheck,
            idempotency=None
            if self.order.idempotency is None
            else self.order.idempotency.record(result),
            schema_hash=self.contract.schema_hash,
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

        match self.order.mode:
            case LoadMode.APPEND:
                return append
            case LoadMode.MERGE:
                return merge
            case LoadMode.OVERWRITE:
                return overwrite
            case _:
                assert_never(self.order.mode)

    # (1) files that are written before anything is held

    def _write_early(self) -> None:
        """Write what will be too much for this process, where the branch has a place for it."""
        for key in self.ingested.counts:
            pin = self.base.pins[key]
            is_aside = not self.ingested.receipts.get(key)
            if is_aside and pin.owner == self.order.branch and not self.ingested.fits(key):
                ref = TableRef(pin.path, lance_branch(pin.owner))
                self.written[key] = WrittenFiles(pin, self.ingested.write_pending(key, pin, ref))

    def _write(self, pin: Pin, handle: Handle) -> tuple[Pieces, ...]:
        """The rows put aside, on the version that is held: as they were written early, unless the
        table moved since, or had no place yet.
        """
        early = self.written.get(pin.key)
        if early is not None and early.pin == pin:
            return early.pieces
        if early is not None:
            self._discard(self.written.pop(pin.key))
        return self.ingested.write_pending(pin.key, pin, handle.ref)

    def discard(self) -> None:
        """Delete the files that nothing will ever refer to, as far as they are known here."""
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
    """One row for each id, the last one in the order of the input; without the ordinals."""
    plain = rows.select([name for name in rows.column_names if name != ORDINAL])
    if len(pc.unique(rows["id"])) == rows.num_rows:
        return plain
    places = pa.table({"id": rows["id"], "at": pa.array(range(rows.num_rows), pa.int64())})
    last = places.group_by("id").aggregate([("at", "max")])["at_max"]
    return plain.take(last.take(pc.sort_indices(last)))
