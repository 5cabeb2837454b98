"""One node or edge, by id, as a snapshot shows it."""

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.types import ValueType
from omnigraph.compiler.ir import STRING
from omnigraph.engine.query.rows import ID
from omnigraph.engine.query.view import TableView
from omnigraph.engine.tables.columns import column_type

_ENDS = {"src": "from", "dst": "to"}


def read_entity(table: TableView, identity: str) -> tuple[pa.Table, list[ValueType]]:
    """Its row, with every property that can be read as a value; no row if there is none."""
    type_ = table.type
    columns = _columns(type_)
    found = table.read_by_ids([identity], columns)
    types = [STRING if name in _ENDS else column_type(type_, name) for name in columns]
    return found.rename_columns([_ENDS.get(name, name) for name in columns]), types


def _columns(type_: NodeType | EdgeType) -> list[str]:
    ends = list(_ENDS) if isinstance(type_, EdgeType) else []
    return [ID, *ends, *(each.name for each in type_.properties if not each.type.is_blob)]
