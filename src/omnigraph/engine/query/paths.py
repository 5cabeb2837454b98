"""Shortest paths between the nodes of rows.

One breadth-first search from each distinct source finds how far its targets are. A path is then
traced from its target backwards; of several nodes that are as near, the smallest id is taken.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import EdgeType
from omnigraph.compiler import ir
from omnigraph.engine.query import walk
from omnigraph.engine.query.csr import Adjacency
from omnigraph.engine.query.execution import Execution
from omnigraph.engine.query.expand import adjacency_of, ordinals_in
from omnigraph.engine.query.frame import Frame
from omnigraph.engine.query.rows import ID, Ordinals, ResidentRows
from omnigraph.engine.query.values import Columns
from omnigraph.engine.tables.arrays import Array

Distances = npt.NDArray[np.int32]
"""The distance of every node of the table; -1 if it was not reached."""


def find_paths(path: ir.PathOf, columns: Columns, execution: Execution) -> Array:
    """A part of the shortest path of each row; null where an end is unbound or out of reach."""
    assert isinstance(columns, Frame), "two variables are bound"
    type_ = execution.view.edge(path.edge).type
    assert isinstance(type_, EdgeType)
    nodes = execution.view.node(type_.source).resident
    near, far = (
        ordinals_in(nodes, columns.bound[each.variable]) for each in (path.source, path.target)
    )
    search = _Search(path, nodes, execution)
    found: list[Any] = [None] * columns.count
    bound = np.flatnonzero((near >= 0) & (far >= 0))
    order = bound[np.argsort(near[bound], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(near[order])) + 1):
        if len(rows):
            parts = search.parts(int(near[rows[0]]), far[rows])
            for row, part in zip(rows.tolist(), parts, strict=True):
                found[row] = part
    is_length = path.part is ir.PathPart.LENGTH
    return pa.array(found, pa.int64() if is_length else pa.list_(pa.string()))


class _Search:
    def __init__(self, path: ir.PathOf, nodes: ResidentRows, execution: Execution) -> None:
        self._path = path
        self._nodes = nodes
        self._high = execution.hops_max if path.hops_high is None else path.hops_high
        self._ahead = adjacency_of(path.edge, path.direction, execution)
        self._back: Adjacency | None = None
        if path.part is ir.PathPart.NODES:
            self._back = adjacency_of(path.edge, path.direction.reversed(), execution)

    def parts(self, source: int, targets: Ordinals) -> list[Any]:
        distances = self._measure(source, targets)
        return [self._part(source, int(each), distances) for each in targets]

    def _measure(self, source: int, targets: Ordinals) -> Distances:
        """As far as the farthest target, or the bound."""
        distances = np.full(len(self._nodes), -1, np.int32)
        distances[source] = 0
        met = distances >= 0
        nodes = np.array([source], np.int32)
        for hop in range(1, self._high + 1):
            if met[targets].all() or not len(nodes):
                break
            nodes = walk.advance(self._ahead, nodes, met)
            distances[nodes] = hop
        return distances

    def _part(self, source: int, target: int, distances: Distances) -> Any:
        # A node is at itself by no hop, and by a loop if there has to be one.
        loops = int(source == target and self._path.hops_low > 0)
        length = int(distances[target]) + loops
        if not self._path.hops_low <= length <= self._high:
            return None
        if self._back is None:
            return length
        traced = [target]
        while distances[traced[-1]]:
            traced.append(self._before(traced[-1], distances))
        ids = self._ids([*traced, *([source] * loops)])
        return ids[::-1]

    def _before(self, node: int, distances: Distances) -> int:
        """The node before this one on the path."""
        assert self._back is not None, "paths are traced"
        start, stop = self._back.starts[node], self._back.starts[node + 1]
        others = self._back.targets[start:stop]
        nearer = others[distances[others] == distances[node] - 1].tolist()
        ids = self._ids(nearer)
        return int(nearer[ids.index(min(ids))])

    def _ids(self, at: list[int]) -> list[str]:
        return [str(each) for each in self._nodes.take(ID, np.array(at, np.int32)).to_pylist()]
