"""Runs a plan: frames flow from the leaves through generators, and the top yields columns."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, assert_never

import pyarrow as pa

from omnigraph.catalog.types import ValueType
from omnigraph.compiler import ir, plan
from omnigraph.compiler.scope import ranked_variable
from omnigraph.engine.cancellation import check_cancelled, current_token
from omnigraph.engine.query.columns.frame import ONE_ROW, Frame
from omnigraph.engine.query.columns.values import object_column
from omnigraph.engine.query.operators.aggregate import aggregate, keep_groups, unite
from omnigraph.engine.query.operators.execution import Execution, Frames, schema_of
from omnigraph.engine.query.operators.expand import (
    Counted,
    count_chain,
    count_expand,
    counted_walks,
    expand,
)
from omnigraph.engine.query.operators.expand_any import expand_any, join_leaf
from omnigraph.engine.query.operators.intersect import joins
from omnigraph.engine.query.operators.join import (
    NUMBER,
    anti_join,
    cross_join,
    left_join,
    semi_join,
)
from omnigraph.engine.query.operators.measure import counted_walk, measure
from omnigraph.engine.query.operators.rank import rank_rows, rank_scan
from omnigraph.engine.query.operators.scan import look_up, scan
from omnigraph.engine.query.operators.sort import places_of, sort, sort_columns
from omnigraph.engine.query.operators.stages import go_on
from omnigraph.engine.tables.arrays import Array, gather


class OperatorWatch(Protocol):
    """Observes what each operator yields, and passes it on."""

    def frames(self, operator: plan.Operator, frames: Frames) -> Frames: ...
    def counted(self, operator: plan.Operator, rows: Counted) -> Counted: ...
    def table(self, operator: plan.Operator, make: Callable[[], pa.Table]) -> pa.Table: ...


class Runner:
    """Runs the operators of one execution."""

    def __init__(self, execution: Execution, watch: OperatorWatch | None = None) -> None:
        self._execution = execution
        self._watch = watch
        self._is_cancellable = current_token() is not None

    def table(self, operator: plan.Operator) -> pa.Table:
        """The columns that the top of a plan yields."""
        if self._watch is None:
            return self._table(operator)
        return self._watch.table(operator, lambda: self._table(operator))

    def _table(self, operator: plan.Operator) -> pa.Table:
        match operator:
            case plan.Project(given):
                self._execution.fetch_late(operator.late, self._rows_at_most(given))
                return project(operator, self.rows(given, ONE_ROW), self._execution)
            case plan.Aggregate(given):
                walks = count_chain(counted_walks(operator), self._execution)
                counted = self._counted(given, walks, ONE_ROW)
                return aggregate(operator, counted, self._execution)
            case plan.Union(left, right, distinct):
                other = Runner(self._execution.apart(), self._watch)
                return unite(self.table(left), other.table(right), distinct=distinct)
            case plan.FilterColumns(given, conditions):
                return keep_groups(conditions, self.table(given), self._execution)
            case plan.SortColumns(given):
                return sort_columns(operator, self.table(given))
            case plan.Limit(given):
                start, count = self._window(operator)
                if isinstance(given, plan.SortColumns) and count is not None and not self._watch:
                    groups = self.table(given.input)
                    return sort_columns(given, groups, start + count).slice(start, count)
                return self.table(given).slice(start, count)
            case _:
                raise AssertionError(f"{type(operator).__name__} yields rows, not columns")

    def _counted(
        self, operator: plan.Operator, walks: Sequence[plan.Expand], outside: Frame
    ) -> Counted:
        """The rows of an operator; those of walks that are only counted as weights."""
        if not walks:
            return ((frame, None) for frame in self.rows(operator, outside))
        below = self._counted(walks[0].input, walks[1:], outside)
        counted = count_expand(walks[0], below, self._execution)
        return counted if self._watch is None else self._watch.counted(walks[0], counted)

    def _measured(self, operator: plan.Measure) -> Callable[[Frame], Counted]:
        walk = counted_walk(operator)
        walks = () if walk is None else (walk,)
        return lambda frame: self._counted(operator.inner, walks, frame)

    def rows(self, operator: plan.Operator, outside: Frame) -> Frames:
        """The rows of an operator; `outside` is the frame of the operator `Given`."""
        return self._watched(operator, self._rows(operator, outside))

    def _watched(self, operator: plan.Operator, frames: Frames) -> Frames:
        if self._is_cancellable:
            frames = _checked(frames)
        return frames if self._watch is None else self._watch.frames(operator, frames)

    def _rows(self, operator: plan.Operator, outside: Frame) -> Frames:
        execution = self._execution
        match operator:
            case plan.OneRow() | plan.Given():
                return iter((outside,))
            case plan.NodeScan():
                return self._leaf(scan(operator, execution), outside)
            case plan.KeyLookup():
                return self._leaf(look_up(operator, execution), outside)
            case plan.Either():
                return self._either(operator, outside)
            case plan.Stage():
                return self._stage(operator)
            case plan.Expand(closes=True, input=plan.Expand() as walk) if joins(operator, walk):
                given = self.rows(walk.input, outside)
                narrowed = self._watched(walk, expand(walk, given, execution, operator))
                return expand(operator, narrowed, execution)
            case plan.Expand(input=given):
                return expand(operator, self.rows(given, outside), execution)
            case plan.ExpandAny(input=given):
                return expand_any(operator, self.rows(given, outside), execution)
            case plan.EachPath(given):
                from omnigraph.engine.query.operators.paths import each_path  # noqa: PLC0415 - seldom read

                return each_path(operator, self.rows(given, outside), execution)
            case plan.CrossJoin(left, right):
                other = self.rows(right, ONE_ROW)
                return cross_join(self.rows(left, outside), other, execution)
            case plan.AntiJoin(given, inner):
                rows = self.rows(given, outside)
                return anti_join(operator, rows, lambda frame: self.rows(inner, frame))
            case plan.SemiJoin(given, inner):
                rows = self.rows(given, outside)
                return semi_join(operator, rows, lambda frame: self.rows(inner, frame))
            case plan.Measure(given):
                rows = self.rows(given, outside)
                return measure(operator, rows, self._measured(operator), execution)
            case plan.LeftJoin(given, inner):
                rows = self.rows(given, outside)
                run_inner = self._inner(inner)
                return left_join(operator, rows, run_inner, execution)
            case plan.Filter(given, conditions, kept):
                rows = self.rows(given, outside)
                return _filled(execution.keep(conditions, frame, kept) for frame in rows)
            case plan.TopRanked(given):
                rows = self.rows(given, outside)
                if isinstance(given, plan.NodeScan):
                    return rank_scan(operator, given, execution, rows)
                return rank_rows(operator, execution, rows)
            case plan.Sort(given):
                return sort(operator, self.rows(given, outside), execution)
            case plan.Limit(given):
                return self._limit(operator, self._limited(given, outside, operator))
            case (
                plan.Project()
                | plan.Aggregate()
                | plan.Union()
                | plan.FilterColumns()
                | plan.SortColumns()
            ):
                raise AssertionError(f"{type(operator).__name__} yields columns, not rows")
            case _:
                assert_never(operator)

    def _either(self, operator: plan.Either, outside: Frame) -> Frames:
        types = tuple(each.type_name for each in operator.parts)
        rows = self._execution.typed_rows(operator, operator.variable, types)
        for each in operator.parts:
            yield from join_leaf(each, self.rows(each, outside), rows)

    def _stage(self, operator: plan.Stage) -> Frames:
        """Its variables are others than those of the stage before, of whatever name."""
        before = Runner(self._execution.apart(), self._watch)
        yield from go_on(operator, before.table(operator.input), self._execution)

    def _limited(self, given: plan.Operator, outside: Frame, limit: plan.Limit) -> Frames:
        """A sort below a limit sorts only as many rows as the limit shows."""
        start, count = self._window(limit)
        if not isinstance(given, plan.Sort) or count is None:
            return self.rows(given, outside)
        if isinstance(given.input, plan.TopRanked):
            # Ranked nodes come first, each with at least one row, so no more can be shown.
            self._execution.best[given.input.variable] = start + count
        frames = sort(given, self.rows(given.input, outside), self._execution, start + count)
        return frames if self._watch is None else self._watch.frames(given, frames)

    def _rows_at_most(self, given: plan.Operator) -> int | None:
        return self._window(given)[1] if isinstance(given, plan.Limit) else None

    def _inner(self, inner: plan.Operator) -> Callable[[Frame], Frames]:
        return lambda frame: self.rows(inner, frame)

    def _leaf(self, frames: Frames, outside: Frame) -> Frames:
        """Join a leaf of an independent block with the one outside row and its number."""
        if NUMBER not in outside.bound:
            return frames
        return cross_join(iter((outside,)), frames, self._execution)

    def _limit(self, operator: plan.Limit, frames: Frames) -> Frames:
        start, count = self._window(operator)
        stop = None if count is None else start + count
        seen = 0
        if stop == 0:
            return
        for frame in frames:
            left = None if stop is None else stop - seen
            part = frame.slice(max(0, start - seen), left)
            seen += frame.count
            if part.count:
                yield part
            if stop is not None and seen >= stop:
                return

    def _window(self, operator: plan.Limit) -> tuple[int, int | None]:
        start = self._execution.count_of(operator.offset) or 0
        return start, self._execution.count_of(operator.count)


def _checked(frames: Iterator[Frame]) -> Frames:
    """Raises QueryCancelled, QueryTimeout before each frame, and so between any two of them."""
    check_cancelled()
    for frame in frames:
        yield frame
        check_cancelled()


def _filled(frames: Iterator[Frame]) -> Frames:
    return (frame for frame in frames if frame.count)


# ── rows to columns ──────────────────────────────────────────────────────────────────────────────


def project(operator: plan.Project, frames: Frames, execution: Execution) -> pa.Table:
    schema = schema_of(operator, execution)
    parts = []
    for limited in frames:
        frame = execution.with_late(limited)
        arrays = [
            _typed(_column(each, frame, execution), kind, each.type)
            for each, kind in zip(operator.columns, schema.types, strict=True)
        ]
        part = pa.Table.from_arrays(arrays, schema=schema)
        execution.memory.hold("project", part.get_total_buffer_size())
        parts.append(part)
    if len(parts) == 1:
        return parts[0]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _typed(array: Array, wanted: pa.DataType, of: ValueType) -> Array:
    """Objects have their type already; a cast would drop the time of day of their instants."""
    return array if array.type == wanted or of.is_struct else array.cast(wanted)


def _column(column: plan.Column, frame: Frame, execution: Execution) -> Array:
    match column.expression:
        case ir.PropertyOf(variable, name):
            bound = frame.bound[variable]
            return bound.rows.take(name, bound.at)
        case ir.ObjectOf(variable) as shown:
            at = frame.bound[variable].at
            unbound = at < 0 if len(at) and at.min() < 0 else None
            return object_column(
                shown, frame.count, lambda name: frame.column(variable, name), unbound
            )
        case ir.Nearest() | ir.Bm25() | ir.Rrf() as rank:
            variable = ranked_variable(rank)
            places = places_of(variable, frame, execution)
            scores = execution.rankings[variable].scores
            return gather(scores, places)
        case operand:
            return execution.predicates.column(operand, frame, column.type)
