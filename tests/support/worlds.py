"""Graphs of the interpreter, written as real tables, in every physical shape a reader may meet.

The same rows lie on main, or on a branch of a branch with a third of them on each generation; with
indexes that cover all rows, or the first part, or none. The commit protocol takes no part, because
it would refuse the content of some of these graphs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Value
from omnigraph.effects import REAL
from omnigraph.engine.query.columns.table_cache import TableCache
from omnigraph.engine.query.columns.view import View
from omnigraph.engine.search.provider import SearchProvider
from omnigraph.engine.search.ranking import Candidates, Ranking, SearchedTable, ValueOf
from omnigraph.engine.settings import AccessMode
from omnigraph.engine.tables.arrays import Array, texts_of
from omnigraph.engine.tables.columns import build_table, schema_of
from omnigraph.ids import MAIN, BranchName, TableKey, Version
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import table_path
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import (
    Handle,
    IndexKind,
    IndexScope,
    IndexSpec,
    Landed,
    LandedLater,
    Mark,
    Outcome,
    ScanRequest,
    Staged,
    TableRef,
)
from support.interpreter import Execution, Graph
from support.search import is_text_match

CACHE_BYTES = 1 << 28


class Shape(Enum):
    """How the rows are kept."""

    MAIN = "main"
    INDEXED = "indexed"
    """On main, with indexes over the first third."""
    GRANDCHILD = "grandchild"
    """A third on main, a third on a branch, a third on a branch of that; indexes on the first."""


BRANCHES = (None, "child", "grandchild")


@dataclass(frozen=True, slots=True)
class World:
    """A graph that was written, to be read in several ways."""

    catalog: Catalog
    graph: Graph
    stores: Stores
    snapshot: ManifestSnapshot
    cache: TableCache

    def view(self, access: AccessMode) -> View:
        return View(self.snapshot, self.catalog, self.stores, self.cache, access, lambda _: "")

    def searching(self, parameters: Mapping[str, Value], now_ms: int) -> SearchProvider:
        """Text and vectors, as the interpreter sees them."""
        execution = Execution(self.graph, parameters, now_ms)
        return SearchProvider(
            lambda *asked: _match(self.graph, *asked),
            lambda searched, by, _, candidates, keep: _rank(
                execution, searched, by, candidates, keep
            ),
        )


def write_world(root: Path, catalog: Catalog, graph: Graph, shape: Shape) -> World:
    stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    writer = _Writer(stores, shape)
    pins: dict[TableKey, Pin] = {}
    for node in catalog.nodes:
        rows: Sequence[Mapping[str, Value]] = [
            {"id": each, **record} for each, record in graph.nodes[node.name].items()
        ]
        pins[node.table_key] = writer.write(node, rows)
    for edge in catalog.edges:
        rows = [
            {"id": each.id, "src": each.source, "dst": each.target, **each.properties}
            for each in graph.edges[edge.name]
        ]
        pins[edge.table_key] = writer.write(edge, rows)
    snapshot = ManifestSnapshot(MAIN, Version(1), None, MappingProxyType(pins))
    return World(catalog, graph, stores, snapshot, TableCache(CACHE_BYTES))


class _Writer:
    def __init__(self, stores: Stores, shape: Shape) -> None:
        self.tables = stores.tables
        self.shape = shape

    def write(self, type_: NodeType | EdgeType, rows: Sequence[Mapping[str, Value]]) -> Pin:
        path = table_path("node" if isinstance(type_, NodeType) else "edge", type_.name)
        thirds = [build_table(type_, rows[at::3]) for at in range(3)]
        staged = self.tables.stage_create(TableRef(path), schema_of(type_), _mark(), thirds[0])
        handle = _landed(self.tables.commit_exact(staged))
        if self.shape is not Shape.MAIN:
            handle = self._index(handle, type_)
        for branch, third in zip(BRANCHES[1:], thirds[1:], strict=True):
            if self.shape is Shape.GRANDCHILD:
                handle = self.tables.fork(handle, branch or "")
            handle = self._commit(self.tables.stage_append(handle, third, _mark()))
        owner = BRANCHES[-1] if self.shape is Shape.GRANDCHILD else MAIN
        version = Version(handle.version)
        return Pin(type_.table_key, path, version, BranchName(owner or MAIN), len(rows))

    def _index(self, handle: Handle, type_: NodeType | EdgeType) -> Handle:
        columns = ("id",) if isinstance(type_, NodeType) else ("id", "src", "dst")
        specs = [IndexSpec(column, IndexKind.BTREE) for column in columns]
        staged = self.tables.stage_indices(handle, specs, IndexScope.UNCOVERED, _mark())
        return handle if staged is None else self._commit(staged)

    def _commit(self, staged: Staged) -> Handle:
        return _landed(self.tables.commit_exact(staged))


def _mark() -> Mark:
    return Mark(REAL.new_id())


def _landed(outcome: Outcome) -> Handle:
    assert isinstance(outcome, Landed | LandedLater), outcome
    return outcome.handle


# ── search, the slow way ─────────────────────────────────────────────────────────────────────────


def _among(searched: SearchedTable, candidates: Candidates) -> list[str]:
    request = ScanRequest(columns=("id",), where=candidates.where)
    found = texts_of(searched.tables.read(searched.handle, request)["id"])
    known = None if candidates.ids is None else set(texts_of(candidates.ids))
    return [each for each in found if known is None or each in known]


def _match(
    graph: Graph,
    searched: SearchedTable,
    clause: ir.TextMatch,
    value_of: ValueOf,
    candidates: Candidates,
) -> Array:
    wanted = value_of(clause.query)
    edits = None if clause.max_edits is None else value_of(clause.max_edits)
    records = _records(graph, searched.type)
    found = [
        each
        for each in _among(searched, candidates)
        if isinstance(text := records[each].get(clause.target.name), str)
        and isinstance(wanted, str)
        and is_text_match(clause.function, text, wanted, edits if isinstance(edits, int) else None)
    ]
    return pa.array(found, pa.string())


def _records(graph: Graph, type_: NodeType | EdgeType) -> Mapping[str, Mapping[str, Value]]:
    if isinstance(type_, NodeType):
        return graph.nodes[type_.name]
    return {each.id: each.properties for each in graph.edges[type_.name]}


def _rank(
    execution: Execution,
    searched: SearchedTable,
    by: ir.Rank,
    candidates: Candidates,
    keep: int | None,
) -> Ranking:
    among = _among(searched, candidates)
    ranked = execution.ranking(by, searched.type.name, among, keep)
    ids = pa.array([each for each, _ in ranked], pa.string())
    return Ranking(ids, pa.array([score for _, score in ranked], pa.float64()))
