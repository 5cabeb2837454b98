"""The files that a task writes: fragments of a table, pending files, and keys.

No other process knows a file until the answer of the task names it. Fragments are written through
`storage`, on the table version at the start of the load. The commit may name them on a newer
version, which has the same columns.
"""

import json
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog.model import EdgeType
from omnigraph.commit.leases.staging import LivenessProbe
from omnigraph.effects import REAL
from omnigraph.engine.load.bulk import ORDINAL, LoadMode, LoadTarget
from omnigraph.engine.tables.columns import schema_of
from omnigraph.engine.write.base_rows import Type
from omnigraph.errors import StorageFailure
from omnigraph.ids import OperationId
from omnigraph.jsontext import read_json
from omnigraph.pipeline.stage.buckets import BucketColumn, BucketWriter
from omnigraph.pipeline.stage.keys import BUCKETS, ROWS_OF_KEYS, keys_of
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import Root
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import (
    ROWS_PER_FILE,
    FragmentDeletions,
    Mark,
    Pieces,
    Receipt,
    TableRef,
)

logger = logging.getLogger(__name__)

UNNAMED: Final = Mark("staged by a worker")
"""The driver commits what tasks stage, under a mark of its own."""

FRAGMENT_BYTES: Final = 128 * 2**20
"""Rows of this size become a fragment, because a task has to hold them."""


@dataclass(frozen=True, slots=True)
class Storage:
    """How a task reaches the graph. It is part of the task, never of Spark's settings (D22)."""

    root: Root
    options: Mapping[str, str] = field(repr=False)
    durability: Durability
    operation_id: OperationId | None = None
    """Of a job that may die before its tasks end: its staging record says whether it lives."""

    def open(self) -> Stores:
        """Raises JobAbandoned."""
        stores = self.open_anyway()
        self.check_not_abandoned()
        return stores

    def open_anyway(self) -> Stores:
        """The stores, also if the driver is gone."""
        # Tasks read and stage; the driver commits, and its stores refuse a branch of elsewhere.
        return open_stores(
            self.root.uri,
            REAL,
            storage_options=self.options,
            durability=self.durability,
            maps_bases=True,
        )

    def check_not_abandoned(self) -> None:
        """Raises JobAbandoned if the driver died, so that no commit will name the files."""
        if self.operation_id is None:
            return
        witness = _witnesses.get(self.operation_id)
        if witness is None:
            witness = _witnesses[self.operation_id] = LivenessProbe(
                self.open_anyway().objects, self.operation_id, REAL
            )
            for old in list(_witnesses)[:-_WITNESSES_MAX]:
                del _witnesses[old]
        if not witness.is_job_alive():
            raise JobAbandoned(f"the driver of {self.operation_id} is gone")


class JobAbandoned(Exception):
    """The driver of the job died. The task that notices ends, and so does its Spark job."""


_WITNESSES_MAX: Final = 64
_witnesses: Final[dict[OperationId, LivenessProbe]] = {}
"""By operation, what this worker saw of its staging record; workers run many tasks."""


@dataclass(slots=True)
class FragmentWriter:
    """Writes rows as fragments of `ROWS_PER_FILE` rows, or of `FRAGMENT_BYTES`."""

    storage: Storage
    target: LoadTarget
    mode: LoadMode
    journal: Path
    """Names the fragments in the scratch folder, for a load that fails before this task answers."""
    _waiting: list[pa.Table] = field(default_factory=list)
    _waiting_rows: int = 0
    _waiting_bytes: int = 0
    _receipts: list[Receipt] = field(default_factory=list)

    def write(self, rows: pa.Table, ordinals: "pa.Array[Any]") -> None:  # noqa: ARG002 - as PendingWriter
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= FRAGMENT_BYTES:
            self._stage(pa.concat_tables(self._waiting))
            self._keep([])
        elif self._waiting_rows >= ROWS_PER_FILE:
            gathered = pa.concat_tables(self._waiting)
            whole = gathered.num_rows - gathered.num_rows % ROWS_PER_FILE
            self._stage(gathered.slice(0, whole))
            self._keep([gathered.slice(whole)])

    def _keep(self, waiting: list[pa.Table]) -> None:
        self._waiting = waiting
        self._waiting_rows = sum(each.num_rows for each in waiting)
        self._waiting_bytes = sum(each.nbytes for each in waiting)

    def close(self) -> dict[str, Any]:
        if self._waiting_rows:
            self._stage(pa.concat_tables(self._waiting))
        return {"receipts": [[each.fragment, each.row_count] for each in self._receipts]}

    def discard(self) -> None:
        """Delete the fragments of a task that fails."""
        if self._receipts:
            self.storage.open().tables.discard(self.target.ref, Pieces(fresh=(*self._receipts,)))

    def _stage(self, rows: pa.Table) -> None:
        tables = self.storage.open().tables
        handle = tables.open_at(self.target.ref, self.target.version)
        if self.mode is LoadMode.OVERWRITE:
            ordered = rows.select(handle.schema.names)
            staged = tables.stage_overwrite(handle, handle.schema, UNNAMED, ordered)
        else:
            staged = tables.stage_append(handle, rows, UNNAMED)
        fresh = tables.to_pieces(staged).fresh
        with self.journal.open("a", encoding="utf-8") as file:
            for each in fresh:
                entry = {"ref": asdict(self.target.ref), "receipt": asdict(each)}
                file.write(f"{json.dumps(entry)}\n")
        self._receipts += fresh


JOURNAL: Final = ".staged.jsonl"


def discard_staged(scratch: Path, storage: Storage) -> None:
    """Delete the fragments in the journals of a failed load's tasks. A task that still runs ends by
    itself, and cleanup finds what it leaves.
    """
    tables = storage.open_anyway().tables
    for path in sorted(scratch.glob(f"*{JOURNAL}")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = read_json(line)
                pieces = Pieces(fresh=(Receipt(**entry["receipt"]),))
                tables.discard(TableRef(**entry["ref"]), pieces)
            except (StorageFailure, ValueError) as failure:
                logger.info("left a file for cleaning up: %s", failure)


class PendingWriter:
    """Writes rows with their ordinals to a pending file."""

    def __init__(self, type_: Type, path: Path) -> None:
        self._path = path
        self._schema = pending_schema(type_)
        self._size_bytes = 0
        self._firsts: list[int] = []
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(str(path), self._schema, options=options)

    def write(self, rows: pa.Table, ordinals: "pa.Array[Any]") -> None:
        whole = rows.append_column(ORDINAL, ordinals).cast(self._schema)
        self._size_bytes += whole.nbytes
        for batch in whole.combine_chunks().to_batches():
            self._firsts.append(int(batch[ORDINAL][0].as_py() or 0))
            self._writer.write_batch(batch)

    def discard(self) -> None:
        """Nothing: the scratch folder goes as a whole."""

    def close(self) -> dict[str, Any]:
        self._writer.close()
        return {"pending": str(self._path), "firsts": self._firsts, "size_bytes": self._size_bytes}


@dataclass(frozen=True, slots=True)
class PendingFile:
    """Rows of one task and table that wait for a decision, in the order of their lines."""

    path: str
    firsts: tuple[int, ...]
    """The ordinal that each of its batches begins with."""

    def read(self, *, begin: int = 0, end: int | None = None) -> Iterator[pa.RecordBatch]:
        """Its batches; only those that may have ordinals from `begin` to before `end`."""
        first = max(0, bisect_right(self.firsts, begin) - 1)
        last = len(self.firsts) if end is None else bisect_left(self.firsts, end)
        with pa.ipc.open_file(self.path) as file:
            assert file.num_record_batches == len(self.firsts)
            for number in range(first, last):
                yield file.get_batch(number)


def pending_schema(type_: Type) -> pa.Schema:
    return schema_of(type_).append(pa.field(ORDINAL, pa.int64(), nullable=False))


class KeyParquetWriter:
    """The keys of rows, as Spark reads them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def write(self, keys: pa.Table) -> None:
        if self._writer is None:
            # Keys hardly repeat and are read whole, so neither a dictionary nor bounds would pay.
            self._writer = pq.ParquetWriter(
                str(self._path),
                keys.schema,
                compression="lz4",
                use_dictionary=False,
                write_statistics=False,
            )
        self._writer.write_table(keys)

    def close(self) -> str | None:
        """Where they are; None if nothing was written."""
        if self._writer is None:
            return None
        self._writer.close()
        return str(self._path)


class KeyWriter:
    """The keys of rows that come in, for the checks that span rows."""

    def __init__(self, path: Path, columns: Sequence[BucketColumn], bucket_count: int) -> None:
        self._rows = KeyParquetWriter(path)
        self._buckets = BucketWriter(path.with_suffix(".arrow"), columns, bucket_count)

    def write(self, keys: pa.Table, *, without: Collection[str] = ()) -> None:
        """Add keys; the buckets leave out columns that no check reads."""
        self._rows.write(keys)
        self._buckets.write(keys, without=without)

    def close(self) -> dict[str, Any]:
        return {ROWS_OF_KEYS: self._rows.close(), BUCKETS: self._buckets.close()}


class LookupWriter:
    """The ids of nodes, and the properties by which edges of the same load find them."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._path = path
        self._names = ["id", *names]
        self._writer: pa.RecordBatchFileWriter | None = None

    def write(self, rows: pa.Table) -> None:
        chosen = rows.select(self._names)
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._path), chosen.schema)
        self._writer.write_table(chosen)

    def close(self) -> dict[str, Any]:
        if self._writer is None:
            return {LOOKED_UP: None}
        self._writer.close()
        return {LOOKED_UP: str(self._path)}


LOOKED_UP: Final = "looked_up"


@dataclass(slots=True)
class Sink:
    """Everything that is written for one table of one split."""

    type: Type
    rows: PendingWriter | FragmentWriter
    keys: KeyWriter | None
    lookup: LookupWriter | None = None
    row_count: int = 0

    def write(self, rows: pa.Table, ordinals: "pa.Array[Any]", *, with_ids: bool) -> None:
        """`with_ids`: some records state their id, which another row may have as well."""
        self.row_count += rows.num_rows
        self.rows.write(rows, ordinals)
        if self.lookup is not None:
            self.lookup.write(rows)
        if self.keys is not None:
            keys = keys_of(self.type, rows, pa.chunked_array([ordinals]))
            # No edge leads to an edge, so no check reads the generated ids of edges.
            is_unread = isinstance(self.type, EdgeType) and not with_ids
            self.keys.write(keys, without=("id",) if is_unread else ())

    def close(self) -> dict[str, Any]:
        answer = {"rows": self.row_count, **self.rows.close()}
        if self.keys is not None:
            answer |= self.keys.close()
        if self.lookup is not None:
            answer |= self.lookup.close()
        return answer


# ── what is said of files ────────────────────────────────────────────────────────────────────────


def pieces_document(pieces: Pieces) -> dict[str, Any]:
    """Pieces as a task answers them."""
    return asdict(pieces)


def read_pieces(document: Mapping[str, Any]) -> Pieces:
    return Pieces(
        fresh=tuple(Receipt(**each) for each in document["fresh"]),
        shrunk=tuple(FragmentDeletions(**each) for each in document["shrunk"]),
        removed=tuple(document["removed"]),
        updated=document["updated"],
        dropped=document["dropped"],
    )
