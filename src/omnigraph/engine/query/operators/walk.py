"""Walking an adjacency from many rows at once.

A step returns two arrays of equal length: the input row of each walk, and the node it reached.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.csr import Adjacency
from omnigraph.engine.query.columns.rows import Ordinals
from omnigraph.engine.tables.arrays import Mask, distinct

Places = npt.NDArray[np.int64]
Check = Callable[[int], None]
Keys = npt.NDArray[np.int64]
"""A row in the upper bits, a node in the lower."""

STEPS_MAX: Final = 1 << 21
"""How many edges are followed between two checks for cancellation."""

MARKS_MAX: Final = 8
"""A look-up by bisection takes as long as marking so many neighbours."""

BYTES_PER_STEP: Final = 64
"""The bytes per followed edge during a hop."""


def degrees(adjacency: Adjacency, at: Ordinals) -> Places:
    return adjacency.degrees[at]


def spread(adjacency: Adjacency, at: Ordinals) -> tuple[Places, Places]:
    """For every step, the input row and the index into `targets`."""
    if len(at) == 1:
        start, stop = adjacency.starts[at[0]], adjacency.starts[at[0] + 1]
        return np.zeros(stop - start, np.int64), np.arange(start, stop)
    starts, counts = adjacency.starts[at], adjacency.degrees[at]
    rows = np.repeat(np.arange(len(at)), counts)
    before = np.cumsum(counts) - counts
    places = np.repeat(starts - before, counts)
    places += np.arange(len(rows))
    return rows, places


def step(adjacency: Adjacency, at: Ordinals) -> tuple[Places, Ordinals]:
    """Walk to each neighbour."""
    rows, places = spread(adjacency, at)
    return rows, adjacency.targets[places]


def step_along(adjacency: Adjacency, at: Ordinals) -> tuple[Places, Ordinals, Ordinals]:
    """Walk along each edge."""
    assert adjacency.edges is not None
    rows, places = spread(adjacency, at)
    return rows, adjacency.targets[places], adjacency.edges[places]


def meets(adjacency: Adjacency, near: Ordinals, far: Ordinals) -> Mask:
    """Row by row: is `far` next to `near`?

    The distinct near nodes usually have few neighbours compared with the rows. Their hashes mark a
    small table; only rows that hit a mark are looked up. If they have many, all rows are looked up.
    """
    asked = np.zeros(len(adjacency.starts) - 1, np.bool_)
    asked[near] = True
    nodes = np.flatnonzero(asked).astype(np.int32)
    if int(degrees(adjacency, nodes).sum()) > MARKS_MAX * len(near):
        return _are_among(adjacency, near, far)
    rows, others = step(adjacency, nodes)
    there = _keys(nodes[rows].astype(np.int64), others)  # sorted, as nodes and neighbours are
    wanted = _keys(near.astype(np.int64), far)
    if not len(there):
        return np.zeros(len(wanted), np.bool_)
    bits = min(24, max(10, len(there).bit_length() + 5))
    marks = np.zeros(1 << bits, np.bool_)
    marks[_hash(there, bits)] = True
    maybe = np.flatnonzero(marks[_hash(wanted, bits)])
    found = np.zeros(len(wanted), np.bool_)
    places = np.searchsorted(there, wanted[maybe])
    places[places == len(there)] = 0
    found[maybe] = there[places] == wanted[maybe]
    return found


def _are_among(adjacency: Adjacency, near: Ordinals, far: Ordinals) -> Mask:
    """`meets` by bisection of the sorted neighbours of each row."""
    low = adjacency.starts[near]
    stop = high = low + adjacency.degrees[near]
    last = len(adjacency.targets) - 1
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        is_less = (low < high) & (adjacency.targets[np.minimum(middle, last)] < far)
        low, high = np.where(is_less, middle + 1, low), np.where(is_less, high, middle)
    found = low < stop
    found[found] = adjacency.targets[low[found]] == far[found]
    return found


def _hash(keys: Keys, bits: int) -> "npt.NDArray[np.uint64]":
    mixed = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed >> np.uint64(64 - bits)


def search(
    adjacency: Adjacency, at: Ordinals, *, hops_low: int, hops_high: int, check: Check
) -> tuple[Places, Ordinals]:
    """Walk to each node whose distance is within the bounds, breadth-first, for each row.

    A walk returns to its start by no hop, and by the first hop if that is a loop. `check` is called
    with the bytes of a hop before they are allocated.
    """
    if len(at) == 1:
        reached = _search_from_one(adjacency, at, hops_low, hops_high, check)
        return np.zeros(len(reached), np.int64), reached
    rows, nodes = np.arange(len(at)), at
    visited: Keys = _keys(rows, nodes)
    found: list[Keys] = [visited] if hops_low == 0 else []
    for hop in range(1, hops_high + 1):
        check(BYTES_PER_STEP * int(degrees(adjacency, nodes).sum()) + 2 * visited.nbytes)
        parts = [_hop(adjacency, rows[each], nodes[each]) for each in cut(adjacency, nodes)]
        if hop == hops_low == 1:
            found += [keys[np.isin(keys, visited)] for keys in parts]  # loops at the start
        fresh = union([_minus(keys, visited) for keys in parts])
        if hop >= hops_low:
            found.append(fresh)
        if not len(fresh):
            break
        visited = union([visited, fresh])
        rows, nodes = fresh >> 32, fresh.astype(np.int32)
    whole = np.concatenate(found) if found else np.empty(0, np.int64)
    if len(found) > 1:
        whole.sort()  # every pair was found once
    return whole >> 32, whole.astype(np.int32)


def _search_from_one(
    adjacency: Adjacency, at: Ordinals, hops_low: int, hops_high: int, check: Check
) -> Ordinals:
    """`search` for one row: a mark for each node of the table takes the place of sorted keys."""
    met = np.zeros(len(adjacency.starts) - 1, np.bool_)
    met[at] = True
    found = [at] if hops_low == 0 else []
    if hops_low == 1 and (step(adjacency, at)[1] == at[0]).any():
        found.append(at)  # a loop at the start
    nodes = at
    for hop in range(1, hops_high + 1):
        check(BYTES_PER_STEP * int(degrees(adjacency, nodes).sum()))
        nodes = advance(adjacency, nodes, met)
        if hop >= hops_low:
            found.append(nodes)
        if not len(nodes):
            break
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int32)


def advance(adjacency: Adjacency, nodes: Ordinals, met: Mask) -> Ordinals:
    """The neighbours that were not met before, each once and in order; they are met now."""
    parts = [np.empty(0, np.int32)]
    for each in cut(adjacency, nodes):
        check_cancelled()
        _, reached = step(adjacency, nodes[each])
        fresh = distinct(reached[~met[reached]])
        met[fresh] = True
        parts.append(fresh)
    return np.sort(np.concatenate(parts))


def cut(adjacency: Adjacency, nodes: Ordinals) -> Iterator[slice]:
    """Ranges of nodes with at most `STEPS_MAX` neighbours together, or of one node."""
    return cut_counts(degrees(adjacency, nodes), STEPS_MAX)


def cut_counts(counts: Places, most: int) -> Iterator[slice]:
    """Ranges with at most so many together, or of one."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + most, side="right"))
        yield slice(start, max(stop, start + 1))
        start = max(stop, start + 1)


def _hop(adjacency: Adjacency, rows: Places, nodes: Ordinals) -> Keys:
    """The nodes reached, each once per row and sorted."""
    check_cancelled()
    within, reached = step(adjacency, nodes)
    return distinct(_keys(rows[within], reached))


def union(parts: Sequence[Keys]) -> Keys:
    """Each of these keys once, sorted; the stable sort merges sorted runs."""
    if len(parts) == 1:
        return parts[0]
    keys = np.sort(np.concatenate([*parts, np.empty(0, np.int64)]), kind="stable")
    fresh = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return keys if fresh.all() else keys[fresh]


def _keys(rows: "npt.NDArray[np.int64]", nodes: Ordinals) -> Keys:
    return (rows << 32) | nodes


def _minus(keys: Keys, visited: Keys) -> Keys:
    """The difference of two sorted arrays."""
    places = np.searchsorted(visited, keys)
    places[places == len(visited)] = 0
    fresh: Keys = keys[visited[places] != keys]
    return fresh
