"""Implicit grouping.

Each morsel is reduced to its own groups, and the groups of many morsels are reduced again. So the
memory grows with the number of groups, not of rows. An aggregate of distinct values keeps each
distinct value until the end, a list and a percentile keep every value. A node that is a key or is
counted stays an ordinal until the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.compiler import ir, plan
from omnigraph.compiler.ir import AggregateFunction
from omnigraph.compiler.scope import operands_in, variables_in
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.frame import Frame
from omnigraph.engine.query.columns.rows import ID, UNBOUND, Ordinals, ResidentRows, Rows
from omnigraph.engine.query.columns.values import (
    as_plain,
    object_column,
)
from omnigraph.engine.query.operators.execution import Execution, schema_of
from omnigraph.engine.query.operators.expand import Counted
from omnigraph.engine.query.operators.grouping import (
    Groups,
    counts,
    deviations,
    extremes,
    group,
    ordered_values,
    sums,
    whole_sums,
)
from omnigraph.engine.tables.arrays import (
    Array,
    array_of,
    gather,
    is_null,
    nulls,
    one_chunk,
    pick,
    pick_rows,
)

ROWS_HELD_MAX = 1 << 20
"""How many rows of groups are held before they are reduced again."""

MANY = 8
"""If a morsel has one row per so many table rows, the whole text column is encoded."""

State = tuple[Array, ...]
Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Part:
    """The groups of some rows: their keys, and the state of each aggregate."""

    keys: tuple[Array, ...]
    states: tuple[State, ...]
    row_count: int

    @property
    def nbytes(self) -> int:
        states = sum(each.nbytes for state in self.states for each in state)
        return sum(each.nbytes for each in self.keys) + states


@dataclass(slots=True)
class _Reduction:
    """Computes one `Aggregate` operator."""

    operator: plan.Aggregate
    execution: Execution
    parts: list[_Part] = field(default_factory=list)
    values: dict[int, list[_Part]] = field(default_factory=dict)
    """For each aggregate that needs its values at the end: the values, as keys."""
    rows: dict[str, Rows] = field(default_factory=dict)
    """The rows whose ordinals stand for the ids of a variable."""
    coded: dict[ir.PropertyOf, Array] = field(default_factory=dict)
    """The dictionary of a key that is encoded as integers."""
    plain: set[ir.PropertyOf] = field(default_factory=set)
    """Keys that were first seen as text, and stay text."""

    keys: list[ir.Operand | ir.ObjectOf] = field(init=False)
    functions: list[ir.Aggregate] = field(init=False)

    def __post_init__(self) -> None:
        found = [each.expression for each in self.operator.columns]
        self.keys = [each for each in found if not isinstance(each, ir.Aggregate)]
        self.functions = [each for each in found if isinstance(each, ir.Aggregate)]

    # rows in

    def add(self, frame: Frame, weights: Weights | None) -> None:
        """Add rows; each counts as often as its weight, or once."""
        has_values = any(map(needs_values, self.functions))
        runs = None if has_values else self._runs(frame)
        keyed = frame if runs is None else frame.pick(runs.firsts)
        keys = tuple(self._key_column(each, keyed) for each in self.keys)
        groups = group(keys, keyed.count)
        states: list[State] = []
        for place, each in enumerate(self.functions):
            is_counted = each.function is AggregateFunction.COUNT
            column = self._column(each.argument, frame, by_ordinal=is_counted)
            if needs_values(each):
                self._add_values(place, keys, column, weights)
                states.append(())
            elif runs is None:
                states.append(start(each.function, column, groups, weights))
            else:
                begun = start(each.function, column, runs, weights)
                states.append(go_on(each.function, begun, groups))
        taken = tuple(pick(each, groups.firsts) for each in keys)
        self._keep(self.parts, _Part(taken, tuple(states), groups.count), tuple(self.functions))

    def _runs(self, frame: Frame) -> Groups | None:
        """Runs of adjacent rows with the same bindings of the keys; None if runs are short.

        A walk yields the rows of one start node next to each other. The keys of a run, mainly
        text, are then read once.
        """
        variables = variables_in(leaf for each in self.keys for leaf in operands_in(each))
        if not variables or frame.count < 2:
            return None
        changes = np.zeros(frame.count, np.bool_)
        changes[0] = True
        for name in variables:
            at = frame.bound[name].at
            changes[1:] |= at[1:] != at[:-1]
        if 2 * np.count_nonzero(changes) > frame.count:
            return None
        firsts = np.flatnonzero(changes)
        return Groups(np.cumsum(changes) - 1, firsts)

    def _key_column(self, operand: ir.Operand | ir.ObjectOf, frame: Frame) -> Array:
        """A key column; text of a resident table is encoded as dictionary indices."""
        if not isinstance(operand, ir.PropertyOf) or not operand.type.is_string:
            return self._column(operand, frame, by_ordinal=True)
        bound = frame.bound[operand.variable]
        if isinstance(bound.rows, ResidentRows) and operand not in self.plain:
            is_many = frame.count * MANY >= len(bound.rows)
            if operand in self.coded or is_many or bound.rows.is_coded(operand.name):
                encoded = bound.rows.coded(operand.name)
                self.coded[operand] = encoded.dictionary
                return gather(encoded.indices, bound.at)
        if bound.rows is UNBOUND and operand in self.coded:
            return nulls(frame.count, pa.int32())
        self.plain.add(operand)
        return self._column(operand, frame, by_ordinal=True)

    def _add_values(
        self, place: int, keys: tuple[Array, ...], column: Array, weights: Weights | None
    ) -> None:
        columns = (*keys, column)
        held = self.values.setdefault(place, [])
        if self.functions[place].distinct:
            firsts = group(columns, len(column)).firsts
            part = _Part(tuple(pick(each, firsts) for each in columns), (), len(firsts))
            self._keep(held, part, ())
            return
        at = np.flatnonzero(np.asarray(column.is_valid()))
        if weights is not None:
            at = np.repeat(at, weights[at])
        part = _Part(tuple(pick(each, at) for each in columns), (), len(at))
        self.execution.memory.hold("aggregate", part.nbytes)
        held.append(part)

    def _keep(self, parts: list[_Part], part: _Part, functions: tuple[ir.Aggregate, ...]) -> None:
        self.execution.memory.hold("aggregate", part.nbytes)
        parts.append(part)
        # At least twice the last result, or every part would reduce all of them again.
        held_max = max(ROWS_HELD_MAX, 2 * parts[0].row_count)
        if len(parts) > 1 and sum(each.row_count for each in parts) > held_max:
            before = sum(each.nbytes for each in parts)
            merged = _merge(parts, functions)
            parts[:] = [merged]
            self.execution.memory.release(before - merged.nbytes)

    def _column(
        self, operand: ir.Operand | ir.ObjectOf, frame: Frame, *, by_ordinal: bool
    ) -> Array:
        match operand:
            case ir.IdOf(variable) if variable not in frame.bound:
                # The walk was only counted, and a reached node is never null.
                return array_of(np.zeros(frame.count, np.int8))
            case ir.ObjectOf(variable) | ir.IdOf(variable) if by_ordinal:
                bound = frame.bound[variable]
                if bound.rows is not UNBOUND:
                    self.rows[variable] = bound.rows
                is_bound = not len(bound.at) or bound.at.min() >= 0
                return array_of(bound.at, None if is_bound else bound.at < 0)
            case ir.ObjectOf():
                raise AssertionError("a node is a group key, and its ordinal stands for it")
            case _:
                kind = operand.type or ir.I64
                return as_plain(self.execution.predicates.column(operand, frame, kind), kind)

    # columns out

    def finish(self) -> pa.Table:
        schema = schema_of(self.operator, self.execution)
        if not self.parts:
            if self.keys:
                return schema.empty_table()
            cells = [_empty(each) for each in self.functions]
            return pa.Table.from_arrays(cells, schema=schema)
        whole = _merge(self.parts, tuple(self.functions))
        keys = iter(
            self._decode(each, key) for each, key in zip(self.keys, whole.keys, strict=True)
        )
        found = iter(self._finished(whole))
        arrays = [
            next(found if isinstance(each.expression, ir.Aggregate) else keys)
            for each in self.operator.columns
        ]
        return pa.Table.from_arrays(
            [_typed(array, of) for array, of in zip(arrays, schema.types, strict=True)],
            schema=schema,
        )

    def _finished(self, whole: _Part) -> list[Array]:
        columns = []
        for place, each in enumerate(self.functions):
            state = whole.states[place]
            if needs_values(each):
                state = self._state_of_values(place, each, whole)
            columns.append(end(each.function, state))
        return columns

    def _state_of_values(self, place: int, aggregate: ir.Aggregate, whole: _Part) -> State:
        """Assign the values to the known groups."""
        parts = self.values[place]
        values = _merge(parts, ()) if aggregate.distinct else _joined(parts)
        *keys, column = values.keys
        joined = [concat_columns(pair) for pair in zip(whole.keys, keys, strict=True)]
        numbers = group(joined, whole.row_count + values.row_count).of_row
        place_of = np.empty(whole.row_count, np.int64)
        place_of[numbers[: whole.row_count]] = np.arange(whole.row_count)
        of_row = place_of[numbers[whole.row_count :]]
        groups = Groups(of_row, np.arange(whole.row_count))
        fraction = fraction_of(aggregate, self.execution)
        return start(aggregate.function, column, groups, fraction=fraction)

    def _decode(self, operand: ir.Operand | ir.ObjectOf, key: Array) -> Array:
        if isinstance(operand, ir.PropertyOf) and operand in self.coded:
            return gather(self.coded[operand], _ordinals_of(key))
        if not isinstance(operand, ir.IdOf | ir.ObjectOf):
            return key
        rows = self.rows.get(operand.variable, UNBOUND)
        at = _ordinals_of(key)
        if isinstance(operand, ir.ObjectOf):
            return object_column(operand, len(at), lambda name: rows.take(name, at), at < 0)
        return nulls(len(key), pa.string()) if rows is UNBOUND else rows.take(ID, at)


def _ordinals_of(key: Array) -> Ordinals:
    """-1 for null."""
    return np.asarray(key.fill_null(-1) if key.null_count else key, np.int32)


def aggregate(operator: plan.Aggregate, rows: Counted, execution: Execution) -> pa.Table:
    reduction = _Reduction(operator, execution)
    for frame, weights in rows:
        check_cancelled()
        if frame.count:
            reduction.add(frame, weights)
    return reduction.finish()


@dataclass(frozen=True, slots=True)
class _GroupColumns:
    """The columns of groups, as those of the one variable `ir.RESULT`."""

    table: pa.Table

    @property
    def count(self) -> int:
        return self.table.num_rows

    def column(self, variable: str, name: str) -> Array:
        assert variable == ir.RESULT, variable
        return one_chunk(self.table[name])


def keep_groups(
    conditions: tuple[ir.Condition, ...], table: pa.Table, execution: Execution
) -> pa.Table:
    """The groups for which all conditions are true."""
    mask = execution.predicates.all_hold(conditions, _GroupColumns(table))
    return table if mask is None else pick_rows(table, np.flatnonzero(mask))


def unite(left: pa.Table, right: pa.Table, *, distinct: bool) -> pa.Table:
    """The rows of both tables; each row once if they are distinct. Null equals null."""
    both = pa.concat_tables([left, right.rename_columns(left.column_names)])
    if not distinct:
        return both
    columns = [key for each in both.columns for key in _keys_of(one_chunk(each))]
    return pick_rows(both, np.sort(group(columns, both.num_rows).firsts))


def _keys_of(column: Array) -> list[Array]:
    """What tells the values of a column apart: an object is known by its id and its type."""
    if not isinstance(column, pa.StructArray):
        return [column]
    known = {"@id", ir.TYPE_COLUMN}
    parts = zip(column.type.names, column.flatten(), strict=True)
    return [part for name, part in parts if name in known]


# ── functions ────────────────────────────────────────────────────────────────────────────────────


def needs_values(aggregate: ir.Aggregate) -> bool:
    """Is it found from all values together, and not from the states of parts?"""
    return aggregate.distinct or aggregate.function in (
        AggregateFunction.COLLECT,
        AggregateFunction.PERCENTILE,
    )


def fraction_of(aggregate: ir.Aggregate, execution: Execution) -> float | None:
    if aggregate.fraction is None:
        return None
    value = execution.value_of(aggregate.fraction)
    assert isinstance(value, int | float)
    return float(value)


def start(
    function: AggregateFunction,
    column: Array,
    groups: Groups,
    weights: Weights | None = None,
    *,
    fraction: float | None = None,
) -> State:
    """The state of an aggregate after some rows."""
    match function:
        case AggregateFunction.COUNT:
            return (array_of(_count(column, groups, weights)),)
        case AggregateFunction.SUM | AggregateFunction.AVG:
            values = _floats(column)
            if weights is not None:
                values = values * weights
            return array_of(sums(values, groups)), array_of(_count(column, groups, weights))
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return (extremes(column, groups, largest=function is AggregateFunction.MAX),)
        case AggregateFunction.STDDEV:
            counted = _count(column, groups, weights)
            there = np.asarray(column.is_valid()).astype(np.int64)
            each = there if weights is None else there * weights
            mean, squares = deviations(_floats(column), each, groups)
            return array_of(counted), array_of(mean), array_of(squares)
        case AggregateFunction.COLLECT:
            assert weights is None, "each value is there as often as it counts"
            ordered, offsets = ordered_values(column, groups)
            lists: Any = pa.ListArray
            return (lists.from_arrays(pa.array(offsets, pa.int32()), ordered),)
        case AggregateFunction.PERCENTILE:
            assert weights is None, "each value is there as often as it counts"
            assert fraction is not None, "the resolver demands it"
            return (_percentiles(column, groups, fraction),)
        case _:
            assert_never(function)


def _floats(column: Array) -> "npt.NDArray[np.float64]":
    if is_null(column):
        return np.zeros(len(column))
    known = column.fill_null(0) if column.null_count else column
    return np.asarray(known).astype(np.float64, copy=False)


def _percentiles(column: Array, groups: Groups, fraction: float) -> Array:
    """The value at a fraction of the way through the ordered values, between two interpolated."""
    ordered, offsets = ordered_values(column, groups)
    values = _floats(ordered)
    first, last = offsets[:-1], offsets[1:] - 1
    is_empty = last < first
    if not len(values):
        return array_of(np.zeros(groups.count), is_empty)
    way = np.where(is_empty, 0.0, fraction * (last - first))
    below = np.minimum(first + np.floor(way).astype(np.int64), len(values) - 1)
    above = np.minimum(first + np.ceil(way).astype(np.int64), len(values) - 1)
    between = values[below] + (values[above] - values[below]) * (way - np.floor(way))
    return array_of(between, is_empty)


def _count(column: Array, groups: Groups, weights: Weights | None) -> Weights:
    there = np.asarray(column.is_valid()) if column.null_count else None
    if weights is None:
        return counts(groups, there)
    counted = weights if there is None else weights * there
    return whole_sums(counted, groups)


def go_on(function: AggregateFunction, state: State, groups: Groups) -> State:
    """The state of an aggregate after merging the states of several parts."""
    match function:
        case AggregateFunction.COUNT:
            return (_added(state[0], groups),)
        case AggregateFunction.SUM | AggregateFunction.AVG:
            return array_of(sums(np.asarray(state[0]), groups)), _added(state[1], groups)
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return (extremes(state[0], groups, largest=function is AggregateFunction.MAX),)
        case AggregateFunction.STDDEV:
            sizes, means, squares = (np.asarray(each) for each in state)
            mean, apart = deviations(means, sizes, groups)
            return _added(state[0], groups), array_of(mean), array_of(apart + sums(squares, groups))
        case AggregateFunction.COLLECT | AggregateFunction.PERCENTILE:
            raise AssertionError(f"{function} is found from all values together")
        case _:
            assert_never(function)


def _added(numbers: Array, groups: Groups) -> Array:
    added = np.zeros(groups.count, np.int64)
    np.add.at(added, groups.of_row, np.asarray(numbers))
    return array_of(added)


def end(function: AggregateFunction, state: State) -> Array:
    match function:
        case AggregateFunction.COUNT | AggregateFunction.MIN | AggregateFunction.MAX:
            return state[0]
        case AggregateFunction.SUM:
            return array_of(np.asarray(state[0]), np.asarray(state[1]) == 0)
        case AggregateFunction.AVG:
            total, count = (np.asarray(each) for each in state)
            return array_of(total / np.maximum(count, 1), count == 0)
        case AggregateFunction.STDDEV:
            count, _, squares = (np.asarray(each) for each in state)
            return array_of(np.sqrt(squares / np.maximum(count - 1, 1)), count < 2)
        case AggregateFunction.COLLECT | AggregateFunction.PERCENTILE:
            return state[0]
        case _:
            assert_never(function)


def _empty(aggregate: ir.Aggregate) -> Array:
    """The value of an aggregate over no rows."""
    match aggregate.function:
        case AggregateFunction.COUNT:
            value: object = 0
        case AggregateFunction.COLLECT:
            value = []
        case _:
            value = None
    cells: list[Any] = [value]
    return pa.array(cells, arrow_type(aggregate.type))


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


def _merge(parts: Sequence[_Part], functions: Sequence[ir.Aggregate]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    keys = [concat_columns(each) for each in zip(*(part.keys for part in parts), strict=True)]
    groups = group(keys, sum(part.row_count for part in parts))
    states: list[State] = []
    for place, each in enumerate(functions):
        check_cancelled()
        columns = zip(*(part.states[place] for part in parts), strict=True)
        joined = tuple(concat_columns(column) for column in columns)
        states.append(joined if needs_values(each) else go_on(each.function, joined, groups))
    return _Part(tuple(pick(each, groups.firsts) for each in keys), tuple(states), groups.count)


def _joined(parts: Sequence[_Part]) -> _Part:
    """All rows of all parts."""
    keys = [concat_columns(each) for each in zip(*(part.keys for part in parts), strict=True)]
    return _Part(tuple(keys), (), sum(part.row_count for part in parts))


def concat_columns(arrays: Sequence[Array]) -> Array:
    """Concatenate; a morsel without bindings of a variable has columns of type null."""
    kinds = [each.type for each in arrays if not is_null(each)]
    if kinds:
        arrays = [each if each.type == kinds[0] else each.cast(kinds[0]) for each in arrays]
    return pa.concat_arrays(arrays)


def _typed(array: Array, of: pa.DataType) -> Array:
    """Cast to the result type; dates were integers so far."""
    if array.type == of:
        return array
    if pa.types.is_date(of) or pa.types.is_nested(of):
        return array.cast(of) if is_null(array) else array.view(of)
    return array.cast(of)
