"""Cross joins, and joins of a block with the rows around it.

A block runs once per morsel, over the distinct bindings that it depends on. Each binding carries a
number under a variable name that no query can contain. The rows of the block are joined by number.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.compiler import plan
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.frame import ROWS_MAX, Bound, Frame, concat, pieces_of
from omnigraph.engine.query.columns.rows import UNBOUND, Ordinals
from omnigraph.engine.query.operators.execution import Execution, Frames
from omnigraph.engine.tables.arrays import Mask

Places = npt.NDArray[np.int64]
RunInner = Callable[[Frame], Frames]

NUMBER: Final = "#"
"""The variable that holds the number of a binding."""


@dataclass(frozen=True, slots=True)
class DistinctBindings:
    """The distinct bindings of some variables, and the number of the binding of each row."""

    frame: Frame
    of_row: Places

    @property
    def count(self) -> int:
        return self.frame.count


def cross_join(left: Frames, right: Frames, execution: Execution) -> Frames:
    held = [execution.memory.hold_frame("cross join", each) for each in right]
    if not held:
        return
    other = concat(held)
    for frame in left:
        rows_max = max(1, ROWS_MAX // other.count)
        for start in range(0, frame.count, rows_max):
            check_cancelled()
            part = frame.slice(start, start + rows_max)
            for theirs in pieces_of(other, ROWS_MAX):
                mine = part.pick(np.repeat(np.arange(part.count), theirs.count))
                yield mine.bind(theirs.pick(np.tile(np.arange(theirs.count), part.count)).bound)
    for each in held:
        execution.memory.release(each.nbytes)


def anti_join(operator: plan.AntiJoin, frames: Frames, run_inner: RunInner) -> Frames:
    for frame in frames:
        given = give(frame, operator.on)
        kept = frame.keep(~_is_matched(given, run_inner)[given.of_row])
        if kept.count:
            yield kept


def semi_join(operator: plan.SemiJoin, frames: Frames, run_inner: RunInner) -> Frames:
    for frame in frames:
        given = give(frame, operator.on)
        kept = frame.keep(_is_matched(given, run_inner)[given.of_row])
        if kept.count:
            yield kept


def _is_matched(given: DistinctBindings, run_inner: RunInner) -> Mask:
    """For each binding: does the block yield a row?"""
    found = np.zeros(given.count, np.bool_)
    for inner in run_inner(given.frame):
        check_cancelled()
        found[inner.bound[NUMBER].at] = True
        if found.all():
            break
    return found


def left_join(
    operator: plan.LeftJoin, frames: Frames, run_inner: RunInner, execution: Execution
) -> Frames:
    for frame in frames:
        given = give(frame, operator.on)
        hold = execution.memory.hold_frame
        inner = [hold("left join", each) for each in run_inner(given.frame)]
        yield from _with_matches(operator, frame, given, inner)
        execution.memory.release(sum(each.nbytes for each in inner))


def _with_matches(
    operator: plan.LeftJoin, frame: Frame, given: DistinctBindings, inner: list[Frame]
) -> Iterator[Frame]:
    if not inner:
        unbound = Bound(UNBOUND, np.full(frame.count, -1, np.int32))
        yield frame.bind(dict.fromkeys(operator.binds, unbound))
        return
    matches = concat(inner)
    numbers = matches.bound[NUMBER].at
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers, minlength=given.count)
    firsts = np.cumsum(counts) - counts
    for start in range(0, frame.count, ROWS_MAX):
        check_cancelled()
        part = frame.slice(start, start + ROWS_MAX)
        of_row = given.of_row[start : start + ROWS_MAX]
        rows, places = _pair(of_row, counts, firsts)
        found = np.where(places < 0, -1, order[places])
        binds = {name: matches.bound[name].pick_or_unbound(found) for name in operator.binds}
        yield part.pick(rows).bind(binds)


def _pair(of_row: Places, counts: Places, firsts: Places) -> tuple[Places, Places]:
    """Each row with each of its matches; -1 for a row without a match."""
    found = counts[of_row]
    times = np.maximum(found, 1)
    rows = np.repeat(np.arange(len(of_row)), times)
    before = np.cumsum(times) - times
    places = np.arange(len(rows)) + np.repeat(firsts[of_row] - before, times)
    return rows, np.where(found[rows] == 0, -1, places)


def give(frame: Frame, on: tuple[str, ...]) -> DistinctBindings:
    if not on:
        return DistinctBindings(_numbered(Frame(1, {})), np.zeros(frame.count, np.int64))
    firsts, of_row = distinct([frame.bound[name].at for name in on])
    return DistinctBindings(_numbered(frame.only(on).pick(firsts)), of_row)


def _numbered(frame: Frame) -> Frame:
    numbers = Bound(UNBOUND, np.arange(frame.count, dtype=np.int32))
    return frame.bind({NUMBER: numbers})


def distinct(columns: list[Ordinals]) -> tuple[Places, Places]:
    """The first row of each distinct combination, and the combination of every row."""
    codes = columns[0].astype(np.int64) + 1
    for column in columns[1:]:
        # Renumbered each time, so that the combined code fits into 64 bits.
        codes = np.unique(codes, return_inverse=True)[1]
        codes = (codes << 32) | (column.astype(np.int64) + 1)
    _, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
    return firsts, numbers
