"""A morsel of rows: for each variable, the table rows that it is bound to."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.columns.rows import UNBOUND, Ordinals, Rows
from omnigraph.engine.tables.arrays import Array, Mask

ROWS_MAX: Final = 1 << 18
"""Rows of a morsel: enough to amortise Python, few enough for the CPU cache."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The ordinals that a variable is bound to, one per row."""

    rows: Rows
    at: Ordinals

    def pick(self, places: "npt.NDArray[np.integer[Any]] | Mask") -> "Bound":
        return Bound(self.rows, self.at[places])

    def pick_or_unbound(self, places: "npt.NDArray[np.integer[Any]]") -> "Bound":
        """Unbound where the index is -1."""
        if not len(self.at):
            return Bound(self.rows, np.full(len(places), -1, np.int32))
        return Bound(self.rows, np.where(places < 0, np.int32(-1), self.at[places]))


@dataclass(frozen=True, slots=True)
class Frame:
    count: int
    bound: Mapping[str, Bound]

    def column(self, variable: str, name: str) -> Array:
        """The values of a property, or of `id`."""
        bound = self.bound[variable]
        return bound.rows.take(name, bound.at)

    def pick(self, places: "npt.NDArray[np.integer[Any]] | Mask") -> "Frame":
        """Some rows, by index or by mask."""
        count = int(places.sum()) if places.dtype == np.bool_ else len(places)
        return Frame(count, {name: each.pick(places) for name, each in self.bound.items()})

    def keep(self, mask: Mask) -> "Frame":
        return self if mask.all() else self.pick(np.flatnonzero(mask))

    def slice(self, start: int, stop: int | None) -> "Frame":
        if start <= 0 and (stop is None or stop >= self.count):
            return self
        cut = {name: Bound(each.rows, each.at[start:stop]) for name, each in self.bound.items()}
        return Frame(len(range(self.count)[start:stop]), cut)

    def only(self, variables: Collection[str]) -> "Frame":
        return Frame(self.count, {name: self.bound[name] for name in variables})

    def without_unread(self, kept: Collection[str] | None) -> "Frame":
        """The variables that are read later; None keeps all."""
        if kept is None:
            return self
        left = {name: each for name, each in self.bound.items() if name in kept}
        return self if len(left) == len(self.bound) else Frame(self.count, left)

    def bind(self, more: Mapping[str, Bound]) -> "Frame":
        return Frame(self.count, {**self.bound, **more})

    @property
    def nbytes(self) -> int:
        return sum(each.at.nbytes for each in self.bound.values())


ONE_ROW: Final = Frame(1, {})


def pieces_of(frame: Frame, rows_max: int) -> Iterator[Frame]:
    for start in range(0, frame.count, rows_max):
        yield frame.slice(start, start + rows_max)


def concat(frames: Sequence[Frame]) -> Frame:
    """Concatenates frames of the same variables."""
    if len(frames) == 1:
        return frames[0]
    names = frames[0].bound
    return Frame(
        sum(each.count for each in frames),
        {name: _concat_bound([each.bound[name] for each in frames]) for name in names},
    )


def _concat_bound(parts: Sequence[Bound]) -> Bound:
    """An optional block may bind a variable in one morsel and in no row of another."""
    rows = next((each.rows for each in parts if each.rows is not UNBOUND), UNBOUND)
    assert all(each.rows in (rows, UNBOUND) for each in parts), "a variable has one kind of rows"
    return Bound(rows, np.concatenate([each.at for each in parts]))
