"""Walking an adjacency from many rows at once.

Every function answers with two arrays of one length: from which row of the input a walk came, and
where it arrived.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.csr import Adjacency
from omnigraph.engine.query.rows import Ordinals
from omnigraph.engine.tables.arrays import Mask

Places = npt.NDArray[np.int64]
Check = Callable[[int], None]
Keys = npt.NDArray[np.int64]
"""A row in the upper bits, a node in the lower."""

STEPS_MAX: Final = 1 << 21
"""How many edges are followed before a read is asked whether it was cancelled."""

BYTES_PER_STEP: Final = 64
"""What following one edge takes while a hop is under way: a handful of numbers."""


def degrees(adjacency: Adjacency, at: Ordinals) -> Places:
    return adjacency.starts[at + 1] - adjacency.starts[at]


def spread(adjacency: Adjacency, at: Ordinals) -> tuple[Places, Places]:
    """Which row, and which place in the list of targets."""
    if len(at) == 1:
        start, stop = adjacency.starts[at[0]], adjacency.starts[at[0] + 1]
        return np.zeros(stop - start, np.int64), np.arange(start, stop)
    starts = adjacency.starts[at]
    counts = adjacency.starts[at + 1] - starts
    rows = np.repeat(np.arange(len(at)), counts)
    before = np.cumsum(counts) - counts
    places = np.arange(len(rows)) + np.repeat(starts - before, counts)
    return rows, places


def step(adjacency: Adjacency, at: Ordinals) -> tuple[Places, Ordinals]:
    """To each neighbour."""
    rows, places = spread(adjacency, at)
    return rows, adjacency.targets[places]


def step_along(adjacency: Adjacency, at: Ordinals) -> tuple[Places, Ordinals, Ordinals]:
    """To each neighbour, edge by edge."""
    assert adjacency.edges is not None
    rows, places = spread(adjacency, at)
    return rows, adjacency.targets[places], adjacency.edges[places]


def meets(adjacency: Adjacency, near: Ordinals, far: Ordinals) -> Mask:
    """Row by row: is `far` next to `near`?

    The neighbours of the distinct near nodes are few beside the rows that ask, as a rule. They are
    marked in a small table by a hash; only rows that hit a mark are looked up.
    """
    asked = np.zeros(len(adjacency.starts) - 1, np.bool_)
    asked[near] = True
    nodes = np.flatnonzero(asked).astype(np.int32)
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


def _hash(keys: Keys, bits: int) -> "npt.NDArray[np.uint64]":
    mixed = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed >> np.uint64(64 - bits)


def search(
    adjacency: Adjacency, at: Ordinals, *, hops_low: int, hops_high: int, check: Check
) -> tuple[Places, Ordinals]:
    """To each node whose distance lies between the bounds, breadth-first, row by row.

    Where a walk began it never comes back to. A loop leads to its own node, at the hop at which it
    is walked, and no further. `check` is told how many bytes a hop needs, before it takes them.
    """
    rows, nodes = np.arange(len(at)), at
    visited: Keys = _keys(rows, nodes)
    found: list[Keys] = []
    has_loops = False
    for hop in range(1, hops_high + 1):
        check(BYTES_PER_STEP * int(degrees(adjacency, nodes).sum()) + 2 * visited.nbytes)
        parts = [_hop(adjacency, rows[each], nodes[each]) for each in _cut(adjacency, nodes)]
        loops = np.concatenate([met for _, met in parts]) if parts else visited[:0]
        fresh = _union([_minus(keys, visited) for keys, _ in parts])
        if hop >= hops_low:
            has_loops |= bool(len(loops))
            found += [fresh, loops]
        if not len(fresh):
            break
        visited = _union([visited, fresh])
        rows, nodes = fresh >> 32, fresh.astype(np.int32)
    whole = np.concatenate(found) if found else np.empty(0, np.int64)
    if has_loops or len(found) > 2:
        whole = np.unique(whole)
    return whole >> 32, whole.astype(np.int32)


def _cut(adjacency: Adjacency, nodes: Ordinals) -> Iterator[slice]:
    """Parts of the nodes that have not too many neighbours together."""
    ends = np.cumsum(degrees(adjacency, nodes))
    start = 0
    while start < len(nodes):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + STEPS_MAX, side="right"))
        yield slice(start, max(stop, start + 1))
        start = max(stop, start + 1)


def _hop(adjacency: Adjacency, rows: Places, nodes: Ordinals) -> tuple[Keys, Keys]:
    """Who is met, each once for a row, in order; and the loops among the edges that lead there."""
    check_cancelled()
    within, reached = step(adjacency, nodes)
    keys = _keys(rows[within], reached)
    return np.unique(keys), keys[reached == nodes[within]]


def _union(parts: Sequence[Keys]) -> Keys:
    """Of sorted keys: the sort finds what is sorted already, so this is a merge."""
    if len(parts) == 1:
        return parts[0]
    keys = np.sort(np.concatenate([*parts, np.empty(0, np.int64)]), kind="stable")
    fresh = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return keys if fresh.all() else keys[fresh]


def _keys(rows: "npt.NDArray[np.int64]", nodes: Ordinals) -> Keys:
    return (rows << 32) | nodes


def _minus(keys: Keys, visited: Keys) -> Keys:
    """Both are sorted."""
    places = np.searchsorted(visited, keys)
    places[places == len(visited)] = 0
    fresh: Keys = keys[visited[places] != keys]
    return fresh
