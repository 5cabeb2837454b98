"""Arrow arrays and NumPy arrays, each where it is better: the border between the two.

The types of the libraries do not describe all that they accept, so what is loose is loose here.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = "pa.Array[Any]"
Numbers: TypeAlias = "npt.NDArray[Any]"
Mask = npt.NDArray[np.bool_]

_TEXT_BYTES_MAX: Final = 2**31 - 1
"""What the offsets of a plain string column can address."""


def nulls(count: int, kind: pa.DataType | None = None) -> Array:
    made: Any = pa
    return made.nulls(count, kind)  # type: ignore[no-any-return]


def is_null(column: Array) -> bool:
    """Does it have nothing but nulls, and no type to speak of?"""
    return pa.types.is_null(column.type)


def array_of(numbers: Numbers, mask: Mask | None = None) -> Array:
    """Numbers as a column, null where the mask is set."""
    return pa.array(numbers, mask=mask)


def numbers_of(column: Array) -> Numbers:
    """A column without nulls as numbers."""
    return np.asarray(column)


def gather(column: Array, at: Numbers) -> Array:
    """The values at these places; null for -1."""
    if len(at) and at.min() < 0:
        places: Any = array_of(at, at < 0)
        return column.take(places)
    # Ordinals are in bounds by their making; looking again costs half as much as taking.
    return pc.take(column, array_of(at), boundscheck=False)


def pick(column: Array, places: Numbers) -> Array:
    indices: Any = pa.array(places)
    return column.take(indices)


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
