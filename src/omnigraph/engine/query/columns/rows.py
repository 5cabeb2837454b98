"""The rows of one table, by ordinal.

`ResidentRows` are columns of the whole table; an ordinal is a position in scan order. They never
change, and all reads of one table version share them. `FetchedRows` are the rows that one
execution fetched, numbered in the order they arrived. In both, an ordinal stands for one id, so
ordinals of the same rows are compared instead of ids. An ordinal of -1 is an unbound variable: all
its values are null.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from threading import RLock
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.cancellation import waiting_for
from omnigraph.engine.tables.arrays import (
    Array,
    array_of,
    gather,
    nulls,
    numbers_of,
    one_chunk,
    pick,
    pick_rows,
    texts_of,
)

Ordinals = npt.NDArray[np.int32]

ID: Final = "id"

_FEW: Final = 64
_FEWER: Final = 1024
"""Up to so many ids, or one per so many rows, are found faster by binary search each."""

_SOME: Final = 4
"""Up to one id per so many rows, the ids are hashed and all rows are probed against them."""

_SAMPLED_EACH: Final = 16
"""One of so many sorted ids is sampled. Listing the ids between two samples takes 1 µs."""

_ASKED_MAX: Final = 16
"""So many ids are searched for without a sample, which takes as long as 30 searches to make."""

_TEXT_BYTES: Final = 72
"""What Python takes for a short text."""


class Rows(Protocol):
    def __len__(self) -> int: ...
    def take(self, name: str, at: Ordinals) -> Array:
        """The values of a column; null for the ordinal -1."""
        ...

    def find(self, ids: Array) -> Ordinals:
        """The ordinals of these ids; -1 for a missing id."""
        ...


class UnboundRows:
    """The rows of a variable that no row binds."""

    def __len__(self) -> int:
        return 0

    def take(self, name: str, at: Ordinals) -> Array:  # noqa: ARG002 - every column is the same
        return nulls(len(at))

    def find(self, ids: Array) -> Ordinals:
        return np.full(len(ids), -1, np.int32)


UNBOUND: Final = UnboundRows()

ReadColumns = Callable[[Sequence[str]], pa.Table]
"""Whole columns of a table, in the order of a scan."""

Kept = Callable[[str], Mapping[str, Array] | None]
"""What is kept of a table beside it, by the name of a file; None if nothing is."""

ORDER: Final = "order"
"""The file of the ids in order; the file of a column is named by `column_file`."""


def column_file(name: str) -> str:
    return f"column {name}"


ReadByIds = Callable[[Collection[str], Sequence[str]], pa.Table]
"""These columns of the rows that have one of the ids."""


class ResidentRows:
    """Columns of a whole table, each read on first use. Safe to share among threads."""

    def __init__(self, row_count: int, read: ReadColumns, kept: Kept | None = None) -> None:
        self._row_count = row_count
        self._read = read
        self._kept = kept
        self._columns: dict[str, Array] = {}
        self._coded: dict[str, pa.DictionaryArray[Any, Any]] = {}
        self._lock = RLock()
        self._ordered: _OrderedIds | None = None

    def __len__(self) -> int:
        return self._row_count

    @property
    def nbytes(self) -> int:
        held = sum(each.nbytes for each in list(self._columns.values()))
        held += sum(each.nbytes for each in list(self._coded.values()))
        return held + (0 if self._ordered is None else self._ordered.nbytes)

    def has(self, names: Collection[str]) -> bool:
        return self._columns.keys() >= set(names)

    def load(self, names: Collection[str]) -> None:
        """Read those of the columns that are missing, in one scan."""
        if self._columns.keys() >= set(names):
            return
        with waiting_for(self._lock):
            for name in names:
                self._map(name)
            missing = [name for name in dict.fromkeys(names) if name not in self._columns]
            if missing:
                table = self._read(missing)
                assert table.num_rows == self._row_count, (
                    "a version has the row count of its manifest"
                )
                for name in missing:
                    self._columns[name] = one_chunk(table[name])

    def load_to_find(self, names: Collection[str]) -> None:
        """Read columns, and the ids in the same scan unless they are kept in order."""
        if self._ordered is None and ID not in self._columns:
            with waiting_for(self._lock):
                self._map_order()
        self.load(names if self._ordered is not None else (ID, *names))

    def _map(self, name: str) -> None:
        if name not in self._columns:
            found = ((self._kept and self._kept(column_file(name))) or {}).get(name)
            if found is not None and len(found) == self._row_count:
                self._columns[name] = found

    def column(self, name: str) -> Array:
        if name not in self._columns:
            self.load((name,))
        return self._columns[name]

    def take(self, name: str, at: Ordinals) -> Array:
        return gather(self.column(name), at)

    def is_coded(self, name: str) -> bool:
        return name in self._coded

    def coded(self, name: str) -> "pa.DictionaryArray[Any, Any]":
        """A column, dictionary-encoded."""
        if name not in self._coded:
            column = self.column(name)
            with waiting_for(self._lock):
                self._coded[name] = column.dictionary_encode()
        return self._coded[name]

    def find_texts(self, ids: Sequence[str]) -> Ordinals:
        if self._are_few(ids):
            return np.array([self.find_one(each) for each in ids], np.int32)
        return self.find(pa.array(ids, pa.string()))

    def _are_few(self, ids: Sized) -> bool:
        return len(ids) <= _FEW or len(ids) <= self._row_count // _FEWER

    def find(self, ids: Array) -> Ordinals:
        if self._are_few(ids):
            return np.array([self.find_one(each) for each in ids.to_pylist()], np.int32)
        held = self.column(ID)
        if len(ids) <= self._row_count // _SOME:
            return self._find_some(ids.cast(held.type).dictionary_encode())
        found = pc.index_in(ids.cast(held.type), value_set=held)
        return numbers_of(found.fill_null(-1)).astype(np.int32)

    def _find_some(self, ids: "pa.DictionaryArray[Any, Any]") -> Ordinals:
        """Hashing the few wanted ids takes a tenth of the time of hashing all ids."""
        met = pc.index_in(self.column(ID), value_set=ids.dictionary)
        at = np.flatnonzero(numbers_of(met.is_valid()))
        places = np.full(len(ids.dictionary) + 1, -1, np.int32)
        places[numbers_of(met.drop_null())] = at
        return places[numbers_of(ids.indices.fill_null(-1))]

    def find_one(self, wanted: str | None) -> int:
        """Binary search over the sorted ids."""
        if wanted is None or not self._row_count:
            return -1
        ordered = self._ordered or self._put_in_order()
        return ordered.find(wanted)

    def find_in_order(self, ids: Array) -> Ordinals:
        """The ordinals of some ids, by binary search; -1 for a missing id."""
        return (self._ordered or self._put_in_order()).find_all(ids)

    def _put_in_order(self) -> "_OrderedIds":
        with waiting_for(self._lock):
            self._map_order()
            if self._ordered is None:
                ids = self.column(ID)
                order = numbers_of(pc.sort_indices(ids)).astype(np.int32)
                self._ordered = _OrderedIds(pick(ids, order), order)
            return self._ordered

    def _map_order(self) -> None:
        if self._ordered is None:
            kept = self._kept and self._kept(ORDER)
            if kept is not None and len(kept[ID]) == self._row_count:
                self._ordered = _OrderedIds(kept[ID], numbers_of(kept[ORDER]))

    def order(self) -> Mapping[str, Array]:
        """The ids in order and where they stand, for the file `ORDER`."""
        return (self._ordered or self._put_in_order()).arrays


class _OrderedIds:
    """The ids of a table in order, and where each of them stands.

    Once some were looked up, a sample of them is searched first, without Arrow.
    """

    def __init__(self, ids: Array, order: Ordinals) -> None:
        self._ids, self._order = ids, order
        self._sample: list[str] | None = None
        self._asked = 0

    @property
    def nbytes(self) -> int:
        return self._ids.nbytes + self._order.nbytes + _TEXT_BYTES * len(self._sample or ())

    @property
    def arrays(self) -> Mapping[str, Array]:
        return {ORDER: array_of(self._order), ID: self._ids}

    def find(self, wanted: str) -> int:
        """The ordinal of an id; -1 if it is missing."""
        # Arrow orders texts by their bytes in UTF-8, which is the order of Python's texts.
        if self._sample is None:
            if self._asked < _ASKED_MAX:
                self._asked += 1
                return self._find_among_all(wanted)
            self._sample = texts_of(pick(self._ids, np.arange(0, len(self._ids), _SAMPLED_EACH)))
        start = (bisect_right(self._sample, wanted) - 1) * _SAMPLED_EACH
        if start < 0:
            return -1
        texts: list[Any] = self._ids.slice(start, _SAMPLED_EACH).to_pylist()
        place = bisect_left(texts, wanted)
        is_there = place < len(texts) and texts[place] == wanted
        return int(self._order[start + place]) if is_there else -1

    def _find_among_all(self, wanted: str) -> int:
        ids: Any = self._ids
        place = bisect_left(range(len(ids)), wanted, key=lambda at: ids[at].as_py())
        is_there = place < len(ids) and ids[place].as_py() == wanted
        return int(self._order[place]) if is_there else -1

    def find_all(self, wanted: Array) -> Ordinals:
        """The ordinals of ids, each step of the search for all of them at once."""
        if not len(self._ids):
            return np.full(len(wanted), -1, np.int32)
        last, texts = len(self._ids) - 1, wanted.cast(self._ids.type)
        low = np.zeros(len(wanted), np.int64)
        high = np.full(len(wanted), len(self._ids))
        while (is_open := low < high).any():
            middle = (low + high) // 2
            met = pick(self._ids, np.minimum(middle, last))
            is_less = pc.less(met, texts).to_numpy(zero_copy_only=False)
            low = np.where(is_open & is_less, middle + 1, low)
            high = np.where(is_open & ~is_less, middle, high)
        place = np.minimum(low, last)
        is_there = pc.equal(pick(self._ids, place), texts).to_numpy(zero_copy_only=False)
        return np.where(is_there, self._order[place], -1).astype(np.int32)


class FetchedRows:
    """Rows fetched by one execution, each id once."""

    def __init__(
        self,
        read_by_ids: ReadByIds,
        columns: Sequence[str],
        late: Sequence[str] = (),
        late_above: int = 0,
    ) -> None:
        """`late` columns are fetched too, unless the first fetch is of more than `late_above`."""
        self._read_by_ids = read_by_ids
        self._columns = tuple(dict.fromkeys((ID, *columns)))
        self._late = tuple(late)
        self._late_above = late_above
        self._parts: list[pa.Table] = []
        self._whole: pa.Table | None = None
        self._count = 0
        self._places: dict[str, int] | None = {}

    def __len__(self) -> int:
        return self._count

    @property
    def columns(self) -> tuple[str, ...]:
        return self._columns

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._parts)

    def has(self, names: Collection[str]) -> bool:
        return set(names) <= set(self._columns)

    def append(self, part: pa.Table) -> Ordinals:
        """Add rows whose ids are all new; return their ordinals."""
        start = self._count
        self._parts.append(self._columns_of(part))
        self._count += part.num_rows
        self._whole = None
        self._places = None
        return np.arange(start, self._count, dtype=np.int32)

    def add(self, part: pa.Table) -> Ordinals:
        """Add rows, of which some ids may be known; return their ordinals."""
        places = self._known()
        fresh: list[int] = []
        at = np.empty(part.num_rows, np.int32)
        for number, each in enumerate(texts_of(part[ID])):
            place = places.get(each)
            if place is None:
                place = places[each] = self._count + len(fresh)
                fresh.append(number)
            at[number] = place
        if fresh:
            self._parts.append(pick_rows(self._columns_of(part), np.array(fresh)))
            self._count += len(fresh)
            self._whole = None
        return at

    def fetch(self, ids: Collection[str]) -> None:
        """Fetch the rows of those ids that are missing here and exist."""
        known = self._known()
        missing = [each for each in dict.fromkeys(ids) if each not in known]
        if not self._count and len(missing) <= self._late_above:
            self._columns = tuple(dict.fromkeys((*self._columns, *self._late)))
        if missing:
            self.add(self._read_by_ids(missing, self._columns))

    def take(self, name: str, at: Ordinals) -> Array:
        if name not in self._columns:
            self._widen(name)
        if not self._count:
            return nulls(len(at))
        return gather(one_chunk(self._table()[name]), at)

    def find(self, ids: Array) -> Ordinals:
        return self.find_texts(texts_of(ids))

    def find_texts(self, ids: Sequence[str]) -> Ordinals:
        places = self._known()
        return np.array([places.get(each, -1) for each in ids], np.int32)

    def _columns_of(self, part: pa.Table) -> pa.Table:
        """By name and type alone: whether a field may be null differs between reads."""
        return pa.table({name: part[name] for name in self._columns})

    def _known(self) -> dict[str, int]:
        if self._places is None:
            ids = texts_of(self._table()[ID])
            self._places = {each: at for at, each in enumerate(ids)}
        return self._places

    def _table(self) -> pa.Table:
        if self._whole is None:
            self._whole = pa.concat_tables(self._parts).combine_chunks()
            self._parts = [self._whole]
        return self._whole

    def _widen(self, name: str) -> None:
        """Fetch a column that was not requested at the start."""
        columns = (*self._columns, name)
        if self._count:
            held = self._table()
            ids = texts_of(held[ID])
            read = self._read_by_ids(ids, (ID, name))
            places = {each: at for at, each in enumerate(texts_of(read[ID]))}
            order = [places[each] for each in ids]
            self._whole = held.append_column(name, read[name].take(order))
            self._parts = [self._whole]
        self._columns = columns
