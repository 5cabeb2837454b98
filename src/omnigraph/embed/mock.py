"""Vectors made of nothing but the text: the same on every machine, and meaningless.

The text is hashed (FNV-1a, 64 bits), the hash seeds a generator (xorshift64: 13, 7, 17), its
numbers are spread over -1 to 1, and the whole is normalised.
"""

from typing import Final

_BITS: Final = (1 << 64) - 1
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


def mock_vector(text: str, dimension: int) -> list[float]:
    """Not normalised yet, like what a provider answers."""
    state = _FNV_OFFSET
    for byte in text.encode():
        state = ((state ^ byte) * _FNV_PRIME) & _BITS
    values = []
    for _ in range(dimension):
        state ^= (state << 13) & _BITS
        state ^= state >> 7
        state ^= (state << 17) & _BITS
        values.append(state / _BITS * 2 - 1)
    return values
