"""What an operator works out once for all reads of a snapshot.

A small read takes as long as its calls of Python. If the rows and edges that an operator needs are
at hand, as long as its view lives, then a run only has to gather from arrays. A view forgets all
this when the cache evicts an entry. Every other run takes the general way, and so does a frame that
these shortcuts do not know: one that is large, or bound to fetched rows.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph.compiler import plan
from omnigraph.engine.query.columns.csr import Adjacency
from omnigraph.engine.query.columns.frame import ROWS_MAX, Bound, Frame
from omnigraph.engine.query.columns.rows import Ordinals, ResidentRows, Rows
from omnigraph.engine.query.operators import walk


@dataclass(frozen=True, slots=True)
class KnownWalk:
    """A walk along edges at hand, to nodes at hand that no variable is bound to yet."""

    source: str
    target: str
    edge_variable: str | None
    kept: Collection[str] | None
    near: Rows
    far: Rows
    edges: Rows
    adjacency: Adjacency

    @classmethod
    def of(
        cls,
        operator: plan.Expand,
        ends: tuple[ResidentRows, ResidentRows],
        edges: Rows,
        adjacency: Adjacency,
    ) -> "KnownWalk":
        return cls(
            operator.source,
            operator.target,
            operator.edge_variable,
            None if operator.kept is None else frozenset(operator.kept),
            *ends,
            edges,
            adjacency,
        )

    def after(self, frame: Frame, most: int = ROWS_MAX) -> Frame | None:
        """The rows that the walk yields; None if the general way has to be taken.

        It has to be if the rows would be more than `most`.
        """
        start = frame.bound[self.source]
        if start.rows is not self.near:
            return None
        from_ = self._from_one if frame.count == 1 else self._from_all
        found = from_(start.at, most)
        if found is None:
            return None
        rows, targets, edges = found
        bound: dict[str, Bound] = {}
        for name, each in frame.bound.items():
            if self.kept is None or name in self.kept:
                bound[name] = each if rows is None else Bound(each.rows, each.at[rows])
        if self.edge_variable is not None:
            assert edges is not None
            bound[self.edge_variable] = Bound(self.edges, edges)
        bound[self.target] = Bound(self.far, targets)
        return Frame(len(targets), bound)

    def _from_one(
        self, at: Ordinals, most: int
    ) -> tuple["npt.NDArray[np.int64] | None", Ordinals, Ordinals | None] | None:
        """Slices instead of gathers; no rows to repeat if one neighbour is found."""
        place = int(at[0])
        if place < 0:
            return None
        adjacency = self.adjacency
        start, stop = int(adjacency.starts[place]), int(adjacency.starts[place + 1])
        if stop - start > most:
            return None
        edges = None if adjacency.edges is None else adjacency.edges[start:stop]
        rows = None if stop - start == 1 else np.zeros(stop - start, np.int64)
        return rows, adjacency.targets[start:stop], edges

    def _from_all(
        self, at: Ordinals, most: int
    ) -> tuple["npt.NDArray[np.int64]", Ordinals, Ordinals | None] | None:
        adjacency = self.adjacency
        if not len(at) or np.minimum.reduce(at) < 0:
            return None
        if int(np.add.reduce(adjacency.degrees[at])) > most:
            return None
        rows, places = walk.spread(adjacency, at)
        edges = None if adjacency.edges is None else adjacency.edges[places]
        return rows, adjacency.targets[places], edges
