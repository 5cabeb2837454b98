"""Texts in buckets: equal texts are in the same bucket, so each bucket can be checked on its own.

A task sorts the keys of its rows into buckets as it writes them, and a check of one bucket reads
that bucket of every file. Some bytes of a text decide its bucket. If those bytes are equal in all
texts, one bucket gets them all, which is slow and correct.

Where a check needs the row that holds a text, a second column lies beside it, in the same order.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

BUCKETS_MAX: Final = 256
"""More buckets would be too small to pay for a task."""

_WORD: Final = 8
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype=np.uint64)
_PLACES: Final = 4
"""A word from the beginning, from the end, and from so many places between, less one."""
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_EMPTY: Final = pa.array([], pa.string())
PAIR: Final = pa.schema([pa.field("text", pa.string()), pa.field("partner", pa.string())])
_SCHEMA: Final = pa.schema([pa.field("text", pa.string())])


def find_buckets(texts: "pa.Array[Any]", count: int) -> "np.ndarray[Any, np.dtype[np.int16]]":
    """The bucket of each text, from 0 to before `count`. None may be null."""
    _, bounds, data = texts.buffers()
    if not len(texts) or bounds is None or data is None:
        return np.zeros(len(texts), dtype=np.int16)
    offsets = np.frombuffer(memoryview(bounds), dtype=np.int32)
    offsets = offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    starts, sizes = offsets[:-1], np.diff(offsets)
    # A word may be read at any byte, so the buffer is padded behind the last text.
    padded = np.zeros(data.size + _WORD, dtype=np.uint8)
    padded[: data.size] = np.frombuffer(memoryview(data), dtype=np.uint8)
    words = np.ndarray((data.size + 1,), dtype="<u8", buffer=padded.data, strides=(1,))
    short = np.minimum(sizes, _WORD)
    masks, room = _MASKS[short], sizes - short
    mixed = sizes.astype(np.uint64)
    for place in range(_PLACES + 1):
        mixed ^= words[starts + room * place // _PLACES] & masks
        mixed *= _FACTOR
        mixed ^= mixed >> np.uint64(29)
    return ((mixed >> np.uint64(40)) * np.uint64(count) >> np.uint64(24)).astype(np.int16)


@dataclass(frozen=True, slots=True)
class BucketOrder:
    """Where texts are to be found, bucket by bucket, and how many are in each."""

    positions: "np.ndarray[Any, np.dtype[np.int64]] | None"
    """None if they are in order as they are."""
    sizes: Sequence[int]

    @classmethod
    def of(cls, texts: "pa.Array[Any]", count: int) -> Self:
        if count == 1:
            return cls(None, [len(texts)])
        buckets = find_buckets(texts, count)
        sizes = np.bincount(buckets, minlength=count).tolist()
        return cls(np.argsort(buckets, kind="stable"), sizes)

    def sort(self, texts: "pa.Array[Any]") -> Iterator["pa.Array[Any]"]:
        """The texts of each bucket, or their partners."""
        ordered = texts if self.positions is None else texts.take(self.positions)
        begin = 0
        for size in self.sizes:
            yield ordered.slice(begin, size)
            begin += size


@dataclass(frozen=True, slots=True)
class BucketColumn:
    """The texts of one column, in the buckets of another column, or in its own."""

    column: str
    by: str


def own_buckets(*columns: str) -> tuple[BucketColumn, ...]:
    """Columns, each in its own buckets."""
    return tuple(BucketColumn(each, each) for each in columns)


class BucketWriter:
    """Some columns of texts; of each, every write adds one batch to every bucket."""

    def __init__(self, path: Path, columns: Sequence[BucketColumn], count: int) -> None:
        self._path = path
        self._columns = tuple(columns)
        self._count = count
        self._writer: pa.RecordBatchFileWriter | None = None

    def write(self, rows: pa.Table, *, without: Collection[str] = ()) -> None:
        """Nulls are left out, and so are the buckets of columns that no check reads."""
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._path), _SCHEMA)
        orders: dict[str, BucketOrder] = {}
        for each in self._columns:
            some = rows.slice(0, 0) if each.by in without else rows
            if each.by not in orders:
                orders[each.by] = BucketOrder.of(_joined(some[each.by].drop_null()), self._count)
            texts = some[each.column]
            if some[each.by].null_count:
                texts = texts.filter(some[each.by].is_valid())
            for part in orders[each.by].sort(_joined(texts)):
                self._writer.write_batch(pa.record_batch([part], schema=_SCHEMA))

    def close(self) -> str | None:
        """Where it is; None if nothing was written."""
        if self._writer is None:
            return None
        self._writer.close()
        return str(self._path)


def _joined(column: "pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    return (
        column.chunks[0] if column.num_chunks == 1 else pa.concat_arrays([_EMPTY, *column.chunks])
    )


@dataclass(frozen=True, slots=True)
class BucketTexts:
    """One column of some bucket files, as it is sent to a task."""

    files: tuple[str, ...]
    columns: tuple[BucketColumn, ...]
    """All columns of these files."""
    column: BucketColumn
    row_count: int

    def read(self, bucket: int, count: int) -> "list[pa.Array[Any]]":
        """The texts of one bucket, as memory maps of the files."""
        first = self.columns.index(self.column) * count + bucket
        found: list[pa.Array[Any]] = []
        for path in self.files:
            file = pa.ipc.open_file(pa.memory_map(path))
            batches = range(first, file.num_record_batches, len(self.columns) * count)
            found += [file.get_batch(number).column(0) for number in batches]
        return found


@dataclass(frozen=True, slots=True)
class BucketPairs:
    """Texts, and beside each its partner."""

    texts: BucketTexts
    partners: BucketTexts

    def read(self, bucket: int, count: int) -> pa.Table:
        texts = pa.chunked_array(self.texts.read(bucket, count), pa.string())
        partners = pa.chunked_array(self.partners.read(bucket, count), pa.string())
        assert len(texts) == len(partners), "no text is without a partner"
        return pa.table([texts, partners], schema=PAIR)
