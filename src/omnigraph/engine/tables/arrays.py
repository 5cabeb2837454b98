"""The border between Arrow arrays and NumPy arrays.

The type stubs of both libraries describe less than the libraries accept, so `Any` is kept here.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = "pa.Array[Any]"
Numbers: TypeAlias = "npt.NDArray[Any]"
Mask = npt.NDArray[np.bool_]

_NULL_ID: Final = pa.null().id

_TEXT_BYTES_MAX: Final = 2**31 - 1
"""The most text that the 32-bit offsets of a string column can address."""


def distinct(numbers: Numbers) -> Numbers:
    """Each number once, in ascending order. `np.unique` hashes, which takes ten times as long."""
    ordered = np.sort(numbers)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def nulls(count: int, kind: pa.DataType | None = None) -> Array:
    made: Any = pa
    return made.nulls(count, kind)  # type: ignore[no-any-return]


def is_null(column: Array) -> bool:
    """Is this a column of Arrow type null?"""
    return column.type.id == _NULL_ID  # type: ignore[no-any-return]


def array_of(numbers: Numbers, mask: Mask | None = None) -> Array:
    """NumPy values as a column, null where the mask is set."""
    kind = _KINDS.get(numbers.dtype) if mask is None else None
    if kind is None:
        return pa.array(numbers, mask=mask)
    # `pa.array` takes three times as long for few numbers.
    held: Any = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(held)])


def numbers_of(column: Array) -> Numbers:
    """A column without nulls as a NumPy array."""
    return np.asarray(column)


def gather(column: Array, at: Numbers) -> Array:
    """The values at these indices; null for -1."""
    count = len(at)
    if count == 1 and (place := int(at[0])) >= 0:
        # A copy: a slice would keep the whole column alive.
        return pa.concat_arrays([column.slice(place, 1)])
    if count and np.minimum.reduce(at) < 0:
        places: Any = array_of(at, at < 0)
        return column.take(places)
    # Ordinals are always in bounds, and a bounds check costs half as much as the take.
    return _TAKE.call([column, array_of(at)], _UNCHECKED)  # type: ignore[no-any-return]


_TAKE: Final[Any] = pc.get_function("array_take")
_UNCHECKED: Final = pc.TakeOptions(boundscheck=False)
_KINDS: Final[Any] = {
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.float64): pa.float64(),
}


def pick(column: Array, places: Numbers) -> Array:
    return _TAKE.call([column, array_of(places)])  # type: ignore[no-any-return]


def pick_rows(table: pa.Table, places: Numbers) -> pa.Table:
    indices: Any = pa.array(places)
    return table.take(indices)


def one_chunk(column: "pa.ChunkedArray[Any]") -> Array:
    if column.num_chunks == 1:
        only: Any = column.chunk(0)
        return only  # type: ignore[no-any-return]
    if pa.types.is_string(column.type) and column.nbytes > _TEXT_BYTES_MAX:
        column = column.cast(pa.large_string())
    whole: Any = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else whole.chunk(0)


def texts_of(column: "Array | pa.ChunkedArray[Any]") -> list[str]:
    """A column of ids; none of them is null."""
    listed: list[Any] = column.to_pylist()
    return listed
