"""Making a graph, and opening one that is there."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from omnigraph.catalog.arrow import edge_schema, node_schema
from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.base import Base, Bases
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.create import (
    NewTable,
    check_not_cloning,
    clear_remains,
    create_graph,
    find_remains,
    has_manifest,
)
from omnigraph.commit.manifest.identity import is_relocated
from omnigraph.commit.manifest.schema_files import SchemaFiles, write_rest
from omnigraph.engine.active_schema import ActiveSchema, compile_active_schema, read_active_schema
from omnigraph.engine.gate import FindRule, Gate, let_pass, unprotected
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.graph.state import check_signature
from omnigraph.engine.settings import DEFAULTS, Settings
from omnigraph.errors import GraphIncomplete, GraphNotFound, SchemaFilesInvalid
from omnigraph.ids import MAIN
from omnigraph.storage.layout import RECOVERY, SCHEMA_STATE, table_path
from omnigraph.storage.stores import Stores, open_stores

if TYPE_CHECKING:
    from omnigraph.commit.relocation import RelocateResult
    from omnigraph.engine.maintain.clone import CloneResult
    from omnigraph.engine.maintain.clone_plan import CloneRequest


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
    message: str | None = None,
    settings: Settings = DEFAULTS,
) -> Graph:
    """Make an empty graph.

    Raises SchemaInvalid and UsageError before anything is touched; GraphExists where there is a
    graph, whatever `remains` says; GraphIncomplete where a killed attempt left something and
    `remains` is REFUSE.
    """
    check_signature(actor, message)
    active = compile_active_schema(schema, name=name)
    stores = _open_stores(uri, settings)
    tables = tables_of(active.catalog)
    if remains is Remains.CLEAR:
        clear_remains(stores, tables)
    create_graph(stores, active.files(), tables, actor=actor, message=message)
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
    find_rule: FindRule = unprotected,
) -> Graph:
    """Open a graph; every write of it asks the gate.

    Raises GraphNotFound, GraphIncomplete, FormatTooNew, FormatTooOld, SchemaFilesInvalid,
    GraphRelocated; ConfigInvalid, BucketUnreachable, BucketForbidden, BucketNotFound and
    ConditionalWritesIgnored for a bucket.
    """
    is_written = mode is Mode.READ_WRITE
    stores = _open_stores(uri, settings, is_written=is_written)
    return open_in(stores, mode, settings, gate, find_rule)


def relocate_graph(uri: str, *, settings: Settings = DEFAULTS) -> RelocateResult:
    """Make every branch of a moved graph read its files from here, without opening the graph.

    Raises GraphNotFound, GraphIncomplete, FormatTooNew, FormatTooOld, LeaseHeld, GraphRelocated.
    """
    stores = _open_stores(uri, settings)
    bases = Bases(stores)
    _read_main(stores, bases)
    return _relocate(stores, bases, settings)


def clone_graph(
    source: str,
    target: str,
    request: CloneRequest,
    *,
    settings: Settings = DEFAULTS,
    target_settings: Settings | None = None,
) -> CloneResult:
    """Copy a graph with its history to another place. The source may be written meanwhile.

    Raises GraphNotFound, GraphIncomplete, FormatTooNew, FormatTooOld for the source; GraphExists,
    GraphIncomplete, CloneRunning for the target; BranchNotFound, CommitNotFound, UsageError.
    """
    from omnigraph.engine.maintain.clone import clone

    # The source is not re-rooted: it is only read, and its versions are re-rooted on their way.
    read = _open_stores(source, settings, maps_bases=True)
    _read_main(read, Bases(read))
    written = _open_stores(target, target_settings or settings)
    return clone(read, written, request, settings.timing)


def _open_stores(
    uri: str, settings: Settings, *, is_written: bool = True, maps_bases: bool = False
) -> Stores:
    return open_stores(
        uri,
        settings.effects,
        storage_options=settings.storage_options,
        durability=settings.durability,
        swap=settings.swap,
        cache_bytes_max=settings.storage_cache_bytes_max,
        is_written=is_written,
        maps_bases=maps_bases or not is_written,
    )


def open_in(
    stores: Stores,
    mode: Mode,
    settings: Settings = DEFAULTS,
    gate: Gate = let_pass,
    find_rule: FindRule = unprotected,
) -> Graph:
    """Open the graph of stores that are open already."""
    bases = Bases(stores)
    if mode is Mode.READ_WRITE:
        _clear_torn(stores, bases, settings)
    # The stamp comes first: of a newer format nothing else can be judged, not even its schema.
    base = _read_main(stores, bases)
    try:
        active = _read_schema(stores, base, mode)
    except SchemaFilesInvalid:
        check_not_cloning(stores)
        raise
    if mode is Mode.READ_WRITE:
        from omnigraph.commit.compat.migrate import migrate

        if is_relocated(stores.objects, stores.root):
            _relocate(stores, bases, settings)
        bases.remember(migrate(stores, base))
        if not active.is_recorded:
            _record_schema(stores, active.files())
    graph = Graph(stores, bases, active, mode, settings=settings, gate=gate, find_rule=find_rule)
    if mode is Mode.READ_WRITE:
        graph.refresh()
    return graph


def _clear_torn(stores: Stores, bases: Bases, settings: Settings) -> None:
    """Before anything reads a branch: after a power cut, its newest version may be unreadable."""
    if stores.is_remote or not stores.objects.list(RECOVERY):
        return
    from omnigraph.commit.context import WriteContext
    from omnigraph.commit.recovery.torn_manifest import clear_torn_manifests

    clear_torn_manifests(WriteContext(stores, bases, timing=settings.timing))


def _relocate(stores: Stores, bases: Bases, settings: Settings) -> RelocateResult:
    """Before anything reads a branch: the branches of a moved graph name their old place."""
    from omnigraph.commit.context import WriteContext
    from omnigraph.commit.relocation import relocate
    from omnigraph.engine.stages import advance_stage, stage

    with stage("re-rooting"):
        return relocate(WriteContext(stores, bases, timing=settings.timing), advance_stage)


def _read_schema(stores: Stores, base: Base, mode: Mode) -> ActiveSchema:
    """Raises SchemaFilesInvalid, SchemaInvalid, SchemaCorrupt."""
    wanted = base.manifest.log.schema_hash
    # Only a commit of another program does not say which schema it was made under.
    if mode is Mode.READ_WRITE and wanted is None:
        from omnigraph.engine.schema.staged_leftovers import resolve_staged_schema

        resolve_staged_schema(stores)
    return read_active_schema(stores.objects, wanted)


def _read_main(stores: Stores, bases: Bases) -> Base:
    if has_manifest(stores):
        return bases.current(MAIN)
    check_not_cloning(stores)
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
