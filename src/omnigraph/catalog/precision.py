"""Numbers at their stored precision."""

import math
import struct
from collections.abc import Sequence


def to_double(value: float) -> float | None:
    """A number as F64; None if it is not finite or beyond the range."""
    try:
        double = float(value)
    except OverflowError:
        return None
    return double if math.isfinite(double) else None


def to_single(value: float) -> float | None:
    """The nearest F32; None if it is not finite."""
    rounded = to_singles((value,))
    return None if rounded is None else rounded[0]


def to_singles(values: Sequence[float]) -> tuple[float, ...] | None:
    """Each as the nearest F32; None if one of them is not finite."""
    layout = f"{len(values)}f"
    try:
        singles: tuple[float, ...] = struct.unpack(layout, struct.pack(layout, *values))
    except (OverflowError, struct.error):  # an integer beyond every float is «not a float»
        return None
    return singles if all(map(math.isfinite, singles)) else None
