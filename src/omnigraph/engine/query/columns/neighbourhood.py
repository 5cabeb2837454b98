"""The subgraph around some nodes, read by index look-ups of edges.

It may contain more edges than a walk uses. All of them exist, so the walk stays correct.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.compiler import plan
from omnigraph.compiler.ir import Direction
from omnigraph.engine.query.columns.csr import Adjacency, build_edges, build_neighbours, orient
from omnigraph.engine.query.columns.rows import ID, FetchedRows, Ordinals
from omnigraph.engine.query.columns.view import TableView


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """An adjacency over local node numbers, and the ordinals of those nodes and edges."""

    adjacency: Adjacency
    starts: Ordinals
    """For each row, the number of its start node."""
    target_places: Ordinals
    edge_places: Ordinals

    @property
    def nbytes(self) -> int:
        return self.adjacency.nbytes + self.starts.nbytes + self.target_places.nbytes


class WalkWatch(Protocol):
    """Follows a walk hop by hop, and ends it if all edges would be cheaper."""

    def is_too_wide(self, asked: int) -> bool: ...
    def walked(self, asked: int, found: int) -> None: ...


class _Numbers:
    """Numbers ids in the order of their first occurrence."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, ids: Iterable[str]) -> Ordinals:
        numbers = self._numbers
        return np.array([numbers.setdefault(each, len(numbers)) for each in ids], np.int32)

    @property
    def ids(self) -> list[str]:
        return list(self._numbers)


def explore(
    operator: plan.Expand,
    edges: TableView,
    ids: Sequence[str],
    targets: FetchedRows,
    kept_edges: FetchedRows | None,
    *,
    watch: WalkWatch,
    hops_high: int,
) -> Neighbourhood | None:
    """Read the edges a walk from these nodes can follow; existing nodes go to `targets`.

    None if the walk turned out so wide that reading all edges is cheaper.
    """
    columns = (ID, "src", "dst") if kept_edges is None else kept_edges.columns
    known = set(ids)
    frontier: list[str] = list(dict.fromkeys(ids))
    parts: list[pa.Table] = []
    if operator.hops_low == 0:
        targets.fetch(frontier)
    for _ in range(hops_high):
        if watch.is_too_wide(len(frontier)):
            return None
        part = _edges_at(operator.direction, edges, frontier, columns)
        parts.append(part)
        watch.walked(len(frontier), part.num_rows)
        ends = _ends(operator.direction, part)
        targets.fetch(ends)
        places = targets.find(pa.array(ends, pa.string()))
        there = [each for each, place in zip(ends, places, strict=True) if place >= 0]
        frontier = [each for each in there if each not in known]
        known.update(frontier)
        if not frontier:
            break
    return _encode(operator, ids, parts, targets, kept_edges)


def _edges_at(
    direction: Direction, edges: TableView, ids: Sequence[str], columns: Sequence[str]
) -> pa.Table:
    parts = []
    if direction is not Direction.IN:
        parts.append(edges.read_by("src", ids, columns))
    if direction is not Direction.OUT:
        parts.append(edges.read_by("dst", ids, columns))
    return pa.concat_tables(parts)


def _ends(direction: Direction, part: pa.Table) -> list[str]:
    names = {Direction.OUT: ("dst",), Direction.IN: ("src",), Direction.BOTH: ("src", "dst")}
    ends = [each for name in names[direction] for each in part[name].to_pylist()]
    return [str(each) for each in dict.fromkeys(ends)]


def _encode(
    operator: plan.Expand,
    ids: Sequence[str],
    parts: Sequence[pa.Table],
    targets: FetchedRows,
    kept_edges: FetchedRows | None,
) -> Neighbourhood:
    found = _distinct(pa.concat_tables(parts))
    is_chained = operator.mode is plan.WalkMode.SEARCH
    near_numbers = _Numbers()
    far_numbers = near_numbers if is_chained or operator.direction is Direction.BOTH else _Numbers()
    starts = near_numbers.of(ids)
    of_source, of_target = (
        (far_numbers, near_numbers)
        if operator.direction is Direction.IN
        else (near_numbers, far_numbers)
    )
    sources = of_source.of(map(str, found["src"].to_pylist()))
    ends = of_target.of(map(str, found["dst"].to_pylist()))
    near, far, edges = orient(sources, ends, operator.direction)
    target_places = targets.find(pa.array(far_numbers.ids, pa.string()))
    there = target_places[far] >= 0
    near, far, edges = near[there], far[there], edges[there]
    count = len(near_numbers)
    if kept_edges is None:
        adjacency = build_neighbours(count, near, far)
        return Neighbourhood(adjacency, starts, target_places, np.empty(0, np.int32))
    places = kept_edges.add(found)
    return Neighbourhood(build_edges(count, near, far, edges), starts, target_places, places)


def _distinct(edges: pa.Table) -> pa.Table:
    """Each edge once, even if it was found from both ends."""
    ids = edges[ID].to_pylist()
    places = list({each: at for at, each in enumerate(ids)}.values())
    return edges if len(places) == len(ids) else edges.take(pa.array(places, pa.int64()))
