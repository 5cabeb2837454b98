"""Rows of cells ⇄ Arrow columns.

Columns are built in the order of the catalog and read by name; a table may store another order.
Dates and instants are converted as integers, because Arrow's own conversion would cut an instant
down to its day.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type, edge_schema, node_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.ir import STRING
from omnigraph.engine.tables.cells import Blob, Cell, Row

_INTEGERS = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}


def schema_of(type_: NodeType | EdgeType) -> pa.Schema:
    return node_schema(type_) if isinstance(type_, NodeType) else edge_schema(type_)


def column_type(type_: NodeType | EdgeType, name: str) -> ValueType:
    """The type of a property, or of `id`, `src` or `dst`."""
    found = type_.find(name)
    return STRING if found is None else found.type


def build_table(type_: NodeType | EdgeType, rows: Sequence[Row]) -> pa.Table:
    """The rows as an Arrow table. Every required column must have a value."""
    schema = schema_of(type_)
    arrays = [
        build_column([row.get(name) for row in rows], column_type(type_, name))
        for name in schema.names
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def build_column(cells: list[Cell], value_type: ValueType) -> "pa.Array[Any]":
    wanted = arrow_type(value_type)
    if value_type.is_blob:
        return pa.array([_blob_struct(each) for each in cells], wanted)
    carrier = carrier_of(value_type)
    if carrier is None:
        return pa.array(cells, wanted)
    return pa.array(cells, carrier).view(wanted)


def _blob_struct(cell: Cell) -> dict[str, bytes | str | None] | None:
    if cell is None:
        return None
    assert isinstance(cell, Blob)
    return {"data": cell.data, "uri": cell.uri}


def read_cells(column: "pa.ChunkedArray[Any]", value_type: ValueType) -> list[Cell]:
    """The cells of any column but a Blob."""
    assert not value_type.is_blob
    carrier = carrier_of(value_type)
    chunks: list[pa.Array[Any]] = list(column.chunks)
    if carrier is not None:
        chunks = [each.view(carrier) for each in chunks]
    cells = [cell for chunk in chunks for cell in chunk.to_pylist()]
    if value_type.is_list or value_type.is_vector:
        return [None if each is None else tuple(each) for each in cells]
    return cells


@lru_cache(maxsize=64)
def carrier_of(value_type: ValueType) -> pa.DataType | None:
    """The integer type that stores this type; None if Arrow converts the type itself."""
    carrier = _INTEGERS.get(value_type.base) if isinstance(value_type.base, Scalar) else None
    if carrier is None or not value_type.is_list:
        return carrier
    return pa.list_(pa.field("item", carrier, nullable=True))
