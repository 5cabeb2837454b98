"""The operator that walks any of several ways, and leaves that scan several types.

One hop runs the ordinary `Expand` of each way, on the rows whose source has the type it starts
from. More hops search all ways together: the nodes of all types are numbered, and the edges of all
ways are one adjacency.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.compiler import ir, plan
from omnigraph.compiler.plan import WalkMode
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.csr import Adjacency, build_neighbours
from omnigraph.engine.query.columns.frame import ROWS_MAX, Bound, Frame, pieces_of
from omnigraph.engine.query.columns.rows import UNBOUND, Ordinals, Rows
from omnigraph.engine.query.columns.typed_rows import TypedRows, rows_of_type
from omnigraph.engine.query.operators import expand as single, walk, walker
from omnigraph.engine.query.operators.execution import Execution, Frames
from omnigraph.errors import QueryMemoryExceeded

Places = npt.NDArray[np.int64]

ROW: Final = "##"
"""The variable that holds the number of the input row while its ways are walked."""


def join_leaf(leaf: plan.NodeScan | plan.KeyLookup, frames: Frames, rows: TypedRows) -> Frames:
    """The rows of one leaf of an `Either`."""
    for frame in frames:
        bound = rows.join(leaf.type_name, frame.bound[leaf.variable])
        yield frame.bind({leaf.variable: bound})


def expand_any(operator: plan.ExpandAny, frames: Frames, execution: Execution) -> Frames:
    if not operator.closes and len(operator.target_types) == 1:
        execution.bind(operator.target, execution.view.node(operator.target_types[0]))
    step = (
        _Search(operator, execution).step
        if operator.mode is WalkMode.SEARCH
        else partial(_one_hop, operator, execution)
    )
    for frame in frames:
        check_cancelled()
        for after in step(frame):
            kept = execution.keep(operator.filters, after)
            if kept.count:
                yield from pieces_of(kept, ROWS_MAX)


# ── one hop ──────────────────────────────────────────────────────────────────────────────────────


def _one_hop(operator: plan.ExpandAny, execution: Execution, frame: Frame) -> Iterator[Frame]:
    """Ways between the same two types may meet at a node; it then counts once."""
    numbers = Bound(UNBOUND, np.arange(frame.count, dtype=np.int32))
    numbered = frame.bind({ROW: numbers})
    pairs = zip(operator.ways, operator.walks, strict=True)
    for _, some in groupby(sorted(pairs, key=_types), key=_types):
        meeting = list(some)
        found = (
            after
            for way, each in meeting
            for after in _walk_way(operator, way, each, numbered, execution)
        )
        if len(meeting) > 1 and operator.mode is not WalkMode.EDGES:
            yield from _distinct(operator, frame, found)
        else:
            yield from map(_without_number, found)


def _without_number(frame: Frame) -> Frame:
    return Frame(frame.count, {name: at for name, at in frame.bound.items() if name != ROW})


def _distinct(operator: plan.ExpandAny, frame: Frame, found: Iterator[Frame]) -> Iterator[Frame]:
    """Each target once for every input row. Nothing else is bound where no edge is."""
    rows: Rows = UNBOUND
    keys: list[Places] = []
    for after in found:
        target = after.bound[operator.target]
        rows = target.rows
        keys.append(after.bound[ROW].at.astype(np.int64) << 32 | target.at)
    if keys:
        pairs = walk.union([*keys, np.empty(0, np.int64)])
        after = frame.pick(pairs >> 32)
        bound = Bound(rows, pairs.astype(np.int32))
        yield after if operator.closes else after.bind({operator.target: bound})


def _types(pair: tuple[ir.Way, plan.Expand]) -> tuple[str, str]:
    return pair[0].source_type, pair[0].target_type


def _walk_way(
    operator: plan.ExpandAny, way: ir.Way, alone: plan.Expand, frame: Frame, execution: Execution
) -> Iterator[Frame]:
    """The rows of one way. Its ends are told by type before it, and joined again behind it."""
    ends = [(operator.source, way.source_type)]
    ends += [(operator.target, way.target_type)] if operator.closes else []
    part = frame
    for variable, type_name in ends:
        part = rows_of_type(part, variable, type_name)
    if not part.count:
        return
    for after in single.expand(alone, iter((part,)), execution):
        joined: dict[str, Bound] = {}
        for variable, type_name in ends:
            rows = frame.bound[variable].rows
            if isinstance(rows, TypedRows):
                joined[variable] = rows.join(type_name, after.bound[variable])
        if not operator.closes:
            rows = execution.typed_rows(operator, operator.target, operator.target_types)
            joined[operator.target] = rows.join(way.target_type, after.bound[operator.target])
        if operator.edge_variable is not None:
            rows = execution.typed_rows(operator, operator.edge_variable, operator.edges)
            joined[operator.edge_variable] = rows.join(
                way.edge, after.bound[operator.edge_variable]
            )
        yield after.bind(joined)


# ── several hops ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Numbering:
    """The nodes of several types under one number each: those of a type follow its offset."""

    types: tuple[str, ...]
    offsets: Places
    """Of every type, and the number of all nodes."""

    def of(self, type_name: str, at: Ordinals) -> Ordinals:
        numbers: Ordinals = (at + self.offsets[self.types.index(type_name)]).astype(np.int32)
        return numbers


class _Search:
    """Breadth-first searches over the edges of all ways."""

    def __init__(self, operator: plan.ExpandAny, execution: Execution) -> None:
        self.operator = operator
        self.execution = execution
        self._made: tuple[_Numbering, Adjacency] | None = None

    def step(self, frame: Frame) -> Iterator[Frame]:
        for part in pieces_of(frame, walker.SEARCHES_MAX):
            yield from self._step(part)

    def _step(self, frame: Frame) -> Iterator[Frame]:
        """The rows that the searches yield; if memory runs out, half of the input at a time."""
        check_cancelled()
        try:
            yield from self._searched(frame)
        except QueryMemoryExceeded:
            if frame.count == 1:
                raise
            half = frame.count // 2
            yield from self._step(frame.slice(0, half))
            yield from self._step(frame.slice(half, None))

    def _searched(self, frame: Frame) -> Iterator[Frame]:
        operator = self.operator
        numbering, adjacency = self._adjacency()
        starts = self._numbers(frame, operator.source, numbering)
        frame, starts = frame.keep(starts >= 0), starts[starts >= 0]
        if not frame.count:
            return
        rows, nodes = walk.search(
            adjacency,
            starts,
            hops_low=operator.hops_low,
            hops_high=self.execution.hops_high(operator),
            check=partial(self.execution.memory.check, "expand"),
        )
        after = frame.pick(rows)
        if operator.closes:
            met = self._numbers(after, operator.target, numbering) == nodes
            kept = after.keep(met)
            if kept.count:
                yield kept
            return
        of = np.searchsorted(numbering.offsets, nodes, side="right") - 1
        found = self.execution.typed_rows(operator, operator.target, operator.target_types)
        for number, type_name in enumerate(numbering.types):
            mine = np.flatnonzero(of == number)
            if type_name in operator.target_types and len(mine):
                resident = self.execution.view.node(type_name).resident
                at = (nodes[mine] - numbering.offsets[number]).astype(np.int32)
                bound = found.join(type_name, Bound(resident, at))
                yield after.pick(mine).bind({operator.target: bound})

    def _numbers(self, frame: Frame, variable: str, numbering: _Numbering) -> Ordinals:
        """The number of what each row binds; -1 for what no way starts from or leads to."""
        bound = frame.bound[variable]
        numbers = np.full(frame.count, -1, np.int32)
        for type_name in numbering.types:
            mask, own = self._part(bound, variable, type_name)
            if mask.any():
                resident = self.execution.view.node(type_name).resident
                at = walker.ordinals_in(resident, own)
                numbers[mask] = np.where(at < 0, -1, numbering.of(type_name, at))
        return numbers

    def _part(
        self, bound: Bound, variable: str, type_name: str
    ) -> "tuple[npt.NDArray[np.bool_], Bound]":
        if isinstance(bound.rows, TypedRows):
            return bound.rows.part(type_name, bound)
        if bound.rows is UNBOUND:
            return np.zeros(len(bound.at), np.bool_), Bound(UNBOUND, bound.at[:0])
        held = self.execution.table_of(variable).type.name
        mask = (bound.at >= 0) & (held == type_name)
        return mask, bound.pick(mask)

    def _adjacency(self) -> tuple[_Numbering, Adjacency]:
        """Of all ways, cached for as long as their tables stay."""
        if self._made is None:
            view, ways = self.execution.view, self.operator.ways
            walked = {name for each in ways for name in (each.source_type, each.target_type)}
            # After no hop, a node is where no way may lead.
            names = sorted(walked.union(self.operator.target_types))
            counts = [len(view.node(each).resident) for each in names]
            offsets = np.cumsum([0, *counts])
            numbering = _Numbering(tuple(names), offsets)
            states = [view.node(each).state for each in names]
            states += [view.edge(each).state for each in self.operator.edges]
            key = ("ways", ways, tuple(names), tuple(states))
            whole = view.cache.get_or_build(key, partial(self._build, numbering))
            self._made = numbering, whole
        return self._made

    def _build(self, numbering: _Numbering) -> Adjacency:
        """Each way's own adjacency is cached as well."""
        node_count = int(numbering.offsets[-1])
        self.execution.memory.check("expand", node_count * 8)
        near: list[Ordinals] = []
        far: list[Ordinals] = []
        for each in self.operator.ways:
            check_cancelled()
            own = single.adjacency_of(each.edge, each.direction, self.execution)
            self.execution.memory.check("expand", 4 * own.nbytes)
            degrees = np.diff(own.starts)
            starts = np.repeat(np.arange(len(degrees), dtype=np.int32), degrees)
            near.append(numbering.of(each.source_type, starts))
            far.append(numbering.of(each.target_type, own.targets))
        return build_neighbours(node_count, np.concatenate(near), np.concatenate(far))
