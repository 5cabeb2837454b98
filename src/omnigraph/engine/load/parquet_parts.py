"""Pieces of tables as Parquet files, for other programs.

Columns are `id` (`@id` beside a property `id`), for edges `from` and `to`, then the properties by
name; for an edge over several ends also `from_type` and `to_type`. Parquet knows no instant that is
a Date64 with a time of day, so a DateTime becomes a timestamp in UTC. A Blob is the text that
records have for it, because its bytes may be elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog.model import PAIR_SEPARATOR
from omnigraph.engine.load.sorted_runs import SortPiece, gather, request_for, slices_of, speller_for
from omnigraph.engine.tables.record_format import Speller, columns_by_name, is_blob
from omnigraph.ids import TableKey, split_table_key
from omnigraph.storage.tables import Tables

INSTANT: Final = pa.timestamp("ms", tz="UTC")

_GROUP_BYTES: Final = 32 * 2**20


@dataclass(frozen=True, slots=True)
class ParquetPart:
    """One file of an export."""

    piece: SortPiece
    path: str


def write_part(tables: Tables, part: ParquetPart) -> int:
    """Write the file; how many rows it has."""
    handle = tables.open_at(part.piece.ref, part.piece.version)
    speller = speller_for(tables, part.piece.key, handle)
    schema = parquet_schema(handle.schema)
    types = _types_of_ends(part.piece.key, schema)
    for name in types:
        schema = schema.append(pa.field(name, pa.string(), nullable=False))
    row_count = 0
    with pq.ParquetWriter(part.path, schema, compression="zstd") as writer:
        if not part.piece.fragment_ids:
            return 0
        with tables.scan(handle, request_for(part.piece, handle)) as batches:
            for rows in gather(batches, _GROUP_BYTES):
                for start, count in slices_of(rows, rows.num_rows):
                    shaped = _shape(speller, rows.slice(start, count), schema, types)
                    writer.write_table(shaped)
                row_count += rows.num_rows
    return row_count


def _types_of_ends(key: TableKey, schema: pa.Schema) -> dict[str, str]:
    """By column. Where a property has such a name, only the name of the folder says the types."""
    _, *ends = split_table_key(key)[1].split(PAIR_SEPARATOR)
    types = dict(zip(("from_type", "to_type"), ends, strict=False))
    return {} if any(name in schema.names for name in types) else types


def parquet_schema(schema: pa.Schema) -> pa.Schema:
    """How a table of these columns is exported."""
    return pa.schema(
        [
            pa.field(name, _parquet_type(each.type), nullable=each.nullable)
            for name, column in columns_by_name(schema).items()
            for each in [schema.field(column)]
        ]
    )


def _parquet_type(of: pa.DataType) -> pa.DataType:
    if isinstance(of, pa.BaseExtensionType):
        return pa.large_string()
    if pa.types.is_date64(of):
        return INSTANT
    if pa.types.is_list(of):
        return pa.list_(pa.field("item", _parquet_type(of.value_type), nullable=True))
    return of


def _shape(
    speller: Speller, rows: pa.Table, schema: pa.Schema, types: Mapping[str, str]
) -> pa.Table:
    stored = columns_by_name(rows.schema)
    columns: list[pa.ChunkedArray[Any]] = []
    for each in schema:
        if each.name in types:
            columns.append(pa.chunked_array([pa.repeat(types[each.name], rows.num_rows)]))
            continue
        name = stored[each.name]
        column = rows[name]
        if is_blob(column.type):
            texts = pa.array(speller.blob_texts(rows, name), pa.large_string())
            columns.append(pa.chunked_array([texts]))
        else:
            chunks = [as_instants(chunk) for chunk in column.chunks]
            columns.append(pa.chunked_array(chunks, each.type))
    return pa.Table.from_arrays(columns, schema=schema)


def as_instants(cells: "pa.Array[Any]") -> "pa.Array[Any]":
    """A DateTime, or a list of them, as timestamps; anything else as it is."""
    if pa.types.is_date64(cells.type):
        return cells.view(pa.int64()).view(INSTANT)
    if pa.types.is_list(cells.type) and pa.types.is_date64(cells.type.value_type):
        items = pa.list_(pa.field("item", INSTANT, nullable=True))
        return cells.view(pa.list_(pa.field("item", pa.int64(), nullable=True))).view(items)
    return cells
