"""The operator that walks an edge from a bound variable, and walks that are only counted."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from omnigraph.catalog.model import EdgeType
from omnigraph.compiler import ir, plan
from omnigraph.compiler.ir import AggregateFunction, Direction
from omnigraph.compiler.plan import WalkMode
from omnigraph.compiler.scope import operands_in
from omnigraph.engine.query.columns.csr import Adjacency
from omnigraph.engine.query.columns.frame import ROWS_MAX, Frame, pieces_of
from omnigraph.engine.query.operators import intersect
from omnigraph.engine.query.operators.execution import Execution, Frames
from omnigraph.engine.query.operators.intersect import Intersection
from omnigraph.engine.query.operators.known import KnownWalk
from omnigraph.engine.query.operators.walker import EdgeWalker, Places, bind_ends

Counted = Iterator[tuple[Frame, Places | None]]
"""Rows with their weights: how many rows each stands for; None for one each."""

WEIGHT_MAX: Final = 1 << 40
"""Walks are multiplied only while one row stands for fewer rows: four million of them add up."""

_LISTED: Final = frozenset({AggregateFunction.COLLECT, AggregateFunction.PERCENTILE})


def expand(
    operator: plan.Expand,
    frames: Frames,
    execution: Execution,
    check: plan.Expand | None = None,
) -> Frames:
    """The walked rows; those that the check above would drop need not be among them."""
    if operator.mode is WalkMode.NOTHING:
        bind_ends(operator, execution)
        return
    known: KnownWalk | None = execution.view.remembered("walk", operator)
    if known is None:
        walker = EdgeWalker(operator, execution)
        for frame in frames:
            yield from _expand(walker, frame, check)
        walker.remember()
        return
    bind_ends(operator, execution)
    for frame in frames:
        after = known.after(frame, ROWS_MAX if check is None else intersect.STEPS_MIN)
        if after is None:
            yield from _expand(EdgeWalker(operator, execution), frame, check)
            continue
        kept = execution.keep(operator.filters, after) if operator.filters else after
        if kept.count:
            yield kept


def _expand(walker: EdgeWalker, frame: Frame, check: plan.Expand | None) -> Frames:
    operator, execution = walker.operator, walker.execution
    there = walker.startable(frame)
    if walker.can_check(there):
        kept = execution.keep(operator.filters, walker.check(there))
        if kept.count:
            yield kept
        return
    shorter = None if check is None else Intersection.of(walker, check, there)
    source: EdgeWalker | Intersection = shorter or walker
    for part in source.parts(there):
        for after in walker.step(part, source.walk):
            kept = execution.keep(operator.filters, after)
            if kept.count:
                yield from pieces_of(kept, ROWS_MAX)


def count_expand(operator: plan.Expand, rows: Counted, execution: Execution) -> Counted:
    """The input rows with the number of walks from each; or the walked rows.

    Used if no operator needs the nodes that the walks reach, so they need not be walked.
    """
    first = next(rows, None)
    if first is None:
        return
    walker = EdgeWalker(operator, execution)
    again = chain((first,), rows)
    is_weighted = first[1] is not None
    if is_weighted or walker.is_resident(first[0].count):
        for frame, weights in again:
            yield walker.count(frame, weights)
    else:
        unweighted = (frame for frame, _ in again)
        for frame in expand(operator, unweighted, execution):
            yield frame, None


def adjacency_of(
    edge: str, direction: Direction, execution: Execution, *, by_edge: bool = False
) -> Adjacency:
    """The neighbours over all edges of a type, by the ordinals of the whole tables of its ends."""
    view = execution.view
    type_ = view.edge(edge).type
    assert isinstance(type_, EdgeType)
    far = type_.source if direction is Direction.IN else type_.target
    alone = plan.Expand(
        plan.OneRow(),
        "",
        edge,
        direction,
        "",
        far,
        WalkMode.EDGES if by_edge else WalkMode.NEIGHBOURS,
        1,
        1,
        None,
        closes=True,
        filters=(),
        columns=(),
        edge_columns=(),
    )
    return EdgeWalker(alone, execution).adjacency()


def count_chain(walks: Sequence[plan.Expand], execution: Execution) -> Sequence[plan.Expand]:
    """Those of the walks, from the top, that are multiplied; the rest of them are walked.

    All edges of multiplied walks are read already, and the largest product is far from 64 bits.
    """
    if len(walks) <= 1:
        return walks
    product = 1
    for count, each in enumerate(walks):
        walker = EdgeWalker(each, execution)
        product *= walker.degree_max if walker.is_cached else WEIGHT_MAX
        if product >= WEIGHT_MAX:
            return walks[: max(1, count)]
    return walks


# ── walks that are only counted ──────────────────────────────────────────────────────────────────


def counted_walks(operator: plan.Aggregate) -> Sequence[plan.Expand]:
    """The walks below an aggregate whose only effect is to multiply rows, from the top.

    No column may read the nodes that such a walk reaches, except to count them, and no walk above
    may start there. A reached node is never null, so counting nodes is counting rows.
    """
    columns = [each.expression for each in operator.columns]
    found: list[plan.Expand] = []
    walk = operator.input
    while isinstance(walk, plan.Expand) and is_only_counted(walk, columns):
        if any(above.source == walk.target for above in found):
            break
        found.append(walk)
        walk = walk.input
    return found[:1] if any(map(_lists_values, columns)) else found


def _lists_values(expression: ir.Operand | ir.ObjectOf | ir.Aggregate) -> bool:
    """Is every value kept as often as it counts? Then rows must not stand for very many."""
    return isinstance(expression, ir.Aggregate) and expression.function in _LISTED


def is_only_counted(
    walk: plan.Expand, expressions: Sequence[ir.Operand | ir.ObjectOf | ir.Aggregate]
) -> bool:
    """Do these expressions read nothing of what the walk reaches, except to count it?"""
    if walk.closes or walk.filters or walk.mode not in (WalkMode.NEIGHBOURS, WalkMode.EDGES):
        return False
    reached = {walk.target, walk.edge_variable}
    return all(_counts(each, reached) or not _reads(each, reached) for each in expressions)


def _counts(expression: ir.Operand | ir.ObjectOf | ir.Aggregate, reached: set[str | None]) -> bool:
    match expression:
        case ir.Aggregate(AggregateFunction.COUNT, ir.IdOf(variable), distinct=False):
            return variable in reached
        case _:
            return False


def _reads(expression: ir.Operand | ir.ObjectOf | ir.Aggregate, reached: set[str | None]) -> bool:
    return any(
        isinstance(each, ir.PropertyOf | ir.IdOf) and each.variable in reached
        for each in operands_in(expression)
    )
