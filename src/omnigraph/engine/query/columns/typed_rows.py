"""The rows of a variable that may have several types.

Ids are unique within a type only, so the rows of each type stay apart, and an ordinal says which
they are: of `n` types, ordinal `at * n + t` is row `at` of type `t`. So equal ordinals are the same
node here too, and operators that compare ordinals need not know of types.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.compiler.ir import TYPE_COLUMN
from omnigraph.engine.query.columns.frame import Bound, Frame
from omnigraph.engine.query.columns.rows import ID, UNBOUND, FetchedRows, Ordinals, Rows
from omnigraph.engine.tables.arrays import Array, Mask, gather, nulls, texts_of
from omnigraph.errors import UsageError

ORDINALS_MAX: Final = 2**31


class TypedRows:
    """Rows of several types. Each type has the rows with which it was bound first."""

    def __init__(self, types: tuple[str, ...]) -> None:
        self.types = types
        self._names = pa.array(types, pa.string())
        self._parts: list[Rows] = [UNBOUND for _ in types]

    def __len__(self) -> int:
        """Beyond every ordinal."""
        return len(self.types) * max(map(len, self._parts))

    # in and out

    def join(self, type_name: str, bound: Bound) -> Bound:
        """The same nodes of one type, as rows of this variable."""
        number = self.types.index(type_name)
        at = self._ordinals(number, bound)
        count = len(self.types)
        if len(at) and int(at.max()) >= ORDINALS_MAX // count:
            raise UsageError(
                f"{type_name} has too many rows to be one of {count} types of a variable;"
                " write one query for each type"
            )
        return Bound(self, np.where(at < 0, np.int32(-1), at * np.int32(count) + np.int32(number)))

    def part(self, type_name: str, bound: Bound) -> tuple[Mask, Bound]:
        """Which of these rows have this type, and what they are bound to among its own rows."""
        count = len(self.types)
        if type_name not in self.types:
            return np.zeros(len(bound.at), np.bool_), Bound(UNBOUND, bound.at[:0])
        number = self.types.index(type_name)
        mask = (bound.at >= 0) & (bound.at % count == number)
        return mask, Bound(self._parts[number], bound.at[mask] // np.int32(count))

    def _ordinals(self, number: int, bound: Bound) -> Ordinals:
        if bound.rows is UNBOUND:
            return bound.at
        if self._parts[number] is UNBOUND:
            self._parts[number] = bound.rows
        held = self._parts[number]
        if held is bound.rows:
            return bound.at
        ids = bound.rows.take(ID, bound.at)
        if isinstance(held, FetchedRows):
            held.fetch(texts_of(ids.drop_null()))
        return held.find(ids)

    # as rows

    def take(self, name: str, at: Ordinals) -> Array:
        count = len(self.types)
        number = np.where(at < 0, -1, at % count)
        if name == TYPE_COLUMN:
            return gather(self._names, number)
        if len(at) and number[0] >= 0 and (number == number[0]).all():
            return self._parts[int(number[0])].take(name, (at // count).astype(np.int32))
        pieces: list[Array] = []
        places = np.full(len(at), -1, np.int64)
        taken = 0
        for each, rows in enumerate(self._parts):
            mine = np.flatnonzero(number == each)
            if len(mine):
                pieces.append(rows.take(name, (at[mine] // count).astype(np.int32)))
                places[mine] = np.arange(taken, taken + len(mine))
                taken += len(mine)
        if not pieces:
            return nulls(len(at))
        whole = pa.concat_arrays([each.cast(pieces[0].type) for each in pieces])
        return gather(whole, places)

    def find(self, ids: Array) -> Ordinals:
        assert len(self.types) == 1, "an id names a node of one type"
        return self._parts[0].find(ids)


def rows_of_type(frame: Frame, variable: str, type_name: str) -> Frame:
    """The rows that bind a variable to this type, bound to the rows of the type."""
    bound = frame.bound[variable]
    if not isinstance(bound.rows, TypedRows):
        return frame
    mask, own = bound.rows.part(type_name, bound)
    return frame.keep(mask).bind({variable: own})
