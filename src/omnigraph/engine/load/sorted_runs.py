"""Sorting more rows than fit in memory: sorted runs, and one way through all of them.

A run is some rows of one table, spelled and in the order of their ids. As many rows as fit a bound
become one; then all runs are read side by side, and what comes out is in order. Who writes the
runs does not matter: the order of ids is total, so the same rows give the same lines however they
were cut. That is why an export on Spark and one in this process give the same bytes.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Final

import pyarrow as pa

from omnigraph.effects import REAL
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.tables.record_format import Speller, is_blob
from omnigraph.ids import TableKey
from omnigraph.storage.tables import Handle, ScanRequest, TableRef, Tables

RUN_BYTES: Final = 64 * 2**20
"""What is held in memory to be sorted."""

SLICE_ROWS: Final = 1_000
SLICE_BLOB_BYTES: Final = 16 * 2**20
"""What is spelled at once: so many rows, or fewer if their blobs are large."""

RUNS_MAX: Final = 128
"""How many runs are read side by side."""

_SCHEMA: Final = pa.schema({"id": pa.string(), "line": pa.large_string()})

Line = tuple[str, str]
"""An id and its record."""


@dataclass(frozen=True, slots=True)
class SortPiece:
    """Some fragments of one table, at one version."""

    key: TableKey
    ref: TableRef
    version: int
    fragment_ids: tuple[int, ...]


def read_sorted(
    tables: Tables, piece: SortPiece, *, run_bytes: int = RUN_BYTES
) -> Iterator[Iterator[Line]]:
    """The runs of a piece. Each holds its rows until it is read."""
    if not piece.fragment_ids:
        return  # a scan of no fragment is taken for a scan of all
    handle = tables.open_at(piece.ref, piece.version)
    speller = speller_for(tables, piece.key, handle)
    with tables.scan(handle, request_for(piece, handle)) as batches:
        for rows in gather(batches, run_bytes):
            yield _spell_sorted(speller, rows)


def speller_for(tables: Tables, key: TableKey, handle: Handle) -> Speller:
    return Speller(key, lambda column, addresses: tables.read_blobs(handle, column, addresses))


def request_for(piece: SortPiece, handle: Handle) -> ScanRequest:
    has_blobs = any(isinstance(each.type, pa.BaseExtensionType) for each in handle.schema)
    return ScanRequest(fragment_ids=piece.fragment_ids, with_row_address=has_blobs)


def gather(batches: Iterable[pa.RecordBatch], size_bytes_max: int) -> Iterator[pa.Table]:
    """Batches put together until they are about as large as this."""
    some: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        check_cancelled()
        some.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= size_bytes_max:
            yield pa.Table.from_batches(some)
            some, size_bytes = [], 0
    if some:
        yield pa.Table.from_batches(some)


def _spell_sorted(speller: Speller, rows: pa.Table) -> Iterator[Line]:
    rows = rows.sort_by("id")
    for start, count in slices_of(rows, SLICE_ROWS):
        check_cancelled()
        some = rows.slice(start, count)
        yield from zip(some["id"].to_pylist(), speller.lines(some), strict=True)


def slices_of(rows: pa.Table, rows_max: int) -> Iterator[tuple[int, int]]:
    """Where to cut, so that the blobs of a slice fit in memory."""
    weights = _blob_bytes(rows)
    start = weight = 0
    for at, size_bytes in enumerate(weights or repeat(0, rows.num_rows)):
        weight += size_bytes
        if at + 1 - start >= rows_max or weight >= SLICE_BLOB_BYTES:
            yield start, at + 1 - start
            start, weight = at + 1, 0
    if start < rows.num_rows:
        yield start, rows.num_rows - start


def _blob_bytes(rows: pa.Table) -> list[int] | None:
    """How large the blobs of each row are; None if there cannot be any."""
    columns = [
        [0 if each is None else each["size"] for each in rows[field.name].to_pylist()]
        for field in rows.schema
        if is_blob(field.type)
    ]
    return [sum(sizes) for sizes in zip(*columns, strict=True)] if columns else None


# ── in files ─────────────────────────────────────────────────────────────────────────────────────


def write_run(lines: Iterable[Line], folder: Path) -> str:
    """Keep a run in a file of its own; the path."""
    path = folder / f"run-{REAL.new_id()}.arrow"
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(str(path), _SCHEMA, options=options) as file:
        for some in _batches(lines):
            ids, texts = zip(*some, strict=True)
            file.write_batch(pa.record_batch([ids, texts], schema=_SCHEMA))
    return str(path)


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    some: list[Line] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line[1])
        if len(some) >= SLICE_ROWS or size >= SLICE_BLOB_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def read_run(path: str) -> Iterator[Line]:
    with pa.memory_map(path) as source, pa.ipc.open_file(source) as file:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            yield from zip(batch["id"].to_pylist(), batch["line"].to_pylist(), strict=True)


def merge_runs(paths: Sequence[str], folder: Path) -> Iterator[Line]:
    """Every line of these runs, in order. Runs that are too many are merged in rounds."""
    left = list(paths)
    while len(left) > RUNS_MAX:
        some, left = left[:RUNS_MAX], left[RUNS_MAX:]
        left.append(write_run(merge_runs(some, folder), folder))
        for each in some:
            Path(each).unlink()
    return heapq.merge(*map(read_run, left), key=_id_of)


def _id_of(line: Line) -> str:
    # Python orders text by code point, and so does UTF-8.
    return line[0]
