"""Row refs: many rows of one table version by id and address, and how they are read.

Code that compares, copies or replaces rows holds their refs, which are small. It fetches the
content in portions that are bounded by a number of rows and by a number of bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.types import Vector
from omnigraph.compiler.ir import STRING
from omnigraph.engine.tables import filters
from omnigraph.engine.tables.cells import EXTERNAL_BLOB
from omnigraph.engine.tables.columns import column_type, schema_of
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_ID,
    ROW_UPDATED,
    Addresses,
    Handle,
    ScanRequest,
    Tables,
)

Type = NodeType | EdgeType

ROWS_MAX: Final = 8_192
"""The most rows of one portion, and the most rows that one commit replaces."""

BYTES_MAX: Final = 32 * 1024 * 1024
"""The most bytes of one portion. A single row may be larger."""

BATCH_BYTES: Final = 2 * 1024 * 1024
AHEAD_BYTES: Final = 4 * BATCH_BYTES
"""For streamed rows: the bytes of a batch, and the bytes that are read ahead. The table format
buffers several of each, and larger ones are not faster."""

KEYS_SPELLED_MAX: Final = 4_000
"""More values than this are found by reading the whole column."""

_CELL_BYTES: Final = 48
"""The estimated bytes of a cell of variable width."""

_BLOB_BYTES: Final = 4_096
"""The estimated bytes of a blob whose size was not read."""


@dataclass(frozen=True, slots=True)
class RowRefs:
    """Rows of one version of a table: ids, row ids and addresses, arrays of equal length."""

    ids: "pa.Array[Any]"
    row_ids: Addresses
    addresses: Addresses
    updated: Addresses
    """The table version that last wrote each row."""

    def __len__(self) -> int:
        return len(self.addresses)

    def take(self, places: "np.ndarray[Any, Any]") -> "RowRefs":
        """The refs at these indices, or where a mask is set."""
        is_mask = places.dtype == np.bool_
        if is_mask and places.all():
            return self
        at = np.flatnonzero(places) if is_mask else places
        return RowRefs(
            self.ids.take(pa.array(at, pa.int64())),
            self.row_ids[at],
            self.addresses[at],
            self.updated[at],
        )

    def sorted(self) -> "RowRefs":
        """Sorted by id."""
        return self.take(pc.sort_indices(self.ids).to_numpy())


def no_row_refs() -> RowRefs:
    none = np.empty(0, np.uint64)
    return RowRefs(pa.array([], pa.string()), none, none, none)


def concat_row_refs(parts: Sequence[RowRefs]) -> RowRefs:
    parts = [each for each in parts if len(each)]
    if not parts:
        return no_row_refs()
    if len(parts) == 1:
        return parts[0]
    return RowRefs(
        pa.concat_arrays([each.ids for each in parts]),
        np.concatenate([each.row_ids for each in parts]),
        np.concatenate([each.addresses for each in parts]),
        np.concatenate([each.updated for each in parts]),
    )


# ── finding ──────────────────────────────────────────────────────────────────────────────────────


def find_row_refs(
    tables: Tables, handle: Handle, column: str, values: "pa.Array[Any]"
) -> tuple["pa.Array[Any]", RowRefs]:
    """The rows whose column holds one of these texts: the values of the column, and the refs."""
    if not len(values) or not handle.row_count:
        return pa.array([], pa.string()), no_row_refs()
    held, parts = [], []
    for request in _requests(column, values):
        with tables.scan(handle, request) as batches:
            for batch in batches:
                known = batch.filter(pc.is_in(batch[column], value_set=values))
                held.append(known[column])
                parts.append(_row_refs(known))
    if not parts:
        return pa.array([], pa.string()), no_row_refs()
    return pa.concat_arrays(held), concat_row_refs(parts)


def _requests(column: str, values: "pa.Array[Any]") -> Iterator[ScanRequest]:
    columns = tuple(dict.fromkeys(("id", column, ROW_UPDATED)))
    if len(values) > KEYS_SPELLED_MAX:
        # Each batch builds a hash table of the values, so a batch is at least as long as those.
        rows = max(ROWS_MAX, len(values))
        yield ScanRequest(
            columns=columns, with_row_id=True, with_row_address=True, batch_rows_max=rows
        )
        return
    listed = values.to_pylist()
    for at in range(0, len(listed), filters.VALUES_MAX):
        some = [str(each) for each in listed[at : at + filters.VALUES_MAX]]
        yield ScanRequest(
            columns=columns,
            where=filters.one_of(column, STRING, some),
            among={column: some},
            with_row_id=True,
            with_row_address=True,
        )


def _row_refs(batch: pa.RecordBatch) -> RowRefs:
    return RowRefs(
        batch["id"],
        batch[ROW_ID].to_numpy().astype(np.uint64, copy=False),
        batch[ROW_ADDRESS].to_numpy().astype(np.uint64, copy=False),
        batch[ROW_UPDATED].to_numpy().astype(np.uint64, copy=False),
    )


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def portions(
    tables: Tables,
    type_: Type,
    handle: Handle,
    addresses: Addresses,
    bytes_max: int = BYTES_MAX,
) -> list[tuple[int, int]]:
    """Ranges of rows, each of which fits in memory: start and stop."""
    weight = _weight(type_)
    blobs = [each.name for each in type_.properties if each.type.is_blob]
    if not blobs:
        rows = max(1, min(ROWS_MAX, bytes_max // weight))
        return [(at, min(at + rows, len(addresses))) for at in range(0, len(addresses), rows)]
    sizes = _blob_sizes(tables, handle, addresses, blobs) + weight
    cuts, start, held = [], 0, 0
    for at, size in enumerate(sizes.tolist()):
        if at > start and (held + size > bytes_max or at - start >= ROWS_MAX):
            cuts.append((start, at))
            start, held = at, 0
        held += size
    return [*cuts, (start, len(addresses))] if len(addresses) else []


def estimate_row_bytes(type_: Type) -> int:
    """The estimated bytes of the vectors and blobs of a row; 0 for a row without any."""
    blobs = sum(each.type.is_blob for each in type_.properties)
    return blobs * _BLOB_BYTES + sum(
        4 * each.type.base.dimension
        for each in type_.properties
        if isinstance(each.type.base, Vector)
    )


def _weight(type_: Type) -> int:
    """The estimated bytes of a row without its blobs."""
    widths = (
        4 * each.type.base.dimension if isinstance(each.type.base, Vector) else _CELL_BYTES
        for each in type_.properties
    )
    return 3 * _CELL_BYTES + sum(widths)


def _blob_sizes(
    tables: Tables, handle: Handle, addresses: Addresses, names: Sequence[str]
) -> "np.ndarray[Any, np.dtype[np.int64]]":
    columns = tuple(name for name in names if name in handle.schema.names)
    held = _read_at(tables, handle, addresses, ScanRequest(columns=columns))
    sizes = np.zeros(len(addresses), np.int64)
    for name in columns:
        found = [0 if each is None else int(each["size"]) for each in held[name].to_pylist()]
        sizes += np.asarray(found, np.int64)
    return sizes


def fetch(
    tables: Tables,
    type_: Type,
    handle: Handle,
    addresses: Addresses,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The rows at these addresses, in this order, with columns as a write takes them."""
    wanted = schema_of(type_)
    names = wanted.names if columns is None else list(columns)
    known = tuple(name for name in names if name in handle.schema.names)
    held = _read_at(tables, handle, addresses, ScanRequest(columns=known))
    arrays: list[pa.ChunkedArray[Any] | pa.Array[Any]] = []
    for name in names:
        of = column_type(type_, name)
        if name not in known:
            arrays.append(pa.array([None] * len(addresses), arrow_type(of)))
        elif of.is_blob:
            arrays.append(_with_bytes(tables, handle, addresses, name, held[name].to_pylist()))
        else:
            arrays.append(held[name])
    return pa.Table.from_arrays(arrays, schema=pa.schema([wanted.field(name) for name in names]))


def _read_at(
    tables: Tables, handle: Handle, addresses: Addresses, request: ScanRequest
) -> pa.Table:
    """Read in address order, and return in the given order."""
    in_order = is_sorted(addresses)
    order = np.empty(0, np.int64) if in_order else np.argsort(addresses, kind="stable")
    with tables.scan_at(handle, addresses if in_order else addresses[order], request) as batches:
        found = list(batches)
    if not found:
        return tables.read(handle, ScanRequest(columns=request.columns, limit=0))
    held = pa.Table.from_batches(found)
    assert held.num_rows == len(addresses), "every address holds a row"
    if in_order:
        return held
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return held.take(back)


def _with_bytes(
    tables: Tables,
    handle: Handle,
    addresses: Addresses,
    name: str,
    descriptions: Sequence[Any],
) -> "pa.Array[Any]":
    """Blobs with their bytes; external blobs with their address."""
    cells: list[dict[str, bytes | str | None] | None] = []
    inline = []
    for at, each in enumerate(descriptions):
        is_external = each is not None and each["kind"] == EXTERNAL_BLOB
        uri = each["blob_uri"] if is_external else None
        cells.append(None if each is None else {"data": None, "uri": uri})
        if each is not None and not is_external:
            inline.append(at)
    if inline:
        held = tables.read_blobs(handle, name, addresses[np.asarray(inline)].tolist())
        for at, data in zip(inline, held, strict=True):
            cells[at] = {"data": data, "uri": None}
    return pa.array(cells, pa.struct([("data", pa.large_binary()), ("uri", pa.string())]))


def is_sorted(addresses: Addresses) -> bool:
    return bool((addresses[:-1] <= addresses[1:]).all())


def stream(
    tables: Tables, type_: Type, handle: Handle, addresses: Addresses
) -> pa.RecordBatchReader:
    """The rows at these addresses as a stream of portions, in address order."""
    ordered = addresses if is_sorted(addresses) else np.sort(addresses)
    return pa.RecordBatchReader.from_batches(
        schema_of(type_), _stream(tables, type_, handle, ordered)
    )


def _stream(
    tables: Tables, type_: Type, handle: Handle, addresses: Addresses
) -> Iterator[pa.RecordBatch]:
    schema = schema_of(type_)
    has_all = set(schema.names) <= set(handle.schema.names)
    if not has_all or any(each.type.is_blob for each in type_.properties):
        for start, stop in portions(tables, type_, handle, addresses):
            yield from fetch(tables, type_, handle, addresses[start:stop]).to_batches()
        return
    weight = _weight(type_)
    request = ScanRequest(
        columns=tuple(schema.names),
        batch_rows_max=max(1, min(ROWS_MAX, BATCH_BYTES // weight)),
        ahead_bytes_max=AHEAD_BYTES,
    )
    with tables.scan_at(handle, addresses, request) as batches:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch[name] for name in schema.names], schema=schema)
