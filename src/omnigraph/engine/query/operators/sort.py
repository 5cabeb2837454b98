"""Sorting rows and groups. Nulls are smallest, and ids break every tie."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler import ir, plan
from omnigraph.compiler.scalars import Fixed
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.frame import ROWS_MAX, Frame, concat
from omnigraph.engine.query.columns.rows import ID
from omnigraph.engine.query.columns.values import as_plain
from omnigraph.engine.query.operators.execution import Execution, Frames
from omnigraph.engine.tables.arrays import (
    Array,
    Mask,
    array_of,
    distinct,
    is_null,
    numbers_of,
    one_chunk,
    pick_rows,
)

Key = tuple[Array, bool]
"""A column, and whether its order is descending."""

Way = Literal["ascending", "descending"]

SORTED_TOGETHER: Final = 1 << 20
"""More rows are partitioned before they are sorted."""

SAMPLED: Final = 1024

FEW: Final = 128
"""Fewer rows are sorted without preselection."""

LISTED_MAX: Final = 256
"""So few rows are sorted in Python, which then calls Arrow once for each key."""

_TEXT: Final = pa.string()


def sort(
    operator: plan.Sort, frames: Frames, execution: Execution, keep: int | None = None
) -> Frames:
    """All rows in order, or the first `keep` of them."""
    held: list[Frame] = []
    rows = 0
    for frame in frames:
        held.append(execution.memory.hold_frame("sort", frame))
        rows += frame.count
        if keep is not None and rows > 2 * max(keep, ROWS_MAX):
            before = sum(each.nbytes for each in held)
            held = [_first(operator, concat(held), execution, keep)]
            rows = held[0].count
            execution.memory.release(before - held[0].nbytes)
    if held:
        yield _first(operator, concat(held), execution, keep)


def _first(operator: plan.Sort, frame: Frame, execution: Execution, keep: int | None) -> Frame:
    if keep is not None and frame.count > FEW + 4 * keep:
        first = next(_keys(operator, frame, execution), None)
        if first is not None:
            # The first key alone excludes most rows.
            frame = frame.keep(_may_be_among(first, keep))
            return _first(operator, frame, execution, None).slice(0, keep)
    keys = _keys(operator, frame, execution)
    known = [*islice(keys, 1)]
    alone = _order_by_one(known[0]) if known else None
    if alone is not None:
        return frame.pick(alone[:keep])
    known += keys
    if not known and not operator.ties and not operator.typed_ties:
        return frame.slice(0, keep)
    return frame.pick(order_of(known, lambda: _ties(operator, frame))[:keep])


def _keys(operator: plan.Sort, frame: Frame, execution: Execution) -> Iterator[Key]:
    for each in operator.keys:
        key = _key(each, frame, execution)
        if key is not None:
            yield key


def _ties(operator: plan.Sort, frame: Frame) -> list[Key]:
    ties = [(_texts(frame, name, ID), False) for name in operator.ties]
    typed = [(_texts(frame, name, ir.TYPE_COLUMN), False) for name in operator.typed_ties]
    return ties + typed


def _may_be_among(key: Key, keep: int) -> Mask:
    """The rows that can be among the first `keep` by one key, including all ties."""
    column, descending = _sortable(key[0]), key[1]
    if not keep:
        return np.zeros(len(column), np.bool_)
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = numbers_of(column)
        if keep >= len(numbers):
            return np.ones(len(numbers), np.bool_)
        if descending:
            return numbers >= np.partition(numbers, -keep)[-keep]  # type: ignore[no-any-return]
        return numbers <= np.partition(numbers, keep - 1)[keep - 1]  # type: ignore[no-any-return]
    missing = np.asarray(column.is_null())
    nulls_first = 0 if descending else int(missing.sum())
    left = keep - nulls_first
    if left <= 0:
        return missing
    there = column.drop_null()
    if left >= len(there):
        return np.ones(len(column), np.bool_)
    way: Way = "descending" if descending else "ascending"
    select: Any = pc.select_k_unstable
    best = select(pa.table({"x": there}), left, [("x", way)])
    worst: Any = there[int(np.asarray(best)[-1])]
    within: Any = (pc.greater_equal if descending else pc.less_equal)(column, worst)
    mask: Mask = np.asarray(within.fill_null(not descending))
    return mask


def _texts(frame: Frame, variable: str, name: str) -> Array:
    column = frame.column(variable, name)
    return column.cast(pa.string()) if is_null(column) else column


def _key(key: plan.ByValue | plan.ByRank, frame: Frame, execution: Execution) -> Key | None:
    match key:
        case plan.ByValue(operand, descending):
            value = execution.predicates.value(operand, frame)
            return None if isinstance(value, Fixed) else (value, descending)
        case plan.ByRank(variable):
            return array_of(places_of(variable, frame, execution)), False
        case _:
            assert_never(key)


def places_of(
    variable: str, frame: Frame, execution: Execution
) -> "npt.NDArray[np.signedinteger[Any]]":
    """For each row, the position of its node in the ranking; -1 if it is not ranked."""
    bound = frame.bound[variable]
    ranked = execution.rankings[variable].ids
    places = np.full(len(bound.rows) + 1, -1, np.int64)
    at = bound.rows.find(ranked)
    there = at >= 0
    places[at[there]] = np.flatnonzero(there)
    places[-1] = -1  # unbound
    return places[bound.at]


def sort_columns(operator: plan.SortColumns, table: pa.Table, keep: int | None = None) -> pa.Table:
    """All groups in order, or the first `keep` of them."""
    columns = plan.columns_of(operator.input)

    def plain(place: int) -> Array:
        return as_plain(one_chunk(table[place]), columns[place].type)

    def ties() -> list[Key]:
        groups = [(plain(place), False) for place in plan.ties_of(operator.input)]
        return [key for each in groups for key in (each, *_types_of(each))]

    first = operator.keys[0]
    if keep is not None and len(table) > FEW + 4 * keep:
        mask = _may_be_among((plain(first.place), first.descending), keep)
        return sort_columns(operator, pick_rows(table, np.flatnonzero(mask))).slice(0, keep)
    keys = [(plain(each.place), each.descending) for each in operator.keys]
    return pick_rows(table, order_of(keys, ties)[:keep])


def _types_of(key: Key) -> Iterator[Key]:
    """The types of objects of several types, whose ids alone do not tell them apart."""
    column = key[0]
    if isinstance(column, pa.StructArray) and ir.TYPE_COLUMN in column.type.names:
        yield column.flatten()[column.type.get_field_index(ir.TYPE_COLUMN)], False


def order_of(
    keys: Sequence[Key], ties: Callable[[], Sequence[Key]] = list
) -> "npt.NDArray[np.int64]":
    """The indices of rows in the order of these keys, most significant first, and then of ties."""
    if keys and len(keys[0][0]) <= LISTED_MAX and all(_is_listed(each) for each, _ in keys):
        rows = [each.to_pylist() for each, _ in keys]
        if len(set(zip(*rows, strict=True))) == len(rows[0]):  # nothing is tied
            ways = [descending for _, descending in keys]
            return np.array(_order_of_few(rows, ways), np.int64)
    return _order_of_all([*keys, *ties()])


def _order_by_one(key: Key) -> "npt.NDArray[np.int64] | None":
    """The order of few rows if one key decides it, so that the others need not be read."""
    column, descending = key
    if len(column) > LISTED_MAX or not _is_listed(column):
        return None
    values = column.to_pylist()
    if len(set(values)) < len(values):
        return None
    return np.array(_order_of_few([values], [descending]), np.int64)


def _is_listed(column: Array) -> bool:
    """Has it texts or integers without nulls, which Python compares as Arrow does?"""
    kind = column.type
    return not column.null_count and (kind == _TEXT or pa.types.is_integer(kind))


def _order_of_few(keys: "Sequence[list[Any]]", descending: Sequence[bool]) -> list[int]:
    order = list(range(len(keys[0])))
    for values, is_down in zip(reversed(keys), reversed(descending), strict=True):
        order.sort(key=values.__getitem__, reverse=is_down)
    return order


def _order_of_all(keys: Sequence[Key]) -> "npt.NDArray[np.int64]":
    columns: list[Array] = []
    orders: list[tuple[str, Way]] = []
    for column, descending in keys:
        way: Way = "descending" if descending else "ascending"
        # Arrow has one null placement for all keys, so nulls are a key of their own.
        if column.null_count:
            columns.append(column.is_valid().cast(pa.int8()))
            orders.append((str(len(orders)), way))
        columns.append(_sortable(column))
        orders.append((str(len(orders)), way))
    table = pa.Table.from_arrays(columns, [str(at) for at in range(len(columns))])
    return np.concatenate([np.empty(0, np.int64), *_sorted_parts(table, orders)])


def _sorted_parts(
    table: pa.Table, orders: Sequence[tuple[str, Way]], at: "npt.NDArray[np.int64] | None" = None
) -> "Iterator[npt.NDArray[np.int64]]":
    """The indices of some rows in order, in parts, because one sort cannot be interrupted.

    A sample of the first key gives the pivots of the parts. Rows with equal first key are
    partitioned by the remaining keys.
    """
    check_cancelled()
    count = len(table) if at is None else len(at)
    rows = table if at is None else pick_rows(table, at)
    parts = _divide(rows, orders) if count > SORTED_TOGETHER else None
    if parts is None:
        order = np.asarray(pc.sort_indices(rows, sort_keys=list(orders))).astype(np.int64)
        yield order if at is None else at[order]
        return
    for part, is_alike in parts:
        left = orders[1:] if is_alike else orders
        mine = part if at is None else at[part]
        if left:
            yield from _sorted_parts(table, left, mine)
        else:
            yield mine


def _divide(
    rows: pa.Table, orders: Sequence[tuple[str, Way]]
) -> "list[tuple[npt.NDArray[np.int64], bool]] | None":
    """The indices of rows partitioned by their first key, and whether a part has one value.

    None if no pivot divides the rows.
    """
    name, way = orders[0]
    column: Any = rows[name]
    sampled = np.arange(0, len(rows), max(1, len(rows) // SAMPLED))
    valid = pc.drop_null(column.take(pa.array(sampled)))
    pivots = pc.unique(valid.take(pc.sort_indices(valid)))
    if not len(pivots):
        return [(np.arange(len(rows)), True)]
    step = max(1, len(pivots) * SORTED_TOGETHER // (2 * len(rows)))
    bounds = [pivots[place] for place in range(0, len(pivots), step)]
    missing = numbers_of(column.is_null(nan_is_null=True).combine_chunks())
    has_nan = np.count_nonzero(missing) > column.null_count
    bucket = np.zeros(len(rows), np.int32)
    for bound in bounds:
        check_cancelled()
        bucket += numbers_of(pc.greater(column, bound).fill_null(False).combine_chunks())
        bucket += numbers_of(pc.greater_equal(column, bound).fill_null(False).combine_chunks())
    # Of bounds a < b: 0 is below a, 1 is a itself, 2 lies between, 3 is b, 4 is above it.
    bucket[missing] = -1
    numbers = distinct(bucket)
    if way == "descending":
        numbers = numbers[::-1]
    nulls_last = [*numbers[numbers >= 0], *numbers[numbers < 0]]
    parts = [
        (np.flatnonzero(bucket == each), not has_nan if each < 0 else bool(each % 2))
        for each in nulls_last
    ]
    return parts if len(parts) > 1 or parts[0][1] else None


def _sortable(column: Array) -> Array:
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8())
    if isinstance(column, pa.StructArray):  # objects, in the order of their ids
        return column.flatten()[0]
    if pa.types.is_nested(kind):
        return _ranks(column.to_pylist())
    return column


def _ranks(values: Sequence[object]) -> Array:
    """Lists and vectors compare element by element; a prefix is smaller."""
    keys = [None if each is None else _element_key(each) for each in values]
    ordered = sorted({each for each in keys if each is not None})
    places = {each: at for at, each in enumerate(ordered)}
    return pa.array([None if each is None else places[each] for each in keys], pa.int64())


def _element_key(value: object) -> tuple[tuple[bool, Any], ...]:
    assert isinstance(value, list)
    return tuple((each is not None, 0 if each is None else each) for each in value)
