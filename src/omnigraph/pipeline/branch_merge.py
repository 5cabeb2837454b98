"""A merge of branches on Spark: tasks decide about shares of ids and write portions of rows.

    ids → shares → drafts (places, conflicts) → one plan → portions → pieces → one commit

1. A drafting task takes a share of the ids and runs the code that the engine runs for all of them.
   It writes its draft to a file, because row addresses are too large for an answer.
2. A writing task takes some rows of the source in storage order, or some fragments of the target
   that lose rows. No two tasks share a fragment.
3. The driver holds the addresses of merged rows, and no row.
"""

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.effects import REAL
from omnigraph.engine.history.table_diff import Share
from omnigraph.engine.load.bulk import LoadMode, type_of
from omnigraph.engine.merge.plan_rows import draft_share
from omnigraph.engine.merge.rulings import Rulings
from omnigraph.engine.merge.table_plan import PlanDraft, Sides, TablePlan
from omnigraph.engine.merge.taken_rows import TakenRows
from omnigraph.engine.merge.workers import MergeJob, Workers
from omnigraph.engine.merge.writes import blended_rows, dropped_addresses
from omnigraph.engine.tables.row_refs import RowRefs, fetch, no_row_refs, portions, stream
from omnigraph.ids import TableKey
from omnigraph.pipeline.spark.jobs import spark_tasks
from omnigraph.pipeline.spark.session import SparkSettings, find_session
from omnigraph.pipeline.stage.fragments import UNNAMED, Storage, pieces_document, read_pieces
from omnigraph.pipeline.stage.scratch import open_scratch
from omnigraph.pipeline.stage.worker_scratch import check_shared, storage_of
from omnigraph.pipeline.stage.write_pending import Destination, PieceWriter
from omnigraph.pipeline.tasks import RunTasks
from omnigraph.storage.tables import Addresses, Handle, Pieces, RowChanges, TableRef, Tables


@dataclass(frozen=True, slots=True)
class Cut:
    """How the work is cut for tasks."""

    shares: int = 4 * (os.cpu_count() or 1)
    """Every one of them reads all places, and keeps its own."""
    rows_per_task: int = 200_000
    """Of rows that are written: two fragments, or more if rows are large."""


USUAL: Final = Cut()

Pinned = tuple[TableRef, int]


@contextmanager
def open_workers(
    job: MergeJob, settings: SparkSettings, cut: Cut | None = None
) -> Iterator[Workers]:
    """`engine.merge.workers.Bulk.open` on Spark."""
    with open_scratch(settings, job.root, job.operation_id) as scratch:
        spark = find_session(settings)
        check_shared(spark, scratch)

        yield TaskWorkers(job, scratch, spark_tasks(spark, settings.concurrency), cut or USUAL)


@dataclass(frozen=True, slots=True)
class WorkerTable:
    """One table on all sides, as it is sent to workers."""

    key: TableKey
    catalog: Catalog
    storage: Storage
    bases: tuple[Pinned | None, ...]
    source: Pinned
    target: Pinned

    def open(self) -> tuple[Tables, Sides]:
        tables = self.storage.open().tables
        type_, source = type_of(self.catalog, self.key), tables.open_at(*self.source)
        return tables, Sides(
            type_,
            tuple(None if each is None else tables.open_at(*each) for each in self.bases),
            source,
            tables.open_at(*self.target),
            TakenRows(type_, source),
        )


@dataclass(frozen=True, slots=True)
class TaskWorkers:
    """`engine.merge.workers.Workers`, by tasks."""

    job: MergeJob
    scratch: Path
    run: RunTasks
    cut: Cut

    def draft(self, sides: Sides) -> Iterator[PlanDraft]:
        shares = self.cut.shares
        work = DraftShare(self._table(sides), self.job.rulings, str(self.scratch), shares)
        for answer in self.run(work, shares, "comparing branches"):
            draft = _take(Path(answer["draft"]))
            assert isinstance(draft, PlanDraft)
            yield draft

    def write(self, plan: TablePlan, onto: Handle) -> tuple[Pieces, ...]:
        table = self._table(plan.sides)
        destination = Destination(table.storage, onto.ref, onto.version)
        files = tuple(
            _put(self.scratch, each) for each in portions_of(plan, self.cut.rows_per_task)
        )
        work = WritePortion(table, destination, files)
        answers = self.run(work, len(files), "writing merged rows")
        return tuple(read_pieces(each) for each in answers)

    def _table(self, sides: Sides) -> WorkerTable:
        job = self.job
        return WorkerTable(
            sides.type.table_key,
            job.catalog,
            storage_of(job),
            tuple(None if each is None else _pinned(each) for each in sides.bases),
            _pinned(sides.source),
            _pinned(sides.target),
        )


def _pinned(handle: Handle) -> Pinned:
    return handle.ref, handle.version


def _put(scratch: Path, value: object) -> str:
    """Pickle a value for another process of this job, in a file of its own."""
    path = scratch / f"{REAL.new_id()}.pickle"
    path.write_bytes(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
    return str(path)


def _take(path: Path) -> object:
    return pickle.loads(path.read_bytes())  # noqa: S301 - we wrote it, a moment ago


# ── deciding ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DraftShare:
    """(1) The work of deciding; task n decides about share n."""

    table: WorkerTable
    rulings: Rulings
    scratch: str
    of: int

    def __call__(self, number: int) -> dict[str, Any]:
        tables, sides = self.table.open()
        draft = draft_share(tables, sides, self.rulings, Share(number, self.of))
        return {"draft": _put(Path(self.scratch), draft)}


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Portion:
    """(2) What one task writes."""

    inserts: RowRefs
    updates: RowRefs
    updated: RowRefs
    blends: RowRefs
    blended: RowRefs
    masks: "dict[str, np.ndarray[Any, np.dtype[np.bool_]]]"
    drops: Addresses


def portions_of(plan: TablePlan, rows_max: int) -> Iterator[Portion]:
    """Portions of a plan, without rows that a person edited."""
    none, nowhere = no_row_refs(), np.empty(0, np.uint64)
    for some in _in_order(plan.inserts, rows_max):
        yield Portion(plan.inserts.take(some), none, none, none, none, {}, nowhere)
    for some in _in_order(plan.updates, rows_max):
        updates, updated = plan.updates.take(some), plan.updated.take(some)
        yield Portion(none, updates, updated, none, none, {}, nowhere)
    for some in _in_order(plan.blends, rows_max):
        masks = {name: mask[some] for name, mask in plan.masks.items()}
        blends, blended = plan.blends.take(some), plan.blended.take(some)
        yield Portion(none, none, none, blends, blended, masks, nowhere)
    for addresses in _by_fragment(dropped_addresses(plan), rows_max):
        yield Portion(none, none, none, none, none, {}, addresses)


def _in_order(refs: RowRefs, rows_max: int) -> Iterator["np.ndarray[Any, np.dtype[np.int64]]"]:
    """Places among the rows, so many at a time, in the order rows are kept."""
    order = np.argsort(refs.addresses, kind="stable")
    for at in range(0, len(order), rows_max):
        yield order[at : at + rows_max]


def _by_fragment(addresses: Addresses, rows_max: int) -> Iterator[Addresses]:
    """Addresses that ascend, cut between fragments."""
    fragments = addresses >> np.uint64(32)
    edges = [0, *(np.flatnonzero(fragments[1:] != fragments[:-1]) + 1).tolist(), len(addresses)]
    start = 0
    for begin, end in pairwise(edges):
        if begin > start and end - start > rows_max:
            yield addresses[start:begin]
            start = begin
    if len(addresses):
        yield addresses[start:]


@dataclass(frozen=True, slots=True)
class WritePortion:
    """(2) The work of writing; task n writes what file n says."""

    table: WorkerTable
    destination: Destination
    portions: Sequence[str]

    def __call__(self, number: int) -> dict[str, Any]:
        portion = _take(Path(self.portions[number]))
        assert isinstance(portion, Portion)
        stores, onto = self.destination.open()
        if len(portion.drops):
            changes = RowChanges(deletes=portion.drops.tolist())
            staged = stores.tables.stage_rows(onto, changes, UNNAMED)
            return pieces_document(stores.tables.to_pieces(staged))
        tables, sides = self.table.open()
        plan = TablePlan(
            sides,
            portion.inserts,
            portion.updates,
            portion.updated,
            portion.blends,
            portion.blended,
            portion.masks,
            edits=(),
            deletes=no_row_refs(),
        )
        pieces = PieceWriter(stores.tables, onto, LoadMode.MERGE)
        for rows, row_ids in _rows_of(tables, plan):
            if row_ids is None:
                pieces.insert(rows)
            else:
                pieces.update(rows, pa.array(row_ids))
        return pieces_document(pieces.close())


def _rows_of(tables: Tables, plan: TablePlan) -> Iterator[tuple[pa.Table, Addresses | None]]:
    """Rows that are written, some at a time, and the row ids they take over."""
    sides = plan.sides
    for batch in stream(tables, sides.type, sides.source, plan.inserts.addresses):
        yield pa.Table.from_batches([batch]), None
    for start, stop in portions(tables, sides.type, sides.source, plan.updates.addresses):
        rows = fetch(tables, sides.type, sides.source, plan.updates.addresses[start:stop])
        yield rows, plan.updated.row_ids[start:stop]
    for start, stop in portions(tables, sides.type, sides.source, plan.blends.addresses):
        yield blended_rows(tables, plan, slice(start, stop)), plan.blended.row_ids[start:stop]
