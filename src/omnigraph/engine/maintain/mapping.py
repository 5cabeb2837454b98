"""Writes the mapped files of a branch, for processes that start later (ADR 58).

Each table is read by a view of its own, so that memory holds one table at a time, and the ids of
the nodes at its ends. A table that would not fit into the cache of a reader is passed over: no
reader would hold it either. Postings are written part by part, so any table has those (ADR 68).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from omnigraph.catalog.model import EdgeType, IndexConstraint, NodeType, WantedIndexKind
from omnigraph.catalog.types import ValueType
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.engine.query.columns.csr import KeptEdges, read_codes
from omnigraph.engine.query.columns.rows import ID, ORDER, column_file
from omnigraph.engine.query.columns.view import EdgeView, TableView, View
from omnigraph.engine.search.posting_files import PostingFiles, folder_of
from omnigraph.engine.search.texts import TextColumn
from omnigraph.engine.tables.metered import Metered
from omnigraph.errors import OmnigraphError
from omnigraph.storage.mapped import MappedFiles
from omnigraph.storage.stores import Stores


def map_tables(open_view: Callable[[], View], mapped: MappedFiles | None) -> None:
    """Write what is missing. A table that cannot be read now is left to its readers."""
    if mapped is None:
        return
    catalog = open_view().catalog
    for node in catalog.nodes:
        with suppress(OmnigraphError):
            _keep_columns(open_view(), node)
            _keep_postings(open_view(), node, mapped)
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


def _keep_postings(view: View, type_: NodeType, mapped: MappedFiles) -> None:
    """Of every `@index` on a text; a `@key` alone is looked up, and seldom searched."""
    declared = {
        column
        for each in type_.constraints
        if isinstance(each, IndexConstraint)
        for column in each.columns
    }
    table = view.table(type_)
    columns = [each for each, kind in type_.indexes if kind is WantedIndexKind.FULL_TEXT]
    if not table.row_count or declared.isdisjoint(columns):
        return
    metered = Metered(table.tables, table.handle)
    for column in columns:
        if column in declared:
            texts = TextColumn(metered, column)
            files = PostingFiles(mapped, table.handle.ref.path, column)
            for fragment in metered.inspect().fragments:
                if not files.is_kept(fragment):
                    files.write(fragment, texts.parts(fragment))


def find_posting_folders(stores: Stores, pins: Iterable[Pin]) -> set[str]:
    """The folders of the postings of these tables. A table that cannot be opened has none."""
    found: set[str] = set()
    if stores.mapped is None:
        return found
    for pin in {(each.path, each.owner, each.version): each for each in pins}.values():
        with suppress(OmnigraphError):
            handle = open_pin(stores, pin)
            found |= {
                folder_of(stores.mapped, pin.path, each)
                for each in stores.tables.inspect(handle).fragments
            }
    return found
