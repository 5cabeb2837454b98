"""Shortest paths between the nodes of rows: parts of one path, or a row for each path.

Paths are looked for from each distinct source (`path_search`). A path is then traced from its
target backwards; of several nodes that it may pass, the smallest id is taken first.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import EdgeType
from omnigraph.compiler import ir, plan
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.frame import ROWS_MAX, Bound, Frame, pieces_of
from omnigraph.engine.query.columns.rows import ID, Ordinals
from omnigraph.engine.query.columns.values import Columns
from omnigraph.engine.query.operators.execution import Execution, Frames
from omnigraph.engine.query.operators.expand import adjacency_of
from omnigraph.engine.query.operators.path_rows import PathRows
from omnigraph.engine.query.operators.path_search import (
    BYTES_PER_NODE,
    PathEdges,
    Rounds,
    Weights,
    find_before,
    find_rounds,
    loop_cost,
    rows_by_source,
)
from omnigraph.engine.query.operators.walker import ordinals_in
from omnigraph.engine.tables.arrays import Array
from omnigraph.errors import PathWeightInvalid
from omnigraph.lang.source import NOWHERE

STEP: Final = "shortest"
"""As an error of the memory budget names it."""

Nodes = npt.NDArray[np.int32]
"""A path for each row, and a node for each column."""


def find_paths(path: ir.PathOf, columns: Columns, execution: Execution) -> Array:
    """A part of the shortest path of each row; null where an end is unbound or out of reach."""
    assert isinstance(columns, Frame), "two variables are bound"
    search = search_for(path, execution)
    found: list[Any] = [None] * columns.count
    near, far = search.ends(columns)
    for rows in rows_by_source(near, np.flatnonzero((near >= 0) & (far >= 0))):
        source = int(near[rows[0]])
        found_here = search.find(source, far[rows])
        for row, target in zip(rows.tolist(), far[rows].tolist(), strict=True):
            found[row] = found_here.part(path.part, target)
    return pa.array(found, _TYPES[path.part])


_TYPES: Final = {
    ir.PathPart.LENGTH: pa.int64(),
    ir.PathPart.NODES: pa.list_(pa.string()),
    ir.PathPart.COST: pa.float64(),
}


def each_path(operator: plan.EachPath, frames: Frames, execution: Execution) -> Frames:
    """The rows, each once for every shortest path between its ends."""
    search = search_for(operator.path, execution)
    paths = PathRows(search.ids)
    for frame in frames:
        yield from _each_of(operator.variable, frame, search, paths, execution)


def _each_of(
    variable: str, frame: Frame, search: "PathSearch", paths: PathRows, execution: Execution
) -> Iterator[Frame]:
    near, far = search.ends(frame)
    for rows in rows_by_source(near, np.flatnonzero((near >= 0) & (far >= 0))):
        found = search.find(int(near[rows[0]]), far[rows])
        places, at = [], []
        for row in rows.tolist():
            traced = found.every(int(far[row]))
            if len(traced):
                execution.memory.hold(STEP, traced.nbytes)
                at.append(paths.add(traced, found.cost(int(far[row]))))
                places.append(np.full(len(traced), row))
        if at:
            bound = Bound(paths, np.concatenate(at))
            whole = frame.pick(np.concatenate(places)).bind({variable: bound})
            yield from pieces_of(whole, ROWS_MAX)


def search_for(path: ir.PathOf, execution: Execution) -> "PathSearch":
    """One for all parts of a path that a read asks for."""
    route = replace(path, part=ir.PathPart.NODES, type=ir.STRING, span=NOWHERE)
    known = execution.paths.get(route)
    if known is None:
        known = execution.paths[route] = PathSearch(route, execution)
    assert isinstance(known, PathSearch)
    return known


class PathSearch:
    """Shortest paths along the edges of one type in one execution."""

    def __init__(self, path: ir.PathOf, execution: Execution) -> None:
        type_ = execution.view.edge(path.edge).type
        assert isinstance(type_, EdgeType)
        self.path = path
        self.high = execution.hops_max if path.hops_high is None else path.hops_high
        self.memory = execution.memory
        self._nodes = execution.view.node(type_.source).resident
        weights = None
        if path.weight is not None:
            weights = read_weights(path.edge, path.weight, execution)
        self.ahead = _edges_of(path.edge, path.direction, weights, execution)
        self.back = _edges_of(path.edge, path.direction.reversed(), weights, execution)
        self._last: tuple[int, bytes, FoundPaths] | None = None

    def ends(self, frame: Frame) -> tuple[Ordinals, Ordinals]:
        source, target = (
            ordinals_in(self._nodes, frame.bound[each.variable])
            for each in (self.path.source, self.path.target)
        )
        return source, target

    def ids(self, at: Ordinals) -> list[str]:
        return [str(each) for each in self._nodes.take(ID, at).to_pylist()]

    def find(self, source: int, targets: Ordinals) -> "FoundPaths":
        """The last search is kept: the parts of a path are read one after the other."""
        asked = targets.tobytes()
        if self._last is None or self._last[:2] != (source, asked):
            self.memory.check(STEP, BYTES_PER_NODE * len(self._nodes))
            rounds, lengths = find_rounds(self.ahead, self.back, source, targets, self.high)
            found = dict(zip(targets.tolist(), lengths.tolist(), strict=True))
            self._last = (source, asked, FoundPaths(self, source, rounds, found))
        return self._last[2]


class FoundPaths:
    """The shortest paths from one source."""

    def __init__(
        self, search: PathSearch, source: int, rounds: Rounds, lengths: dict[int, int]
    ) -> None:
        self._search = search
        self._source = source
        self._rounds = rounds
        self._lengths = lengths

    def part(self, part: ir.PathPart, target: int) -> Any:
        length = self.length(target)
        if length is None:
            return None
        match part:
            case ir.PathPart.LENGTH:
                return length
            case ir.PathPart.COST:
                return self.cost(target)
            case ir.PathPart.NODES:
                return self._search.ids(self._trace(target))

    def length(self, target: int) -> int | None:
        """How many edges the paths to a target have; None if there is none."""
        low = self._search.path.hops_low
        if self._is_loop(target):
            is_open = np.isfinite(loop_cost(self._search.ahead, target))
            return 1 if low == 1 and is_open else None
        length = self._lengths[target]
        return length if low <= length else None

    def cost(self, target: int) -> float:
        """The sum of the weights of the path to a target that there is."""
        if self._is_loop(target):
            return loop_cost(self._search.ahead, target)
        last = self._rounds[self._lengths[target]]
        if last.costs is None:
            return float(self._lengths[target])
        return float(last.costs[last.places(np.array([target], np.int32))[0][0]])

    def _is_loop(self, target: int) -> bool:
        # A node is at itself by no hop, and by a loop if there has to be one.
        return target == self._source and self._search.path.hops_low > 0

    def _trace(self, target: int) -> Ordinals:
        traced = [target]
        for hop in range(self._lengths[target], 0, -1):
            traced.append(int(self._before(traced[-1], hop)[0]))
        loop = [self._source] if self._is_loop(target) else []
        return np.array([*reversed(traced), *loop], np.int32)

    def every(self, target: int) -> Nodes:
        """All of them, in the order of their ids, compared from the end backwards.

        They are grown backwards from the target. Each part grows to the source in some way, so
        there are never more parts than paths.
        """
        if self.length(target) is None:
            return np.empty((0, 0), np.int32)
        if self._is_loop(target):
            return self._trace(target)[np.newaxis]
        paths = np.array([[target]], np.int32)
        for hop in range(self._lengths[target], 0, -1):
            paths = self._grow(paths, hop)
        return paths[:, ::-1]

    def _grow(self, paths: Nodes, hop: int) -> Nodes:
        nodes, numbers = np.unique(paths[:, -1], return_inverse=True)
        before = [self._before(int(each), hop) for each in nodes]
        counts = np.array([len(each) for each in before])
        times = counts[numbers]
        total = int(times.sum())
        self._search.memory.check(STEP, total * (paths.shape[1] + 5) * 8)
        check_cancelled()
        rows = np.repeat(np.arange(len(paths)), times)
        firsts = (np.cumsum(counts) - counts)[numbers]
        places = np.repeat(firsts - (np.cumsum(times) - times), times) + np.arange(total)
        grown = np.concatenate(before)[places]
        return np.column_stack([paths[rows], grown])

    def _before(self, node: int, hop: int) -> Ordinals:
        """The nodes that paths pass before this one, by their ids."""
        check_cancelled()
        after, before = self._rounds[hop], self._rounds[hop - 1]
        found = find_before(self._search.back, node, after, before)
        ids = self._search.ids(found)
        return found[sorted(range(len(ids)), key=ids.__getitem__)]


# ── weights ──────────────────────────────────────────────────────────────────────────────────────


def read_weights(edge: str, name: str, execution: Execution) -> Weights:
    """The weight of each edge; infinite where there is none. Raises PathWeightInvalid."""
    edges = execution.view.edge(edge)
    edges.resident.load((ID, name))
    column = edges.resident.column(name).cast(pa.float64())
    is_known = np.asarray(column.is_valid())
    weights: Weights = np.where(is_known, np.asarray(column.fill_null(0.0)), np.inf)
    wrong = np.flatnonzero(is_known & ~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        first = wrong[:1].astype(np.int32)
        (id_,) = edges.resident.take(ID, first).to_pylist()
        raise PathWeightInvalid(edge, id=str(id_), property=name, value=float(weights[wrong[0]]))
    return weights


def _edges_of(
    edge: str, direction: ir.Direction, weights: Weights | None, execution: Execution
) -> PathEdges:
    adjacency = adjacency_of(edge, direction, execution, by_edge=weights is not None)
    if weights is None:
        return PathEdges(adjacency)
    assert adjacency.edges is not None, "weights are those of edges"
    return PathEdges(adjacency, weights[adjacency.edges])
