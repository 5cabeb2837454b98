"""Edges as integers, in compressed sparse rows.

The ends of the edges of a table are encoded once (`Codes`). The codes are mapped to ordinals of the
nodes of two tables (`Edges`). The first walk in a direction builds an `Adjacency`: for every node,
the range of its neighbours in one array, each neighbour once or edge by edge. An edge whose end is
missing is ignored.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.ir import Direction
from omnigraph.engine.cancellation import waiting_for
from omnigraph.engine.query.columns.rows import ID, Ordinals, ResidentRows
from omnigraph.engine.query.columns.view import TableView
from omnigraph.engine.tables.arrays import Array, array_of, numbers_of, one_chunk

Starts = npt.NDArray[np.int64]

PART_ROWS: Final = 2_500_000

SCANNED_MIN: Final = 20_000
"""The adjacency of fewer edges is built in less than a millisecond."""

SCANS_MAX: Final = 4
"""So often the edges at one node are looked for among all. Sorting all takes as long as 30 such
scans, but only a walk by an adjacency is remembered for the next run."""

_BITS: Final = 64
"""Of a number and its sign."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Node `n` is next to `targets[starts[n]:starts[n + 1]]`, in ascending order."""

    starts: Starts
    degrees: Starts
    targets: Ordinals
    edges: Ordinals | None
    """The ordinal of the edge; None if parallel edges count once."""

    @property
    def nbytes(self) -> int:
        more = 0 if self.edges is None else self.edges.nbytes
        return self.starts.nbytes + self.degrees.nbytes + self.targets.nbytes + more


def build_neighbours(node_count: int, near: Ordinals, far: Ordinals) -> Adjacency:
    """Each neighbour once."""
    keys = _keys(near, far)
    keys.sort()
    if len(keys):
        fresh = np.empty(len(keys), np.bool_)
        fresh[0] = True
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        if not fresh.all():
            keys = keys[fresh]
    return Adjacency(*_starts(node_count, keys >> 32), keys.astype(np.int32), None)


def build_edges(node_count: int, near: Ordinals, far: Ordinals, edges: Ordinals) -> Adjacency:
    """Every edge."""
    order = order_of_pairs(near, far)
    return Adjacency(*_starts(node_count, near), far[order], edges[order])


def order_of_pairs(near: Ordinals, far: Ordinals) -> "npt.NDArray[np.int64]":
    """The places in the order of `near`, then of `far`; equal pairs stay in their order.

    NumPy sorts numbers ten times as fast as places by numbers. So each number has its place in its
    lowest bits: both ends at once if they leave room for it, otherwise one end after the other.
    """
    far_bits = int(far.max(initial=0)).bit_length()
    if int(near.max(initial=0)).bit_length() + far_bits + len(near).bit_length() < _BITS:
        return _sorted_places((near.astype(np.int64) << far_bits) | far)
    by_far = _sorted_places(far.astype(np.int64))
    return by_far[_sorted_places(near[by_far].astype(np.int64))]


def _sorted_places(keys: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
    """Sorts in place, because the arrays are large."""
    bits = len(keys).bit_length()
    keys <<= bits
    keys |= np.arange(len(keys))
    keys.sort()
    keys &= (1 << bits) - 1
    return keys


def _keys(near: Ordinals, far: Ordinals) -> "npt.NDArray[np.int64]":
    """Built in place, because the arrays are large."""
    keys = near.astype(np.int64)
    keys <<= 32
    keys |= far
    return keys


def _starts(node_count: int, near: "npt.NDArray[np.integer[Any]]") -> tuple[Starts, Starts]:
    """Where the neighbours of each node start, and how many they are."""
    degrees = np.bincount(near, minlength=node_count)
    starts = np.zeros(node_count + 1, np.int64)
    np.cumsum(degrees, out=starts[1:])
    return starts, degrees


def orient(
    sources: Ordinals, targets: Ordinals, direction: Direction
) -> tuple[Ordinals, Ordinals, Ordinals]:
    """The start, the end and the edge of every step; a loop is one step."""
    edges = np.arange(len(sources), dtype=np.int32)
    match direction:
        case Direction.OUT:
            return sources, targets, edges
        case Direction.IN:
            return targets, sources, edges
        case Direction.BOTH:
            back = np.flatnonzero(sources != targets)
            return (
                np.concatenate([sources, targets[back]]),
                np.concatenate([targets, sources[back]]),
                np.concatenate([edges, edges[back]]),
            )


class Edges:
    """The edges of one table between the nodes of two others. Safe to share among threads."""

    def __init__(
        self,
        sources: Ordinals,
        targets: Ordinals,
        source_count: int,
        target_count: int,
        kept: "KeptEdges | None" = None,
    ) -> None:
        """An end of -1 is a missing node."""
        there = (sources >= 0) & (targets >= 0)
        self._places: Ordinals | None = None
        if not there.all():
            self._places = np.flatnonzero(there).astype(np.int32)
            sources, targets = sources[self._places], targets[self._places]
        self._sources, self._targets = sources, targets
        self._counts = (source_count, target_count)
        self._kept = kept
        self._made: dict[tuple[Direction, bool], Adjacency] = {}
        self._scans = 0
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        held = self._sources.nbytes + self._targets.nbytes
        held += 0 if self._places is None else self._places.nbytes
        return held + sum(each.nbytes for each in list(self._made.values()))

    def adjacency(self, direction: Direction, *, by_edge: bool) -> Adjacency:
        key = (direction, by_edge)
        known = self._made.get(key)
        if known is not None:
            return known
        with waiting_for(self._lock):
            if key not in self._made:
                self._made[key] = self._build(direction, by_edge=by_edge)
            return self._made[key]

    def beside(self, node: int, direction: Direction) -> tuple[Ordinals, Ordinals] | None:
        """The neighbours of one node, edge by edge, and the edges; None if that no longer pays."""
        if (direction, True) in self._made or self._scans >= SCANS_MAX:
            return None
        if len(self._sources) <= SCANNED_MIN:
            return None
        self._scans += 1
        there = (self._sources == node) | (self._targets == node)
        at = np.flatnonzero(there).astype(np.int32)
        near, far, edges = orient(self._sources[at], self._targets[at], direction)
        mine = near == node
        far, edges = far[mine], at[edges[mine]]
        order = np.argsort(far, kind="stable")
        return far[order], (edges if self._places is None else self._places[edges])[order]

    def degrees(self, direction: Direction) -> Starts:
        """How many edges each node has in a direction; an adjacency need not exist."""
        counts = (self._counts[0], self._counts[1])
        out = np.bincount(self._sources, minlength=counts[0])
        into = np.bincount(self._targets, minlength=counts[1])
        match direction:
            case Direction.OUT:
                return out
            case Direction.IN:
                return into
            case Direction.BOTH:
                return out + into

    def _build(self, direction: Direction, *, by_edge: bool) -> Adjacency:
        near, far, edges = orient(self._sources, self._targets, direction)
        count = self._counts[1] if direction is Direction.IN else self._counts[0]
        if by_edge:
            places = edges if self._places is None else self._places[edges]
            return build_edges(count, near, far, places)
        known = None if self._kept is None else self._kept.adjacency(direction, count)
        return known or build_neighbours(count, near, far)


@dataclass(frozen=True, slots=True)
class KeptEdges:
    """Edges in mapped files: one of their ends, and one of each adjacency (ADR 58)."""

    edges: TableView
    file: str

    def between(self, sources: ResidentRows, targets: ResidentRows) -> Edges | None:
        found = self.edges.kept(self.file)
        if found is None or any(len(each) != self.edges.row_count for each in found.values()):
            return None
        near, far = numbers_of(found["src"]), numbers_of(found["dst"])
        return Edges(near, far, len(sources), len(targets), self)

    def adjacency(self, direction: Direction, node_count: int) -> Adjacency | None:
        found = self.edges.kept(f"{self.file} {direction}")
        if found is None or len(found["starts"]) != node_count + 1:
            return None
        starts = numbers_of(found["starts"])
        return Adjacency(starts, np.diff(starts), numbers_of(found["targets"]), None)

    def keep(self, codes: "Codes", sources: ResidentRows, targets: ResidentRows) -> None:
        """Write the files that are missing."""
        near, far = codes.sources_in(sources), codes.targets_in(targets)
        edges = Edges(near, far, len(sources), len(targets))
        for direction in Direction:
            if direction is not Direction.BOTH or sources is targets:
                built = edges.adjacency(direction, by_edge=False)
                arrays = {"starts": array_of(built.starts), "targets": array_of(built.targets)}
                self.edges.keep(f"{self.file} {direction}", arrays)
        self.edges.keep(self.file, {"src": array_of(near), "dst": array_of(far)})


@dataclass(frozen=True, slots=True)
class Codes:
    """The ends of every edge of a table, as codes of their ids.

    Codes depend on the edge table alone. When a node table changes, the codes are mapped to new
    ordinals without reading the edges again.
    """

    source_ids: Array
    target_ids: Array
    sources: Ordinals
    targets: Ordinals

    @property
    def nbytes(self) -> int:
        return self.sources.nbytes + self.targets.nbytes

    def between(self, sources: ResidentRows, targets: ResidentRows) -> Edges:
        ends = (self.sources_in(sources), self.targets_in(targets))
        return Edges(*ends, len(sources), len(targets))

    def sources_in(self, nodes: ResidentRows) -> Ordinals:
        """The ordinals of the sources; -1 for a missing node."""
        return _ordinals(self.sources, self.source_ids, nodes)

    def targets_in(self, nodes: ResidentRows) -> Ordinals:
        return _ordinals(self.targets, self.target_ids, nodes)


def _ordinals(codes: Ordinals, ids: Array, nodes: ResidentRows) -> Ordinals:
    """Codes over the id column of these nodes are already ordinals."""
    return codes if ids is nodes.column(ID) else nodes.find(ids)[codes]


def read_codes(edges: TableView, sources: ResidentRows, targets: ResidentRows) -> Codes:
    """Encode the ends by the current nodes; ids without a node get codes after them.

    The two ends are resolved in parallel, each in its own thread.
    """
    ends = [_Ends(nodes, edges.row_count) for nodes in (sources, targets)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        for part in _large_parts(edges):
            list(pool.map(_Ends.add, ends, [part] * 2, ["src", "dst"]))
            part.clear()  # before the next one is read
    return Codes(ends[0].ids, ends[1].ids, ends[0].codes, ends[1].codes)


class _Ends:
    """Encodes one end of every edge."""

    def __init__(self, nodes: ResidentRows, count: int) -> None:
        nodes.load((ID,))
        self.nodes = nodes
        self.codes = np.empty(count, np.int32)
        self._done = 0
        self._strangers: dict[str, int] = {}

    def add(self, part: "Part", name: str) -> None:
        texts = one_chunk(part[0][name])
        found = self.nodes.find(texts)
        for place in np.flatnonzero(found < 0):
            stranger = str(texts[int(place)])
            found[place] = self._strangers.setdefault(
                stranger, len(self.nodes) + len(self._strangers)
            )
        self.codes[self._done : self._done + len(found)] = found
        self._done += len(found)

    @property
    def ids(self) -> Array:
        assert self._done == len(self.codes), "a version has the row count of its manifest"
        known = self.nodes.column(ID)
        if not self._strangers:
            return known
        return pa.concat_arrays([known, pa.array(list(self._strangers), known.type)])


Part = list[pa.Table]


def _large_parts(edges: TableView) -> Iterator[Part]:
    """Each part builds a hash table of all nodes, so parts are large.

    A part is a list, so that the consumer can clear it before the next one is read.
    """
    held: list[pa.Table] = []
    rows = 0
    for batch in edges.scan(("src", "dst"), None):
        held.append(batch)
        rows += batch.num_rows
        if rows >= PART_ROWS:
            part, held, rows = [pa.concat_tables(held)], [], 0
            yield part
    if held:
        yield [pa.concat_tables(held)]
