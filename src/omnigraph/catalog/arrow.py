"""Node and edge types → the Arrow schemas of their tables.

`id` is first; edges then have `src` and `dst`; then come the properties, sorted by name as in the
catalog. This order holds at creation only: a column that is added later is last, so readers find
columns by name.

A DateTime is a Date64 with its time of day. Arrow's casts to Date64 drop the time of day, so values
are written and read as 64-bit integers through `Array.view` and never cast.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType, Property
from omnigraph.catalog.types import Scalar, Struct, ValueType, Vector

BLOB_METADATA: Final = {"ARROW:extension:name": "lance.blob.v2"}
"""Marks the struct as a blob, which Lance may store outside the row."""

_BLOB: Final = pa.struct(
    [
        pa.field("data", pa.large_binary(), nullable=True),
        pa.field("uri", pa.string(), nullable=True),
    ]
)

_SCALARS: Final[dict[Scalar, pa.DataType]] = {
    Scalar.STRING: pa.string(),
    Scalar.BLOB: _BLOB,
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.date64(),
}


def node_schema(node: NodeType) -> pa.Schema:
    return _schema(("id",), node.properties)


def edge_schema(edge: EdgeType) -> pa.Schema:
    return _schema(("id", "src", "dst"), edge.properties)


def property_field(property_: Property) -> "pa.Field[pa.DataType]":
    """The column of a property; nullable exactly if its type is."""
    metadata = BLOB_METADATA if property_.type.is_blob else None
    return pa.field(
        property_.name,
        arrow_type(property_.type),
        nullable=property_.type.nullable,
        metadata=metadata,
    )


def arrow_type(value_type: ValueType) -> pa.DataType:
    match value_type.base:
        case Vector(dimension):
            core: pa.DataType = pa.list_(pa.field("item", pa.float32(), nullable=True), dimension)
        case Struct(fields):
            core = pa.struct([pa.field(name, arrow_type(each)) for name, each in fields])
        case Scalar() as scalar:
            core = _SCALARS[scalar]
    return pa.list_(pa.field("item", core, nullable=True)) if value_type.is_list else core


def _schema(implicit: Sequence[str], properties: Sequence[Property]) -> pa.Schema:
    fields = [pa.field(name, pa.string(), nullable=False) for name in implicit]
    return pa.schema([*fields, *map(property_field, properties)])
