"""Ids for many rows at once: ULIDs, made as columns and not one by one."""

import os
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.effects import REAL, Effects

_ALPHABET: Final = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
_LENGTH: Final = 26
_TIME_LENGTH: Final = 10
_RANDOM_BYTES: Final = 10


def new_ids(count: int, effects: Effects = REAL) -> "pa.Array[Any]":
    """`count` new ULIDs with the time of this moment."""
    return encode_ulids(effects.now_ms(), os.urandom(count * _RANDOM_BYTES))


def encode_ulids(now_ms: int, entropy: bytes) -> "pa.Array[Any]":
    """One ULID for every ten bytes: the time in ten characters, then those, in sixteen."""
    groups = np.frombuffer(entropy, dtype=np.uint8).reshape(-1, 2, 5)
    count = len(groups)
    whole = np.empty((count, _LENGTH), dtype=np.uint8)
    for place in range(_TIME_LENGTH):
        whole[:, place] = (now_ms >> 5 * (_TIME_LENGTH - 1 - place)) & 31
    # Five bytes are eight characters of five bits, each from one byte or from two neighbours.
    a, b, c, d, e = (groups[:, :, place] for place in range(5))
    bits = np.empty((count, 2, 8), dtype=np.uint8)
    bits[:, :, 0] = a >> 3
    bits[:, :, 1] = (a & 7) << 2 | b >> 6
    bits[:, :, 2] = b >> 1 & 31
    bits[:, :, 3] = (b & 1) << 4 | c >> 4
    bits[:, :, 4] = (c & 15) << 1 | d >> 7
    bits[:, :, 5] = d >> 2 & 31
    bits[:, :, 6] = (d & 3) << 3 | e >> 5
    bits[:, :, 7] = e & 31
    whole[:, _TIME_LENGTH:] = bits.reshape(count, 16)
    characters = _ALPHABET[whole].tobytes()
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(characters)]
    )
