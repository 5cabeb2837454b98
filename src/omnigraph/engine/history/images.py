"""Rows as JSON: cells from columns, and JSON from cells.

Dates and instants are strings, vectors and lists are arrays. NaN and the infinities, which JSON
lacks, are strings. A Blob is its size and digest; an external Blob is its address.
"""

import hashlib
import math
from typing import assert_never

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.temporal import format_date, format_datetime
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.engine.tables.cells import Blob, Cell, Row
from omnigraph.engine.tables.columns import column_type, read_cells

Type = NodeType | EdgeType


def read_rows(type_: Type, rows: pa.Table) -> list[Row]:
    """Rows of cells, from columns as a write takes them."""
    columns = []
    for name in rows.column_names:
        of = column_type(type_, name)
        if of.is_blob:
            columns.append([_blob(each) for each in rows[name].to_pylist()])
        else:
            columns.append(read_cells(rows[name], of))
    return [
        dict(zip(rows.column_names, cells, strict=True)) for cells in zip(*columns, strict=True)
    ]


def _blob(cell: dict[str, bytes | str | None] | None) -> Cell:
    if cell is None:
        return None
    data, uri = cell["data"], cell["uri"]
    if isinstance(uri, str):
        return Blob(uri=uri)
    return Blob(data=data if isinstance(data, bytes) else b"")


def spell_properties(type_: Type, row: Row) -> JsonObject:
    """The properties of a row, without id and ends."""
    return {each.spelling: spell_cell(row.get(each.name), each.type) for each in type_.properties}


def spell_row(type_: Type, row: Row) -> JsonObject:
    """The properties of a row; for an edge also `from` and `to`."""
    ends: JsonObject = {}
    if isinstance(type_, EdgeType):
        ends = {"from": str(row["src"]), "to": str(row["dst"])}
    return {**ends, **spell_properties(type_, row)}


def spell_cell(cell: Cell, of: ValueType) -> JsonValue:
    match cell:
        case None | bool() | str():
            return cell
        case Blob(data=data, uri=uri):
            if uri is not None:
                return {"uri": uri}
            held = data or b""
            return {"size": len(held), "sha256": hashlib.sha256(held).hexdigest()}
        case tuple():
            return [spell_cell(each, of.item if of.is_list else of) for each in cell]
        case int():
            return _spell_integer(cell, of)
        case float():
            return cell if math.isfinite(cell) else str(cell)
        case _:
            assert_never(cell)


def _spell_integer(value: int, of: ValueType) -> JsonValue:
    if of.base is Scalar.DATE:
        return format_date(value)
    if of.base is Scalar.DATETIME:
        return format_datetime(value)
    return value
