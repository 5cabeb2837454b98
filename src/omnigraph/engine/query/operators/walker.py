"""Walks one edge from the rows of frames, by all edges of the table or by those around the rows.

The walk is always the same (`walk`). The adjacency has two sources: all edges of the table, encoded
once and cached; or only the edges around the nodes of this morsel, read through an index.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.compiler import plan
from omnigraph.compiler.ir import Direction
from omnigraph.compiler.plan import WalkMode
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.csr import Adjacency, Codes, Edges, KeptEdges, read_codes
from omnigraph.engine.query.columns.frame import ROWS_MAX, Bound, Frame, pieces_of
from omnigraph.engine.query.columns.neighbourhood import explore
from omnigraph.engine.query.columns.rows import ID, Ordinals, Rows
from omnigraph.engine.query.columns.view import EdgeView, TableView, View
from omnigraph.engine.query.operators import walk
from omnigraph.engine.query.operators.execution import Execution, columns_of
from omnigraph.engine.query.operators.known import KnownWalk
from omnigraph.engine.query.operators.path_search import BYTES_PER_NODE, PathEdges, are_within
from omnigraph.engine.tables.arrays import Array, Mask, distinct, texts_of
from omnigraph.errors import QueryMemoryExceeded

Places = npt.NDArray[np.int64]

SOURCES_MAX: Final = 64
"""From up to so many nodes, each search ends where its targets are reached; more search at once."""

SEARCHES_MAX: Final = 4096
"""How many rows search at a time: each of them may visit all nodes."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """The ends of walks: the input row, the node reached, and the edge."""

    rows: Places
    target: Bound
    edge: Bound | None


WalkFrom = Callable[[Frame], Arrived]
"""Walks from all rows of a frame."""


def bind_ends(operator: plan.Expand, execution: Execution) -> None:
    """Record the tables of the variables that a walk binds."""
    if not operator.closes:
        execution.bind(operator.target, execution.view.node(operator.target_type))
    if operator.edge_variable is not None:
        execution.bind(operator.edge_variable, execution.view.edge(operator.edge))


def _around(operator: plan.Expand, view: View) -> EdgeView:
    known: EdgeView | None = view.remembered("around", operator)
    if known is None:
        edges = view.edge(operator.edge)
        assert isinstance(edges.type, EdgeType)
        source, target = view.node(edges.type.source), view.node(edges.type.target)
        near = target if operator.direction is Direction.IN else source
        known = EdgeView(edges, source, target, near)
        view.remember("around", operator, known)
    return known


class EdgeWalker:
    """Runs one `Expand` of one execution."""

    def __init__(self, operator: plan.Expand, execution: Execution) -> None:
        self.operator = operator
        self.execution = execution
        self._around = around = _around(operator, execution.view)
        self.edges, self.source, self.target = around.edges, around.source, around.target
        self.near, self.far = around.near, around.far
        """The ends that the walk starts from, and that it leads to."""
        bind_ends(operator, execution)
        self._is_resident = False
        self._is_edge_resident: bool | None = None
        self._is_target_resident: bool | None = None
        self._made: Edges | None = None
        self._followed: Adjacency | None = None

    # the adjacency

    def is_resident(self, asked: int) -> bool:
        """Are all edges read? Once they are, they stay so for the rest of the execution."""
        if not self._is_resident:
            view = self.execution.view
            asked *= self._sides
            self._is_resident = view.prefers_resident_walk(self._around, asked=asked)
        return self._is_resident

    def is_too_wide(self, asked: int) -> bool:
        return self.is_resident(asked)

    def walked(self, asked: int, found: int) -> None:
        asked *= self._sides
        self.execution.view.charge_walk(self._around, asked=asked, found=found)

    @property
    def _sides(self) -> int:
        """A walk in either direction looks edges up by both of their ends."""
        return 2 if self.operator.direction is Direction.BOTH else 1

    def _edges(self) -> Edges:
        """The cached edges, built from cached codes; codes survive a change of the nodes."""
        if self._made is not None:
            return self._made
        view, source, target = self.execution.view, self.source.resident, self.target.resident

        def codes() -> Codes:
            return read_codes(self.edges, source, target)

        def edges() -> Edges:
            kept = KeptEdges(self.edges, self._around.file).between(source, target)
            if kept is not None:
                return kept
            built = view.cache.get_or_build(("codes", self.edges.state), codes)
            return built.between(source, target)

        self._made = view.walked(("edges", self._around.key), edges)
        return self._made

    def adjacency(self) -> Adjacency:
        if self._followed is None:
            by_edge = self.operator.mode is WalkMode.EDGES
            self._followed = self._edges().adjacency(self.operator.direction, by_edge=by_edge)
        return self._followed

    def neighbours_from(self, variable: str) -> Adjacency:
        """The walk as seen from one of its two ends, each neighbour once."""
        ahead = self.operator.direction
        is_ahead = variable == self.operator.source
        return self._edges().adjacency(ahead if is_ahead else ahead.reversed(), by_edge=False)

    def ends_at(self, variable: str, frame: Frame) -> Ordinals:
        """The nodes at one of the two ends, as ordinals of their whole table."""
        table = self.near if variable == self.operator.source else self.far
        return ordinals_in(table.resident, frame.bound[variable])

    def remember(self) -> None:
        """The walk for the next run, if all that it needs stays at hand."""
        operator, view = self.operator, self.execution.view
        is_stepwise = operator.mode in (WalkMode.NEIGHBOURS, WalkMode.EDGES)
        if not is_stepwise or operator.closes or self._followed is None:
            return
        columns = self._target_columns
        if columns and not view.prefers_resident(self.far, columns, asked=0):
            return
        ends = self.near.resident, self.far.resident
        known = KnownWalk.of(operator, ends, self.edges.resident, self._followed)
        view.remember("walk", operator, known)

    # rows that are checked or counted instead of walked

    def startable(self, frame: Frame) -> Frame:
        at = frame.bound[self.operator.source].at
        return frame if not len(at) or at.min() >= 0 else frame.keep(at >= 0)

    def can_check(self, frame: Frame) -> bool:
        """Are both ends bound, and is it irrelevant which edges join them?"""
        operator = self.operator
        is_plain = operator.closes and operator.mode in (WalkMode.NEIGHBOURS, WalkMode.SEARCH)
        if not is_plain or not self.is_resident(frame.count):
            return False
        if operator.mode is WalkMode.NEIGHBOURS:
            return True
        ends = (frame.bound[each].at for each in (operator.source, operator.target))
        return min(len(distinct(each)) for each in ends) <= SOURCES_MAX

    def check(self, frame: Frame) -> Frame:
        """The rows whose ends are neighbours, checked from the end with fewer distinct nodes.

        Of a search, the rows whose ends are as near as its bounds ask.
        """
        there = frame.keep(frame.bound[self.operator.target].at >= 0)
        return there.without_unread(self.operator.kept).keep(self._meets(there))

    def _meets(self, frame: Frame) -> Mask:
        near = ordinals_in(self.near.resident, frame.bound[self.operator.source])
        far = ordinals_in(self.far.resident, frame.bound[self.operator.target])
        edges, direction = self._edges(), self.operator.direction
        if len(distinct(far)) < len(distinct(near)):
            near, far, direction = far, near, direction.reversed()
        if self.operator.mode is WalkMode.SEARCH:
            return self._are_within(near, far, direction)
        return walk.meets(edges.adjacency(direction, by_edge=False), near, far)

    def _are_within(self, near: Ordinals, far: Ordinals, direction: Direction) -> Mask:
        ahead, back = (
            PathEdges(self._edges().adjacency(each, by_edge=False))
            for each in (direction, direction.reversed())
        )
        self.execution.memory.check("expand", BYTES_PER_NODE * len(ahead.adjacency.degrees))
        low, high = self.operator.hops_low, self.execution.hops_high(self.operator)
        return are_within((ahead, back), near, far, low, high)

    @property
    def is_cached(self) -> bool:
        """Were all edges read before?"""
        return self.execution.view.cache.find(("edges", self._around.key)) is not None

    @property
    def degree_max(self) -> int:
        return int(self.adjacency().degrees.max(initial=0))

    def count(self, frame: Frame, weights: Places | None) -> tuple[Frame, Places]:
        """The rows that can walk, with their weights times the number of walks."""
        at = ordinals_in(self.near.resident, frame.bound[self.operator.source])
        counts = walk.degrees(self.adjacency(), at) if len(at) else np.zeros(0, np.int64)
        there = counts > 0
        if len(at) and at.min() < 0:
            there &= at >= 0
        if weights is not None:
            counts = counts * weights
        left = frame.without_unread(self.operator.kept)
        return (left, counts) if there.all() else (left.keep(there), counts[there])

    # parts

    def parts(self, frame: Frame) -> Iterator[Frame]:
        """Pieces of a frame that yield about `ROWS_MAX` rows each."""
        if frame.count <= 1:
            yield from (frame,) if frame.count else ()
            return
        if not self.is_resident(frame.count) or self.operator.mode is WalkMode.SEARCH:
            yield from pieces_of(frame, SEARCHES_MAX)
            return
        at = self.ends_at(self.operator.source, frame)
        for piece in walk.cut_counts(walk.degrees(self.adjacency(), at), ROWS_MAX):
            yield frame.slice(piece.start, piece.stop)

    # walking

    def step(self, frame: Frame, walk_from: WalkFrom) -> Iterator[Frame]:
        """The rows that a walk yields; if memory runs out, half of the input at a time."""
        check_cancelled()
        try:
            found = walk_from(frame)
        except QueryMemoryExceeded:
            if frame.count == 1:
                raise
            half = frame.count // 2
            yield from self.step(frame.slice(0, half), walk_from)
            yield from self.step(frame.slice(half, None), walk_from)
        else:
            yield self.join(frame, found)

    def walk(self, frame: Frame) -> Arrived:
        bound = frame.bound[self.operator.source]
        found = None if self.is_resident(frame.count) else self._walk_indexed(bound)
        if found is None and self.can_check(frame):
            there = np.flatnonzero(frame.bound[self.operator.target].at >= 0)
            met = there[self._meets(frame.pick(there))]
            return Arrived(met, frame.bound[self.operator.target].pick(met), None)
        return found or self._walk_resident(ordinals_in(self.near.resident, bound))

    def _walk_resident(self, at: Ordinals) -> Arrived:
        if len(at) == 1 and self.operator.mode is WalkMode.EDGES:
            found = self._edges().beside(int(at[0]), self.operator.direction)
            if found is not None:
                return self.arrived(np.zeros(len(found[0]), np.int64), *found)
        return self.arrived(*self._follow(self.adjacency(), at))

    def arrived(self, rows: Places, targets: Ordinals, edges: Ordinals | None = None) -> Arrived:
        """Walks among all edges, with the nodes and edges that they reached."""
        edge = None if edges is None else self._edge_bound(edges)
        return Arrived(rows, self._target_bound(targets), edge)

    def _follow(
        self, adjacency: Adjacency, at: Ordinals
    ) -> tuple[Places, Ordinals, Ordinals | None]:
        match self.operator.mode:
            case WalkMode.EDGES:
                return walk.step_along(adjacency, at)
            case WalkMode.NEIGHBOURS:
                return (*walk.step(adjacency, at), None)
            case WalkMode.SEARCH:
                low, high = self.operator.hops_low, self.execution.hops_high(self.operator)
                found = walk.search(
                    adjacency,
                    at,
                    hops_low=low,
                    hops_high=high,
                    check=partial(self.execution.memory.check, "expand"),
                )
                return (*found, None)
            case WalkMode.NOTHING:
                raise AssertionError("a walk of mode NOTHING is not run")
            case _:
                assert_never(self.operator.mode)

    def _target_bound(self, at: Ordinals) -> Bound:
        """The target rows: whole columns, or fetched by id if few of many rows are needed."""
        columns = self._target_columns
        if self._is_target_resident is None:
            prefers = self.execution.view.prefers_resident
            self._is_target_resident = not columns or prefers(self.far, columns, asked=len(at))
        if self._is_target_resident:
            return Bound(self.far.resident, at)
        return self._fetched(self.operator.target, self.far, columns, at)

    def _edge_bound(self, at: Ordinals) -> Bound:
        if self._is_edge_resident is None:
            self._is_edge_resident = True
        if self._is_edge_resident:
            return Bound(self.edges.resident, at)
        variable = self.operator.edge_variable or ""
        return self._fetched(variable, self.edges, self._edge_columns, at)

    def _fetched(
        self, variable: str, table: TableView, columns: Sequence[str], at: Ordinals
    ) -> Bound:
        """Rows of a whole table, among those that this operator fetched."""
        rows = self.execution.fetched_rows(self.operator, variable, table, columns)
        ids = table.resident.take(ID, at)
        rows.fetch(texts_of(ids))
        return Bound(rows, rows.find(ids))

    @property
    def _target_columns(self) -> tuple[str, ...]:
        if not self.operator.filters:
            return self.operator.columns
        read = columns_of(self.operator.target, self.operator.filters)
        return tuple(dict.fromkeys((*self.operator.columns, *read)))

    @property
    def _edge_columns(self) -> tuple[str, ...]:
        variable = self.operator.edge_variable or ""
        read = columns_of(variable, self.operator.filters)
        return tuple(dict.fromkeys(("src", "dst", *self.operator.edge_columns, *read)))

    def _walk_indexed(self, bound: Bound) -> Arrived | None:
        """None if the walk turned out to be wide: then all edges are read from now on."""
        operator, execution = self.operator, self.execution
        targets = execution.fetched_rows(operator, operator.target, self.far, self._target_columns)
        edges = None
        if operator.mode is WalkMode.EDGES:
            edges = execution.fetched_rows(
                operator, operator.edge_variable or "", self.edges, self._edge_columns
            )
        ids = bound.rows.take(ID, bound.at)
        before = targets.nbytes
        hood = explore(
            operator,
            self.edges,
            texts_of(ids),
            targets,
            edges,
            watch=self,
            hops_high=execution.hops_high(operator),
        )
        if hood is None:
            return None
        # A variable has one kind of rows, so the morsels after this one bind fetched rows too.
        self._is_target_resident = self._is_edge_resident = False
        execution.memory.hold("expand", targets.nbytes - before)
        execution.memory.check("expand", hood.nbytes)
        rows, codes, places = self._follow(hood.adjacency, hood.starts)
        edge = None
        if edges is not None and places is not None:
            edge = Bound(edges, hood.edge_places[places])
        return Arrived(rows, Bound(targets, hood.target_places[codes]), edge)

    # joining

    def join(self, frame: Frame, found: Arrived) -> Frame:
        operator = self.operator
        after = frame.without_unread(operator.kept).pick(found.rows)
        more: dict[str, Bound] = {}
        if operator.edge_variable is not None:
            assert found.edge is not None
            more[operator.edge_variable] = found.edge
        if not operator.closes:
            return after.bind({**more, operator.target: found.target})
        met = _are_same(after.bound[operator.target], found.target)
        return after.bind(more).keep(met)


def ordinals_in(rows: Rows, bound: Bound) -> Ordinals:
    """The same nodes, as ordinals of other rows."""
    if bound.rows is rows:
        return bound.at
    return rows.find(bound.rows.take(ID, bound.at))


def _are_same(left: Bound, right: Bound) -> "npt.NDArray[np.bool_]":
    if left.rows is right.rows:
        same: npt.NDArray[np.bool_] = (left.at == right.at) & (left.at >= 0)
        return same
    ids: list[Array] = [each.rows.take(ID, each.at).cast(pa.string()) for each in (left, right)]
    met: npt.NDArray[np.bool_] = np.asarray(pc.equal(ids[0], ids[1]).fill_null(False))
    return met
