"""Groups of rows with equal keys: columns are encoded as integers, integers as groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.tables.arrays import Array, Mask, array_of, nulls, numbers_of, pick

Codes = npt.NDArray[np.int64]

_CODES_MAX = 2**62

_FLOAT_EXACT_MAX = 2**53

_SIGHTINGS = 16
"""After so many rows per code, every code has probably occurred."""


@dataclass(frozen=True)
class Groups:
    """The group of each row, and the first row of each group."""

    of_row: Codes
    firsts: Codes

    @property
    def count(self) -> int:
        return len(self.firsts)

    @cached_property
    def sizes(self) -> Codes:
        """The number of rows of each group; several aggregates use it."""
        return np.bincount(self.of_row, minlength=self.count)


def group(keys: Sequence[Array], row_count: int) -> Groups:
    """Group rows by equal keys; null equals null. Without keys, all rows are one group."""
    if not keys:
        return Groups(np.zeros(row_count, np.int64), np.zeros(1, np.int64))
    codes, total = factorise(keys[0])
    for each in keys[1:]:
        more, count = factorise(each)
        if total > _CODES_MAX // count:
            numbered = _number(codes, total)
            codes, total = numbered.of_row, numbered.count
        codes, total = codes * count + more, total * count
    return _number(codes, total)


def _number(codes: Codes, total: int) -> Groups:
    row_count = len(codes)
    if total > 4 * row_count + (1 << 16):
        _, firsts, of_row = np.unique(codes, return_index=True, return_inverse=True)
        return Groups(of_row, firsts)
    sizes = np.bincount(codes, minlength=total)
    there = np.flatnonzero(sizes)
    firsts = _find_firsts(codes, total, there)
    if len(there) and there[-1] == len(there) - 1:
        return Groups(codes, firsts)  # the codes have no gaps, so they are group numbers
    number = np.empty(total, np.int64)
    number[there] = np.arange(len(there))
    return Groups(number[codes], firsts)


def _find_firsts(codes: Codes, total: int, there: Codes) -> Codes:
    """The first row of each code that occurs; few codes are mostly found in the first rows."""
    for row_count in (_SIGHTINGS * total, len(codes)):
        part = codes[:row_count]
        first = np.full(total, -1, np.int64)
        first[part[::-1]] = np.arange(len(part) - 1, -1, -1)
        found = first[there]
        if len(part) == len(codes) or found.min() >= 0:
            return found
    raise AssertionError("the second round reads all rows")


def factorise(column: Array) -> tuple[Codes, int]:
    """An integer code for every value, equal for equal values, and an upper bound of codes."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), 1
    if pa.types.is_nested(kind):
        return _factorise_nested(column)
    if pa.types.is_integer(kind) and len(column) > column.null_count:
        found = _factorise_small(column)
        if found is not None:
            return found
    if pa.types.is_floating(kind):
        zero: Any = pa.scalar(0.0, kind)
        column = pc.add(column, zero)  # both zeros are one value
    encoded = column.dictionary_encode()
    places = encoded.indices
    if places.null_count:
        places = places.fill_null(len(encoded.dictionary))
    codes = np.asarray(places, np.int64)
    return codes, len(encoded.dictionary) + 1


def _factorise_small(column: Array) -> tuple[Codes, int] | None:
    """Integers of a small range are their own codes."""
    if column.null_count:
        low, high = (int(each.as_py()) for each in (pc.min(column), pc.max(column)))
    else:
        numbers = numbers_of(column)
        low, high = int(numbers.min()), int(numbers.max())
    if high - low > 2 * len(column) + 1024:
        return None
    values = numbers_of(column.fill_null(low) if column.null_count else column)
    codes = (values.astype(np.int64) - low) if low else values.astype(np.int64)
    if column.null_count:
        codes[np.asarray(column.is_null())] = high - low + 1
    return codes, high - low + 2


def _factorise_nested(column: Array) -> tuple[Codes, int]:
    numbers: dict[Any, int] = {}
    codes = np.empty(len(column), np.int64)
    for at, value in enumerate(column.to_pylist()):
        key = None if value is None else tuple(value)
        codes[at] = numbers.setdefault(key, len(numbers))
    return codes, max(1, len(numbers))


def sums(values: "npt.NDArray[Any]", groups: Groups) -> "npt.NDArray[np.float64]":
    added = np.bincount(groups.of_row, weights=values, minlength=groups.count)
    return added.astype(np.float64, copy=False)


def whole_sums(values: Codes, groups: Groups) -> Codes:
    """Sums of whole numbers, exact beyond what a float can hold."""
    if groups.count == 1:
        return np.array([values.sum()], np.int64)
    if values.sum() < _FLOAT_EXACT_MAX:
        return sums(values, groups).astype(np.int64)
    added = np.zeros(groups.count, np.int64)
    np.add.at(added, groups.of_row, values)
    return added


def counts(groups: Groups, mask: "Mask | None" = None) -> Codes:
    if mask is None:
        return groups.sizes
    return np.bincount(groups.of_row[mask], minlength=groups.count)


def extremes(column: Array, groups: Groups, *, largest: bool) -> Array:
    """The smallest or largest value of each group; null for a group without a value."""
    if pa.types.is_null(column.type):
        return nulls(groups.count)
    there = np.asarray(column.is_valid()) if column.null_count else None
    of_row = groups.of_row if there is None else groups.of_row[there]
    values, decode = _comparable(column if there is None else column.drop_null())
    reduced = np.zeros(groups.count, values.dtype)
    found = counts(groups, there) > 0
    if len(values):
        start = values.min() if largest else values.max()
        reduced[:] = start
        (np.maximum if largest else np.minimum).at(reduced, of_row, values)
    return decode(array_of(reduced, ~found))


def ordered_values(column: Array, groups: Groups) -> tuple[Array, Codes]:
    """The values of all groups, group by group in ascending order, and where each group begins.

    Null is no value. The last position is the number of values.
    """
    there = np.asarray(column.is_valid())
    of_row = groups.of_row[there]
    known = column.drop_null()
    values, _ = _comparable(known)
    ordered = pick(known, np.lexsort((values, of_row)))
    sizes = np.bincount(of_row, minlength=groups.count)
    return ordered, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def deviations(
    values: "npt.NDArray[np.float64]", weights: "npt.NDArray[Any]", groups: Groups
) -> "tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]":
    """The weighted mean of each group, and the sum of the squared distances from it.

    The mean is found from a value of the group, so that equal values have no distance.
    """
    pivot = np.zeros(groups.count)
    counted = weights > 0
    pivot[groups.of_row[counted]] = values[counted]
    count = np.maximum(sums(weights, groups), 1)
    mean = pivot + sums((values - pivot[groups.of_row]) * weights, groups) / count
    return mean, sums(weights * (values - mean[groups.of_row]) ** 2, groups)


def _comparable(column: Array) -> "tuple[npt.NDArray[Any], Callable[[Array], Array]]":
    """Values as numbers of the same order, and the inverse."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        encoded = column.dictionary_encode()
        order = np.asarray(pc.sort_indices(encoded.dictionary))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        ordered = pick(encoded.dictionary, order)
        return ranks[np.asarray(encoded.indices)], lambda found: ordered.take(_indices(found))
    if pa.types.is_boolean(column.type):
        return np.asarray(column).astype(np.int8), lambda found: found.cast(column.type)
    return np.asarray(column), lambda found: found.cast(column.type)


def _indices(column: Array) -> Any:
    return column
