"""Writes the mapped files of a branch, for processes that start later (ADR 58).

Each table is read by a view of its own, so that memory holds one table at a time, and the ids of
the nodes at its ends. A table that would not fit into the cache of a reader is passed over: no
reader would hold it either.
"""

from collections.abc import Callable
from contextlib import suppress

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.types import ValueType
from omnigraph.engine.query.csr import KeptEdges, read_codes
from omnigraph.engine.query.rows import ID, ORDER, column_file
from omnigraph.engine.query.view import EdgeView, TableView, View
from omnigraph.errors import OmnigraphError


def map_tables(open_view: Callable[[], View]) -> None:
    """Write what is missing. A table that cannot be read now is left to its readers."""
    catalog = open_view().catalog
    for node in catalog.nodes:
        with suppress(OmnigraphError):
            _keep_columns(open_view(), node)
    for edge in catalog.edges:
        with suppress(OmnigraphError):
            _keep_columns(open_view(), edge)
            _keep_edges(open_view(), edge)


def _keep_columns(view: View, type_: NodeType | EdgeType) -> None:
    table = view.table(type_)
    names = [ID, *(each.name for each in type_.properties if _is_plain(each.type))]
    missing = [each for each in names if not table.is_kept(column_file(each))]
    if missing and table.row_count and view.fits(table.row_count * len(missing)):
        table.resident.load(missing)
        for each in missing:
            table.keep(column_file(each), {each: table.resident.column(each)})
    if isinstance(type_, NodeType) and not table.is_kept(ORDER) and view.fits(table.row_count):
        table.keep(ORDER, table.resident.order())


def _is_plain(kind: ValueType) -> bool:
    return not (kind.is_list or kind.is_vector or kind.is_struct or kind.is_blob)


def _keep_edges(view: View, type_: EdgeType) -> None:
    edges = view.table(type_)
    source, target = view.node(type_.source), view.node(type_.target)
    file = EdgeView(edges, source, target, source).file
    if edges.is_kept(file) or not edges.row_count or not view.fits(edges.row_count):
        return
    ends: tuple[TableView, TableView] = (source, target)
    nodes = [each.resident for each in ends]
    KeptEdges(edges, file).keep(read_codes(edges, *nodes), *nodes)
