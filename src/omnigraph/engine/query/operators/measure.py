"""Blocks that are measured: an aggregate over the rows of a block, compared for each outside row.

As in every join of a block, the block runs once per morsel, over the distinct bindings that it
depends on. A walk that is only counted comes with weights, and its rows are never built.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from omnigraph.compiler import ir, plan
from omnigraph.compiler.ir import AggregateFunction
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.frame import Frame
from omnigraph.engine.query.columns.values import as_plain, build_column
from omnigraph.engine.query.operators.aggregate import (
    State,
    Weights,
    concat_columns,
    end,
    fraction_of,
    go_on,
    needs_values,
    start,
)
from omnigraph.engine.query.operators.conditions import compare
from omnigraph.engine.query.operators.execution import Execution, Frames
from omnigraph.engine.query.operators.expand import Counted, is_only_counted
from omnigraph.engine.query.operators.grouping import Groups, group
from omnigraph.engine.query.operators.join import NUMBER, DistinctBindings, give
from omnigraph.engine.tables.arrays import Array, array_of, pick

RunCounted = Callable[[Frame], Counted]
Part = tuple[npt.NDArray[np.int64], Array, Weights | None]
"""The number of the binding of each row, the argument, and how many rows each stands for."""


def counted_walk(operator: plan.Measure) -> plan.Expand | None:
    """The walk of a block that only counts where it leads."""
    walk = operator.inner
    if not isinstance(walk, plan.Expand) or not is_only_counted(walk, [operator.aggregate]):
        return None
    return walk


def measure(
    operator: plan.Measure, frames: Frames, run_inner: RunCounted, execution: Execution
) -> Frames:
    for frame in frames:
        given = give(frame, operator.on)
        found = pick(_aggregate(operator.aggregate, given, run_inner, execution), given.of_row)
        bound = execution.predicates.value(operator.bound, frame)
        kept = frame.keep(compare(found, operator.comparator, bound, frame.count))
        if kept.count:
            yield kept


def _aggregate(
    aggregate: ir.Aggregate, given: DistinctBindings, run_inner: RunCounted, execution: Execution
) -> Array:
    """The value of the aggregate for each binding; a date is an integer."""
    every = np.arange(given.count)
    fraction = fraction_of(aggregate, execution)
    states: list[State] = []
    for numbers, column, weights in _arguments(aggregate, run_inner(given.frame), execution):
        check_cancelled()
        groups = Groups(numbers, every)
        states.append(start(aggregate.function, column, groups, weights, fraction=fraction))
        if len(states) > 1:
            states = [_merge(aggregate.function, states, given.count)]
    if not states:
        kind = aggregate.argument.type or ir.I64
        none = as_plain(build_column(None, 0, kind), kind)
        groups = Groups(every[:0], every)
        states.append(start(aggregate.function, none, groups, fraction=fraction))
    return end(aggregate.function, states[0])


def _merge(function: AggregateFunction, states: list[State], count: int) -> State:
    joined = tuple(concat_columns(each) for each in zip(*states, strict=True))
    groups = Groups(np.tile(np.arange(count), len(states)), np.arange(count))
    return go_on(function, joined, groups)


def _arguments(aggregate: ir.Aggregate, parts: Counted, execution: Execution) -> Iterator[Part]:
    """The rows of the block, as numbers of bindings and values of the argument."""
    plain = (
        (frame.bound[NUMBER].at.astype(np.int64), _column(aggregate, frame, execution), weights)
        for frame, weights in parts
    )
    if not needs_values(aggregate):
        yield from plain
        return
    held = list(plain)
    execution.memory.check("measure", sum(a.nbytes + b.nbytes for a, b, _ in held))
    if held:
        numbers = np.concatenate([each for each, _, _ in held])
        column = concat_columns([each for _, each, _ in held])
        at = _distinct(numbers, column) if aggregate.distinct else _repeated(held)
        yield numbers[at], pick(column, at), None


def _distinct(numbers: "npt.NDArray[np.int64]", column: Array) -> "npt.NDArray[np.int64]":
    return group([array_of(numbers), column], len(numbers)).firsts


def _repeated(parts: "list[Part]") -> "npt.NDArray[np.int64]":
    """Every row, as often as it counts."""
    weights = [np.ones(len(numbers), np.int64) if w is None else w for numbers, _, w in parts]
    counted = np.concatenate(weights)
    return np.repeat(np.arange(len(counted)), counted)


def _column(aggregate: ir.Aggregate, frame: Frame, execution: Execution) -> Array:
    argument = aggregate.argument
    if isinstance(argument, ir.IdOf):
        if argument.variable not in frame.bound:  # the walk was only counted
            return array_of(np.zeros(frame.count, np.int8))
        at = frame.bound[argument.variable].at
        return array_of(at, at < 0)
    kind = argument.type or ir.I64
    return as_plain(execution.predicates.column(argument, frame, kind), kind)
