"""Whole-graph work on the adjacency of the engine, in NumPy."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.analytics.edges import EdgeScope
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.names import name_beside_id, spelling_of
from omnigraph.compiler.ir import Direction
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.csr import Adjacency, build_neighbours
from omnigraph.engine.query.operators import walk
from omnigraph.engine.tables.arrays import Array, distinct
from omnigraph.errors import UsageError

Numbers = npt.NDArray[Any]

WEDGES_MAX: Final = 1 << 22
"""How many pairs of edges are looked up together."""


def pagerank(scope: EdgeScope, rounds: int, damping: float) -> pa.Table:
    """A round gathers what each edge brings and adds it up node by node."""
    into = scope.edges.adjacency(Direction.IN, by_edge=True)
    count = len(into.starts) - 1
    if not count:
        return _table(scope.ids, np.empty(0))
    degrees = np.bincount(into.targets, minlength=count)
    ends = np.flatnonzero(degrees == 0)
    shares = 1.0 / np.maximum(degrees, 1)
    # NumPy would turn narrower places into these in each round, which takes as long as the gather.
    sources = into.targets.astype(np.intp, copy=False)
    brought = np.empty(len(sources))
    reached = np.flatnonzero(np.diff(into.starts))
    firsts = into.starts[reached]
    sums = np.zeros(count)
    ranks = np.full(count, 1.0 / count)
    for _ in range(rounds):
        check_cancelled()
        lost = ranks[ends].sum()
        if len(reached):
            np.take(ranks * shares, sources, out=brought, mode="clip")  # "raise" would copy
            sums[reached] = np.add.reduceat(brought, firsts)
        ranks = (1.0 - damping + damping * lost) / count + damping * sums
    return _table(scope.ids, ranks)


def connected_components(scope: EdgeScope) -> pa.Table:
    """Nodes take the smallest label around them, and then the label of that label."""
    both = scope.edges.adjacency(Direction.BOTH, by_edge=False)
    order = np.asarray(pc.sort_indices(scope.ids))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    labels, before = place, None
    while before is None or not np.array_equal(labels, before):
        check_cancelled()
        before = labels
        labels = np.minimum(labels, _smallest(both, labels))
        # The label is the place of a node, so its own label may be smaller still.
        labels = np.minimum(labels, labels[order][labels])
    return _table(scope.ids, scope.ids.take(pa.array(order[labels])))


def shortest_paths(scope: EdgeScope, sources: Sequence[str]) -> pa.Table:
    """Breadth-first from all sources at once. Raises UsageError for an id that is no node."""
    nodes = scope.view.table(scope.node).resident
    found = nodes.find(pa.array(list(sources), pa.string()))
    for place in np.flatnonzero(found < 0):
        raise UsageError(f"there is no {scope.node.name} '{sources[int(place)]}'")
    out = scope.edges.adjacency(Direction.OUT, by_edge=False)
    distances = np.full(len(out.starts) - 1, -1, np.int64)
    frontier = distinct(found)
    hop = 0
    while len(frontier):
        check_cancelled()
        distances[frontier] = hop
        _, reached = walk.step(out, frontier)
        frontier = distinct(reached[distances[reached] < 0])
        hop += 1
    there = np.flatnonzero(distances >= 0)
    return _table(scope.ids.take(there), distances[there])


def triangles(scope: EdgeScope) -> pa.Table:
    """Edges lead from the lower degree to the higher, so no node has many of them."""
    both = scope.edges.adjacency(Direction.BOTH, by_edge=False)
    count = len(both.starts) - 1
    degrees = np.diff(both.starts)
    near = np.repeat(np.arange(count), degrees)
    far = both.targets.astype(np.int64)
    up = (degrees[near] < degrees[far]) | ((degrees[near] == degrees[far]) & (near < far))
    near, far = near[up], far[up]
    rising = build_neighbours(count, near.astype(np.int32), far.astype(np.int32))
    near = np.repeat(np.arange(count), np.diff(rising.starts))
    keys = (near << 32) | rising.targets
    found = np.zeros(count, np.int64)
    ends = np.cumsum(np.diff(rising.starts)[rising.targets])
    start = 0
    while start < len(near):
        check_cancelled()
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + WEDGES_MAX, side="right")))
        firsts, seconds = near[start:stop], rising.targets[start:stop]
        rows, thirds = walk.step(rising, seconds)
        wanted = (firsts[rows] << 32) | thirds
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        closed = keys[places] == wanted
        for corners in (firsts[rows], seconds[rows], thirds):
            found += np.bincount(corners[closed], minlength=count)
        start = stop
    return _table(scope.ids, found)


def _smallest(adjacency: Adjacency, labels: Numbers) -> Numbers:
    """The smallest label among the neighbours of each node, or its own."""
    smallest = labels.copy()
    there = np.flatnonzero(np.diff(adjacency.starts))
    if len(there):
        around = labels[adjacency.targets]
        smallest[there] = np.minimum.reduceat(around, adjacency.starts[there])
    return smallest


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _table(ids: Array, values: "Numbers | Array") -> pa.Table:
    cells = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.Table.from_arrays([ids, cells], ["id", "value"])


def read_tables(scope: EdgeScope) -> tuple[pa.Table, pa.Table]:
    """Every property but blobs, of the nodes and of the edges."""
    return (_read(scope, scope.node, ("id",)), _read(scope, scope.edge, ("id", "src", "dst")))


def _read(scope: EdgeScope, type_: NodeType | EdgeType, own: tuple[str, ...]) -> pa.Table:
    names = [each.name for each in type_.properties if not each.type.is_blob]
    rows = scope.view.table(type_).read((*own, *names))
    return rows.rename_columns([*own, *(name_beside_id(type_.name, name) for name in names)])


def rows_with(scope: EdgeScope, property_name: str, values: pa.Table) -> list[dict[str, object]]:
    """Whole rows with one property replaced, for the nodes that have a value. Raises UsageError."""
    node = scope.node
    wanted = node.named(property_name)
    if wanted is None:
        raise UsageError(f"'{node.name}' has no property '{property_name}'")
    if not node.key or wanted.name in node.key:
        raise UsageError(f"'{node.name}' needs a key, and '{property_name}' must not be part of it")
    if any(each.type.is_blob for each in node.properties):
        raise UsageError(f"'{node.name}' has a Blob, which a write of whole rows would lose")
    found = dict(zip(values["id"].to_pylist(), values["value"].to_pylist(), strict=True))
    names = [each.name for each in node.properties]
    rows: list[dict[str, Any]] = scope.view.table(node).read(("id", *names)).to_pylist()
    return [
        {**{spelling_of(name): row[name] for name in names}, property_name: found[row["id"]]}
        for row in rows
        if row["id"] in found
    ]
