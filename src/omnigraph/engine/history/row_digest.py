"""The content of a row in 32 bytes: two rows have equal digests exactly if their content is equal.

A digest starts with the names and types of all columns. Each cell has a null flag and a length, so
bytes cannot move between cells. All NaNs are equal, and both zeros are equal. A vector counts by
its raw bytes. A Blob counts by its bytes, wherever the table stores them; an external Blob by its
address.
"""

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NULL: Final = b"\x00"
_NAN: Final = math.nan

Payload = Callable[[Any], bytes]


def digest_rows(rows: pa.Table) -> list[bytes]:
    """One digest per row. Blobs are structs of `data` and `uri`, as a write takes them."""
    names = sorted(rows.column_names)
    heading = hashlib.sha256()
    for name in names:
        heading.update(_prefixed(name.encode()))
        heading.update(_prefixed(str(rows.schema.field(name).type).encode()))
    columns = [_spell(rows[name].combine_chunks()) for name in names]
    digests = []
    for cells in zip(*columns, strict=True):
        row = heading.copy()
        row.update(b"".join(cells))
        digests.append(row.digest())
    return digests


def differ(left: pa.Table, right: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """For each pair of rows, whether their digests differ. Both tables have the same columns.

    Whole columns are compared, which is many times faster than encoding cells. Only lists and
    blobs are encoded.
    """
    differs = np.zeros(left.num_rows, np.bool_)
    for name in left.column_names:
        differs |= _differ(left[name].combine_chunks(), right[name].combine_chunks())
    return differs


def _differ(left: "pa.Array[Any]", right: "pa.Array[Any]") -> "np.ndarray[Any, np.dtype[np.bool_]]":
    of = left.type
    assert of == right.type, "a column has one type"
    if pa.types.is_list(of) or pa.types.is_struct(of):
        pairs = zip(_spell(left), _spell(right), strict=True)
        return np.fromiter((one != two for one, two in pairs), np.bool_, len(left))
    is_there, is_here = _is_valid(left), _is_valid(right)
    if pa.types.is_fixed_size_list(of):
        is_unlike = _bits(left, of.list_size) != _bits(right, of.list_size)
        is_other = np.asarray(is_unlike.any(axis=1), np.bool_)
    else:
        one, two = _viewed(left, of), _viewed(right, of)
        same = pc.equal(one, two)
        if pa.types.is_floating(of):
            same = pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(two)))
        is_other = ~np.asarray(same.fill_null(True).to_numpy(zero_copy_only=False), np.bool_)
    return np.where(is_there & is_here, is_other, is_there != is_here)


def _is_valid(column: "pa.Array[Any]") -> "np.ndarray[Any, np.dtype[np.bool_]]":
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_)


def _bits(vectors: "pa.Array[Any]", dimension: int) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Vectors as raw integers, one per line; a null vector has an arbitrary line."""
    assert isinstance(vectors, pa.FixedSizeListArray)
    flat = vectors.values.slice(vectors.offset * dimension, len(vectors) * dimension)
    numbers = flat.to_numpy(zero_copy_only=False).astype("<f4", copy=False)
    return numbers.view(np.uint32).reshape(len(vectors), dimension)


def _prefixed(payload: bytes) -> bytes:
    return len(payload).to_bytes(8, "little") + payload


def _cell(payload: bytes | None) -> bytes:
    return _NULL if payload is None else b"\x01" + _prefixed(payload)


def _spell(column: "pa.Array[Any]") -> Iterable[bytes]:
    of = column.type
    if pa.types.is_fixed_size_list(of):
        return _spell_vectors(column, of.list_size)
    if pa.types.is_list(of):
        payload = _payload_of(of.value_type)
        items = _viewed(column, of.value_type).to_pylist()
        return [_cell(None if each is None else _list(each, payload)) for each in items]
    payload = _payload_of(of)
    cells = _viewed(column, of).to_pylist()
    return [_cell(None if each is None else payload(each)) for each in cells]


def _list(items: Sequence[object], payload: Payload) -> bytes:
    return b"".join(_cell(None if each is None else payload(each)) for each in items)


def _viewed(column: "pa.Array[Any]", of: pa.DataType) -> "pa.Array[Any]":
    """Dates and instants as integers; Arrow would cut an instant down to its day."""
    carrier = pa.int32() if pa.types.is_date32(of) else pa.int64()
    if not pa.types.is_date(of):
        return column
    return column.view(pa.list_(carrier) if pa.types.is_list(column.type) else carrier)


def _spell_vectors(column: "pa.Array[Any]", dimension: int) -> Iterable[bytes]:
    if column.null_count:
        for each in column.to_pylist():
            yield _cell(None if each is None else struct.pack(f"<{dimension}f", *each))
        return
    flat = pc.list_flatten(column)
    raw = memoryview(flat.to_numpy(zero_copy_only=False).astype("<f4", copy=False).tobytes())
    size = 4 * dimension
    for at in range(0, len(raw), size):
        yield _cell(bytes(raw[at : at + size]))


def _payload_of(of: pa.DataType) -> Payload:
    if pa.types.is_string(of) or pa.types.is_large_string(of):
        return str.encode
    if pa.types.is_float64(of):
        return lambda value: struct.pack("<d", _canonical(value))
    if pa.types.is_float32(of):
        return lambda value: struct.pack("<f", _canonical(value))
    if pa.types.is_struct(of):
        return _blob
    if pa.types.is_boolean(of):
        return lambda value: b"\x01" if value else b"\x00"
    assert pa.types.is_integer(of) or pa.types.is_date(of), f"no column holds {of}"
    return lambda value: int(value).to_bytes(9, "little", signed=True)


def _canonical(value: float) -> float:
    return _NAN if math.isnan(value) else value + 0.0


def _blob(cell: dict[str, Any]) -> bytes:
    if cell["uri"] is not None:
        return b"u" + str(cell["uri"]).encode()
    return b"d" + hashlib.sha256(cell["data"] or b"").digest()
