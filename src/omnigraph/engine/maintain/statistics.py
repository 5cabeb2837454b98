"""Collects the statistics of main out of its mapped files, for plans to be ordered by (ADR 66).

Nothing is read but mapped files: a table without them has no statistics, and its reads are ordered
by row counts. Memory holds the degrees of the nodes of a graph, as 32-bit numbers, up to a limit.
"""

import hashlib
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.compiler.ir import Direction
from omnigraph.compiler.statistics import TEXT_MAX, Degrees, Departure, Statistics, Values
from omnigraph.engine.query.columns.csr import Edges, KeptEdges
from omnigraph.engine.query.columns.rows import column_file
from omnigraph.engine.query.columns.view import EdgeView, TableView, View
from omnigraph.engine.tables import statistics as kept
from omnigraph.engine.tables.arrays import Array, numbers_of
from omnigraph.storage.mapped import MappedFiles

PARTS: Final = 32
"""So many parts of a column lie between its bounds."""

SAMPLED: Final = 1 << 14
"""So many values of a column are put in order."""

HELD_MAX: Final = 1 << 28
"""The bytes of the degrees that are held; those of further edge types are not compared."""

Counts = npt.NDArray[np.int32]


def keep_statistics(mapped: MappedFiles | None, open_view: Callable[[], View]) -> None:
    """Write the statistics of a snapshot, unless they are kept already."""
    if mapped is None:
        return
    view = open_view()
    folders = sorted(view.table(each).folder for each in _types(view))
    made_of = hashlib.sha256(" ".join(folders).encode()).hexdigest()
    known = kept.read(mapped)
    if known is None or known[0] != made_of:
        kept.write(mapped, made_of, collect(view))


def collect(view: View) -> Statistics:
    """What the mapped files of a snapshot tell."""
    degrees = DegreeStatistics()
    for type_ in view.catalog.edges:
        degrees.add(view, type_)
    values = {
        (type_.name, each.name): found
        for type_ in _types(view)
        for each in type_.properties
        if (found := values_of(view.table(type_), each.name)) is not None
    }
    return Statistics(degrees.degrees, dict(degrees.pulls()), values)


def _types(view: View) -> list[NodeType | EdgeType]:
    return [*view.catalog.nodes, *view.catalog.edges]


# ── degrees ──────────────────────────────────────────────────────────────────────────────────────


class DegreeStatistics:
    """The degrees of nodes by edge type and direction, and how they go together."""

    def __init__(self) -> None:
        self.degrees: dict[Departure, Degrees] = {}
        self._counts: dict[str, dict[Departure, Counts]] = {}
        """By node type, the degree of every node."""
        self._held = 0

    def add(self, view: View, type_: EdgeType) -> None:
        edges = _kept_edges(view, type_)
        if edges is None:
            return
        self._add(type_.source, Departure(type_.name, Direction.OUT), edges)
        self._add(type_.target, Departure(type_.name, Direction.IN), edges)
        if type_.source == type_.target:
            self._add(type_.source, Departure(type_.name, Direction.BOTH), edges)

    def _add(self, node: str, departure: Departure, edges: Edges) -> None:
        counts = edges.degrees(departure.direction).astype(np.int32)
        if not len(counts):
            return
        most = int(counts.max())
        self.degrees[departure] = Degrees(float(counts.mean()), most)
        if self._held + counts.nbytes <= HELD_MAX and most:
            self._held += counts.nbytes
            self._counts.setdefault(node, {})[departure] = counts

    def pulls(self) -> Iterator[tuple[tuple[Departure, Departure], float]]:
        for by_departure in self._counts.values():
            for one, other in combinations_with_replacement(sorted(by_departure), 2):
                yield (one, other), _pull(by_departure[one], by_departure[other])


def _pull(one: Counts, other: Counts) -> float:
    """The mean of the products, over the product of the means."""
    together = float(np.dot(one.astype(np.float64), other.astype(np.float64))) / len(one)
    return together / (float(one.mean()) * float(other.mean()))


def _kept_edges(view: View, type_: EdgeType) -> Edges | None:
    edges = view.table(type_)
    source, target = view.node(type_.source), view.node(type_.target)
    file = EdgeView(edges, source, target, source).file
    return KeptEdges(edges, file).between(source.resident, target.resident)


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def values_of(table: TableView, name: str) -> Values | None:
    """Of a column that is kept; None if there is none, or no value in it."""
    column = (table.kept(column_file(name)) or {}).get(name)
    if column is None or len(column) == column.null_count:
        return None
    distinct = pc.count_distinct(column, mode="only_valid").as_py()
    return Values(distinct, column.null_count / len(column), tuple(_bounds(column)))


def _bounds(column: Array) -> list[Any]:
    """Values of a sample that have as many others between any two of them."""
    step = max(1, len(column) // SAMPLED)
    places: Any = pa.array(np.arange(0, len(column), step))
    sample = _comparable(column.take(places).drop_null())
    if sample is None or not len(sample):
        return []
    ordered = sample.take(pc.sort_indices(sample))
    at = numbers_of(pa.array(np.linspace(0, len(ordered) - 1, PARTS + 1).astype(np.int64)))
    return [ordered[int(each)].as_py() for each in at]


def _comparable(sample: Array) -> "Array | None":
    """Values as a program spells them: numbers, or the beginnings of texts."""
    kind = sample.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.utf8_slice_codeunits(sample, 0, TEXT_MAX)
    if pa.types.is_date32(kind):
        return sample.cast(pa.int32())
    if pa.types.is_timestamp(kind):
        return sample.cast(pa.timestamp("ms")).cast(pa.int64())
    if pa.types.is_floating(kind):
        return sample.filter(pc.is_finite(sample))
    return sample if pa.types.is_integer(kind) else None
