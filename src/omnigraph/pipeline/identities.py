"""Ids for many rows at once: ULIDs, made as columns and not one by one."""

import os
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.effects import REAL, Effects

_ALPHABET: Final = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
_LENGTH: Final = 26
_TIME_BYTES: Final = 6
_RANDOM_BYTES: Final = 10
_DIGITS: Final = np.array([16, 8, 4, 2, 1], dtype=np.uint8)


def new_ids(count: int, effects: Effects = REAL) -> "pa.Array[Any]":
    """So many fresh ULIDs, all of this moment."""
    return encode_ulids(effects.now_ms(), os.urandom(count * _RANDOM_BYTES))


def encode_ulids(now_ms: int, entropy: bytes) -> "pa.Array[Any]":
    """One ULID for every ten bytes: 48 bits of time, then those, five bits to a character."""
    random = np.frombuffer(entropy, dtype=np.uint8).reshape(-1, _RANDOM_BYTES)
    count = len(random)
    time = np.frombuffer(now_ms.to_bytes(_TIME_BYTES, "big"), dtype=np.uint8)
    whole = np.hstack([np.broadcast_to(time, (count, _TIME_BYTES)), random])
    # 26 characters hold two bits more than there are; those two are zero, and come first.
    bits = np.pad(np.unpackbits(whole, axis=1), ((0, 0), (2, 0)))
    values = bits.reshape(count, _LENGTH, 5) @ _DIGITS
    characters = _ALPHABET[values].tobytes()
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(characters)]
    )
