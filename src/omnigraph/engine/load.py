"""A load, from the question to the commit.

    ask the gate → heal → note the staging → ingest → judge → hold the tables → Change

1. Everything is read and staged without holding anything. Nobody waits for a load until it commits.
2. What spans rows is judged against the tables as they are. If one of those moved by the time the
   tables are held, an append or a merge is judged again and commits the very same files; an
   overwrite is refused, because whoever wrote meanwhile would lose it (D5).
3. Tables that were only looked at can still move; then the attempt has the load judged once more.
4. Nothing is loaded unless all of it is valid.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.attempt import Hold, hold, run
from omnigraph.commit.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest import Manifest, Pin
from omnigraph.commit.records import Commit
from omnigraph.commit.recovery import heal
from omnigraph.commit.staging import staging
from omnigraph.commit.workbench import Workbench
from omnigraph.engine.bulk import (
    ERRORS_MAX,
    ORDINAL,
    Bulk,
    Ingested,
    LoadJob,
    LoadMode,
    Placement,
    Target,
    Verdict,
)
from omnigraph.engine.contract import Contract
from omnigraph.engine.incoming import Incoming, judge
from omnigraph.engine.mutate import check_unmoved, is_tidied
from omnigraph.engine.settings import Settings
from omnigraph.errors import KeyConflict, LoadRejected
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey, lance_branch
from omnigraph.storage.tables import Handle, Mark, Staged, TableRef


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """What to load, how, and where to."""

    sources: Sequence[str]
    mode: LoadMode
    branch: BranchName = MAIN
    actor: str | None = None
    errors_max: int = ERRORS_MAX


@dataclass(frozen=True, slots=True)
class Loaded:
    counts: Mapping[TableKey, int] = field(default_factory=dict)
    """How many records were read for each table."""
    commit: Commit | None = None
    """None when the input was empty."""


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


def load(
    bench: Workbench, contract: Contract, bulk: Bulk, order: LoadOrder, settings: Settings
) -> Loaded:
    """Load all input as one commit, or nothing.

    Raises LoadRejected, KeyConflict, ExpectedVersionMismatch, BranchNotFound, FileUnreadable, the
    errors of the pipeline, and whatever `commit.attempt` raises.
    """
    heal(bench)
    base = bench.bases.current(order.branch).manifest
    operation_id = OperationId(bench.stores.effects.new_id())
    versions = {key: pin.version for key, pin in base.pins.items()}
    job = LoadJob(
        sources=order.sources,
        mode=order.mode,
        branch=order.branch,
        operation_id=operation_id,
        catalog=contract.catalog,
        targets={key: _target(pin, order) for key, pin in base.pins.items()},
        root=bench.stores.root,
        storage_options=settings.storage_options,
        durability=settings.durability,
        errors_max=order.errors_max,
    )
    with (
        staging(bench.stores.objects, operation_id, order.branch, versions, settings.timing),
        bulk.ingest(job) as ingested,
    ):
        if ingested.faults.count:
            raise LoadRejected(ingested.faults.listed, count=ingested.faults.count)
        if not ingested.counts:
            return Loaded()
        return _Load(bench, contract, order, ingested, base).commit()


def _target(pin: Pin, order: LoadOrder) -> Target:
    """Rows are in place where the branch has a place for them, and nothing to compare them with."""
    ref = TableRef(pin.path, lance_branch(pin.owner))
    is_decided = pin.owner == order.branch and order.mode is not LoadMode.MERGE
    return Target(ref, pin.version, Placement.IN_PLACE if is_decided else Placement.ASIDE)


@dataclass
class _Load:
    """Input that was read and whose records are right, each by itself."""

    bench: Workbench
    contract: Contract
    order: LoadOrder
    ingested: Ingested
    base: Manifest
    """The branch when the load began."""

    def commit(self) -> Loaded:
        keys = tuple(self.ingested.counts)
        asked = None if self.ingested.is_small else self._check(self.base)
        with hold(self.bench, self.order.branch, keys) as held:
            if self.order.mode is LoadMode.OVERWRITE:
                check_unmoved(held, {key: self.base.pins.get(key) for key in keys})
            if asked is None or self._has_moved(held, asked | set(keys)):
                asked = self._check(held.base.manifest)
            published = run(held, self._change(held.base.manifest, asked))
        return Loaded(self.ingested.counts, published.commits[-1])

    def _check(self, manifest: Manifest) -> frozenset[TableKey]:
        """(4) The tables that were looked at. Raises LoadRejected, KeyConflict."""
        verdict = self._judge(manifest)
        if verdict.faults.count:
            raise LoadRejected(verdict.faults.listed, count=verdict.faults.count)
        for type_name, ids in sorted(verdict.taken.items()):
            raise KeyConflict(type_name, ids=ids)
        return verdict.asked

    def _judge(self, manifest: Manifest) -> Verdict:
        if not self.ingested.is_small:
            return self.ingested.check(manifest.pins)
        incoming = Incoming(self.contract.catalog, self.order.mode, self.ingested)
        return judge(self.bench.stores, manifest, incoming, errors_max=self.order.errors_max)

    def _has_moved(self, held: Hold, keys: Collection[TableKey]) -> bool:
        """(2) Did any of these get other rows since the load began?"""
        now = held.base.manifest.pins
        moved = [key for key in keys if self.base.pins.get(key) != now.get(key)]
        return not all(is_tidied(held, self.base.pins.get(key), now.get(key)) for key in moved)

    def _change(self, manifest: Manifest, asked: frozenset[TableKey]) -> Change:
        keys = sorted(self.ingested.counts)

        def recheck(moved: Manifest) -> None:
            self._check(moved)  # (3)

        return Change(
            kind=WriterKind.LOAD,
            branch=self.order.branch,
            writes=tuple(
                TableWrite(key, manifest.pins[key].version, (self._stage(key),)) for key in keys
            ),
            actor=self.order.actor,
            reads={key: manifest.pins[key].version for key in asked if key not in keys},
            recheck=recheck,
            schema_hash=self.contract.schema_hash,
        )

    def _stage(self, key: TableKey) -> Stage:
        tables, ingested = self.bench.stores.tables, self.ingested
        receipts = ingested.receipts.get(key, ())

        def append(handle: Handle, mark: Mark) -> Staged:
            if receipts:
                return tables.stage_receipts(handle, receipts, mark)
            rows = ingested.open_aside(key, handle.schema.names)
            return tables.stage_append(handle, rows, mark)

        def merge(handle: Handle, mark: Mark) -> Staged:
            return tables.stage_upsert(
                handle, last_of_each(ingested.read_aside(key)), mark, key="id"
            )

        def overwrite(handle: Handle, mark: Mark) -> Staged:
            schema = handle.schema
            if receipts:
                return tables.stage_overwrite(handle, schema, mark, receipts=receipts)
            rows = ingested.open_aside(key, schema.names)
            return tables.stage_overwrite(handle, schema, mark, rows)

        match self.order.mode:
            case LoadMode.APPEND:
                return append
            case LoadMode.MERGE:
                return merge
            case LoadMode.OVERWRITE:
                return overwrite
            case _:
                assert_never(self.order.mode)


def last_of_each(rows: pa.Table) -> pa.Table:
    """One row for each id, the last one in the order of the input; without the ordinals."""
    plain = rows.select([name for name in rows.column_names if name != ORDINAL])
    if len(pc.unique(rows["id"])) == rows.num_rows:
        return plain
    places = pa.table({"id": rows["id"], "at": pa.array(range(rows.num_rows), pa.int64())})
    last = places.group_by("id").aggregate([("at", "max")])["at_max"]
    return plain.take(last.take(pc.sort_indices(last)))
