"""Pending rows become fragments of their table, written by workers, however many rows there are.

    keys of the input ⋈ keys of the table → what each row replaces → parts → pieces

1. One join over keys decides which row of an id counts, and which committed row it replaces. Its
   result is cut into parts: one for each range of pending lines, one for each fragment of the
   table that loses rows. A task takes one part, and no part is large.
2. The task of a range writes its rows as new fragments; a row that replaces another takes over its
   row id. The task of a fragment marks the replaced rows as deleted. No task reads a committed
   row, and each returns only descriptions of files.
3. All pieces are written on one version of the table, and are of use on that version alone.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, functions as f

from omnigraph.engine.load.bulk import ORDINAL, LoadMode
from omnigraph.jsontext import read_json
from omnigraph.pipeline.spark.jobs import failing_as, run_tasks
from omnigraph.pipeline.stage.fragments import (
    FRAGMENT_BYTES,
    UNNAMED,
    PendingFile,
    Storage,
    pieces_document,
    read_pieces,
)
from omnigraph.pipeline.stage.keys import ADDRESS_KEY, ORDINAL_KEY, ROW_ID_KEY
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import (
    ROWS_PER_FILE,
    Handle,
    Pieces,
    Replacement,
    RowChanges,
    TableRef,
    Tables,
)

PART: Final = "part"
LINES_PER_PART_BITS: Final = 18
_FRAGMENT_BITS: Final = 32
_JOB: Final = "writing the rows"


@dataclass(frozen=True, slots=True)
class Destination:
    """The version of a table that rows are written on."""

    storage: Storage
    ref: TableRef
    version: int

    def open(self) -> tuple[Stores, Handle]:
        stores = self.storage.open()
        return stores, stores.tables.open_at(self.ref, self.version)


# ── all rows are new ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WriteNew:
    """The work of adding rows; task n adds those of file n."""

    files: tuple[PendingFile, ...]
    destination: Destination
    mode: LoadMode

    def __call__(self, number: int) -> dict[str, Any]:
        stores, handle = self.destination.open()
        pieces = PieceWriter(stores.tables, handle, self.mode)
        for batch in self.files[number].read():
            pieces.insert(_plain(batch))
        return pieces_document(pieces.close())


def write_new(
    spark: SparkSession,
    files: Sequence[PendingFile],
    destination: Destination,
    mode: LoadMode,
    *,
    concurrency: int | None,
) -> tuple[Pieces, ...]:
    """Have rows added to a table, or to what replaces it. Raises JobFailed."""
    work = WriteNew(tuple(files), destination, mode)
    answers = run_tasks(spark, work, len(files), job=_JOB, concurrency=concurrency)
    return tuple(read_pieces(each) for each in answers)


# ── some rows replace others ─────────────────────────────────────────────────────────────────────


def write_merged(
    incoming: DataFrame,
    committed: DataFrame | None,
    files: Sequence[PendingFile],
    destination: Destination,
    *,
    slots: int,
) -> tuple[Pieces, ...]:
    """Have rows added to a table or put in the place of others. Raises JobFailed.

    `incoming` are the keys of the rows that count, `committed` those of the table, with places.
    """
    parts = find_fragments(incoming, committed).repartition(slots, PART)
    work = WritePart(tuple(files), destination)

    def write(rows: pa.Table) -> pa.Table:  # Spark counts arguments, and would count `self`
        return work(rows)

    with failing_as(_JOB):
        answers = parts.groupBy(PART).applyInArrow(write, "answer string").collect()
    return tuple(read_pieces(read_json(row["answer"])) for row in answers)


def find_fragments(incoming: DataFrame, committed: DataFrame | None) -> DataFrame:
    """(1) Of each row the part it belongs to, its ordinal and the row id it takes over; and of each
    row that is replaced the part of its fragment, and its address.
    """
    nothing = f.lit(None).cast("bigint")
    if committed is None:
        matched = incoming.select(ORDINAL_KEY, nothing.alias(ROW_ID_KEY))
        return matched.select(_part_of(f.col(ORDINAL_KEY)), "*", nothing.alias(ADDRESS_KEY))
    places = committed.select("id", ROW_ID_KEY, ADDRESS_KEY)
    matched = incoming.select("id", ORDINAL_KEY).join(places, "id", "left")
    row = f.struct(
        _part_of(f.col(ORDINAL_KEY)),
        f.col(ORDINAL_KEY),
        f.col(ROW_ID_KEY),
        nothing.alias(ADDRESS_KEY),
    )
    fragment = -1 - f.shiftright(f.col(ADDRESS_KEY), _FRAGMENT_BITS)
    replaced = f.struct(
        fragment.alias(PART),
        nothing.alias(ORDINAL_KEY),
        nothing.alias(ROW_ID_KEY),
        f.col(ADDRESS_KEY),
    )
    both = matched.select(f.explode(f.array(row, replaced)).alias("one")).select("one.*")
    return both.where(f.col(PART).isNotNull())


def _part_of(ordinal: Column) -> Column:
    return f.shiftright(ordinal, LINES_PER_PART_BITS).alias(PART)


@dataclass(frozen=True, slots=True)
class WritePart:
    """(2) The work of merging. A part below zero is a fragment of the table."""

    files: tuple[PendingFile, ...]
    """In the order of the input."""
    destination: Destination

    def __call__(self, rows: pa.Table) -> pa.Table:
        pa.set_cpu_count(1)
        part = rows[PART][0].as_py()
        assert isinstance(part, int)
        stores, handle = self.destination.open()
        if part < 0:
            pieces = self._drop(stores.tables, handle, rows[ADDRESS_KEY])
        else:
            pieces = self._write(stores.tables, handle, part, rows)
        return pa.table({"answer": [json.dumps(pieces_document(pieces))]})

    def _drop(self, tables: Tables, handle: Handle, addresses: "pa.ChunkedArray[Any]") -> Pieces:
        changes = RowChanges(deletes=addresses.to_numpy().tolist())
        return tables.to_pieces(tables.stage_rows(handle, changes, UNNAMED))

    def _write(self, tables: Tables, handle: Handle, part: int, rows: pa.Table) -> Pieces:
        begin = part << LINES_PER_PART_BITS
        end = (part + 1) << LINES_PER_PART_BITS
        ordinals = rows[ORDINAL_KEY].combine_chunks()
        row_ids = rows[ROW_ID_KEY].combine_chunks()
        pieces = PieceWriter(tables, handle, LoadMode.MERGE)
        for batch in self._read(begin, end):
            at = pc.index_in(batch[ORDINAL], value_set=ordinals)
            counts = pc.is_valid(at)
            winners = _plain(batch.filter(counts))
            taken_over = row_ids.take(at.filter(counts))
            is_known = pc.is_valid(taken_over)
            pieces.insert(winners.filter(pc.invert(is_known)))
            pieces.update(winners.filter(is_known), taken_over.filter(is_known))
        return pieces.close()

    def _read(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """The batches that may have these ordinals. Rows of several tables share the lines."""
        first = bisect_right(self.files, begin, key=lambda file: file.firsts[0])
        for file in self.files[max(0, first - 1) :]:
            if file.firsts[0] >= end:
                return
            yield from file.read(begin=begin, end=end)


# ── pieces in the making ─────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class PieceWriter:
    """Rows become fragments, each as large as the table wants them and memory allows."""

    tables: Tables
    handle: Handle
    mode: LoadMode
    _inserts: list[pa.Table] = field(default_factory=list)
    _updates: list[pa.Table] = field(default_factory=list)
    _row_ids: list[Any] = field(default_factory=list)
    _row_count: int = 0
    _size_bytes: int = 0
    _written: list[Pieces] = field(default_factory=list)

    def insert(self, rows: pa.Table) -> None:
        self._inserts.append(rows)
        self._weigh(rows)

    def update(self, rows: pa.Table, row_ids: "pa.Array[Any]") -> None:
        self._updates.append(rows)
        self._row_ids.append(row_ids)
        self._weigh(rows)

    def _weigh(self, rows: pa.Table) -> None:
        self._row_count += rows.num_rows
        self._size_bytes += rows.nbytes
        if self._row_count >= ROWS_PER_FILE or self._size_bytes >= FRAGMENT_BYTES:
            self._flush()

    def _flush(self) -> None:
        updates, inserts = _gathered(self._updates), _gathered(self._inserts)
        if self.mode is LoadMode.OVERWRITE:
            assert inserts is not None
            ordered = inserts.select(self.handle.schema.names)
            staged = self.tables.stage_overwrite(self.handle, self.handle.schema, UNNAMED, ordered)
        else:
            changes = RowChanges(inserts, None if updates is None else self._replacement(updates))
            staged = self.tables.stage_rows(self.handle, changes, UNNAMED)
        self._written.append(self.tables.to_pieces(staged))
        self._inserts, self._updates, self._row_ids = [], [], []
        self._row_count = self._size_bytes = 0

    def _replacement(self, rows: pa.Table) -> Replacement:
        row_ids = pa.concat_arrays(self._row_ids)
        # In order, a table describes the ids of its rows in a fraction of the space.
        order = pc.sort_indices(row_ids)
        return Replacement(rows.take(order), row_ids.take(order).to_numpy().tolist(), ())

    def close(self) -> Pieces:
        if self._row_count:
            self._flush()
        return Pieces(
            fresh=tuple(each for part in self._written for each in part.fresh),
            updated=sum(part.updated for part in self._written),
        )


def _gathered(tables: Sequence[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables) if any(each.num_rows for each in tables) else None


def _plain(batch: pa.RecordBatch) -> pa.Table:
    """Rows as the table keeps them, without their ordinals."""
    names = [name for name in batch.schema.names if name != ORDINAL]
    return pa.Table.from_batches([batch.select(names)])
