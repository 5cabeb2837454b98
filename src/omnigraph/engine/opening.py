"""Making a graph, and opening one that is there."""

from enum import Enum

from omnigraph.catalog.arrow import edge_schema, node_schema
from omnigraph.catalog.model import Catalog
from omnigraph.commit.compat.migrate import migrate
from omnigraph.commit.manifest.base import Base, Bases
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.create import (
    NewTable,
    clear_remains,
    create_graph,
    find_remains,
    has_manifest,
)
from omnigraph.commit.manifest.schema_files import SchemaFiles, write_rest
from omnigraph.engine.active_schema import ActiveSchema, compile_active_schema, read_active_schema
from omnigraph.engine.gate import Gate, let_pass
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.schema.staged_leftovers import resolve_staged_schema
from omnigraph.engine.settings import DEFAULTS, Settings
from omnigraph.errors import GraphIncomplete, GraphNotFound, SchemaFilesInvalid
from omnigraph.ids import MAIN
from omnigraph.storage.layout import SCHEMA_STATE, table_path
from omnigraph.storage.stores import Stores, open_stores


class Remains(Enum):
    """What to do about the remains of an attempt that was killed."""

    REFUSE = "refuse"
    CLEAR = "clear"


def create(
    uri: str,
    schema: str,
    *,
    name: str = "<schema>",
    remains: Remains = Remains.REFUSE,
    actor: str | None = None,
    settings: Settings = DEFAULTS,
) -> Graph:
    """Make an empty graph.

    Raises SchemaInvalid before anything is touched; GraphExists where there is a graph, whatever
    `remains` says; GraphIncomplete where a killed attempt left something and `remains` is REFUSE.
    """
    active = compile_active_schema(schema, name=name)
    stores = _open_stores(uri, settings)
    tables = tables_of(active.catalog)
    if remains is Remains.CLEAR:
        clear_remains(stores, tables)
    create_graph(stores, active.files(), tables, actor=actor)
    return Graph(stores, Bases(stores), active, Mode.READ_WRITE, settings=settings)


def tables_of(catalog: Catalog) -> list[NewTable]:
    """One table for each type, nodes first."""
    nodes = [
        NewTable(each.table_key, table_path("node", each.name), node_schema(each))
        for each in catalog.nodes
    ]
    edges = [
        NewTable(each.table_key, table_path("edge", each.name), edge_schema(each))
        for each in catalog.edges
    ]
    return nodes + edges


def open_graph(
    uri: str,
    *,
    mode: Mode = Mode.READ_WRITE,
    settings: Settings = DEFAULTS,
    gate: Gate = let_pass,
) -> Graph:
    """Open a graph; every write of it asks the gate.

    Raises GraphNotFound, GraphIncomplete, FormatTooNew, FormatTooOld, SchemaFilesInvalid,
    GraphRelocated.
    """
    return open_in(_open_stores(uri, settings), mode, settings, gate)


def _open_stores(uri: str, settings: Settings) -> Stores:
    return open_stores(
        uri,
        settings.effects,
        storage_options=settings.storage_options,
        durability=settings.durability,
        swap=settings.swap,
        cache_bytes_max=settings.storage_cache_bytes_max,
    )


def open_in(
    stores: Stores, mode: Mode, settings: Settings = DEFAULTS, gate: Gate = let_pass
) -> Graph:
    """Open the graph of stores that are open already."""
    bases = Bases(stores)
    # The stamp comes first: of a newer format nothing else can be judged, not even its schema.
    base = _read_main(stores, bases)
    active = _read_schema(stores, base, mode)
    if mode is Mode.READ_WRITE:
        bases.remember(migrate(stores, base))
        if not active.is_recorded:
            _record_schema(stores, active.files())
    graph = Graph(stores, bases, active, mode, settings=settings, gate=gate)
    if mode is Mode.READ_WRITE:
        graph.refresh()
    return graph


def _read_schema(stores: Stores, base: Base, mode: Mode) -> ActiveSchema:
    """Raises SchemaFilesInvalid, SchemaInvalid, SchemaCorrupt."""
    wanted = base.manifest.log.schema_hash
    # Only a commit of another program does not say which schema it was made under.
    if mode is Mode.READ_WRITE and wanted is None:
        resolve_staged_schema(stores)
    return read_active_schema(stores.objects, wanted)


def _read_main(stores: Stores, bases: Bases) -> Base:
    if has_manifest(stores):
        return bases.current(MAIN)
    if remains := find_remains(stores):
        raise GraphIncomplete(stores.root.uri, found=remains)
    raise GraphNotFound(stores.root.uri)


def _record_schema(stores: Stores, files: SchemaFiles) -> None:
    """Write the two files that graphs of old do not have.

    Other branches could have been written under another schema, so only a graph without any is
    taken at its source's word. Raises SchemaFilesInvalid.
    """
    others = find_branches(stores)[1:]
    if others:
        raise SchemaFilesInvalid(
            SCHEMA_STATE, reason=f"it is missing, and there are branches: {', '.join(others)}"
        )
    write_rest(stores.objects, files)
