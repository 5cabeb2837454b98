"""A walk whose new node a check joins to another bound node: the shorter list of neighbours.

`$b knows $c` followed by a check of `$a knows $c` asks for the nodes next to both ends. Row by row,
either end may have far fewer neighbours. The walk lists those of the smaller end; what it finds
from the other end of the check is kept if it is a neighbour of its own source. The check then runs
on the rows as it always does, so a row that the walk leaves out is one that the check would drop.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from omnigraph.compiler import plan
from omnigraph.compiler.plan import WalkMode
from omnigraph.engine.query.columns.csr import Adjacency
from omnigraph.engine.query.columns.frame import ROWS_MAX, Frame
from omnigraph.engine.query.columns.rows import Ordinals
from omnigraph.engine.query.operators import walk
from omnigraph.engine.query.operators.walker import Arrived, EdgeWalker, Places

STEPS_MIN: Final = 1 << 13
"""A frame with fewer neighbours is walked as ever: comparing lists would take as long."""

GAIN_MIN: Final = 1.1
"""The shorter lists are walked if those of the walk hold so many times as many nodes."""


def joins(check: plan.Expand, walked: plan.Expand) -> bool:
    """Does the check join the new node of the walk below it to another that is bound?"""
    if walked.closes or check.source == check.target:
        return False
    is_plain = walked.mode is check.mode is WalkMode.NEIGHBOURS
    return is_plain and walked.target in (check.source, check.target)


@dataclass(frozen=True, slots=True)
class Intersection:
    """Walks from the end of each row that has fewer neighbours."""

    walker: EdgeWalker
    check: EdgeWalker
    other: str
    """The variable that the check joins to the new one."""
    back: Adjacency
    """The neighbours of the other node that the check accepts."""

    @classmethod
    def of(cls, walker: EdgeWalker, check: plan.Expand, frame: Frame) -> "Intersection | None":
        """None if it does not pay for this frame, or if its edges are not all at hand."""
        if not walker.is_resident(frame.count):
            return None
        starts = walker.ends_at(walker.operator.source, frame)
        steps = int(walk.degrees(walker.adjacency(), starts).sum())
        checker = EdgeWalker(check, walker.execution)
        if steps < STEPS_MIN or not checker.is_cached:
            return None
        other = check.source if check.target == walker.operator.target else check.target
        found = cls(walker, checker, other, checker.neighbours_from(other))
        return found if found._counts(frame).sum() * GAIN_MIN <= steps else None

    def parts(self, frame: Frame) -> Iterator[Frame]:
        """Pieces of a frame whose shorter lists hold about `ROWS_MAX` nodes."""
        for piece in walk.cut_counts(self._counts(frame), ROWS_MAX):
            yield frame.slice(piece.start, piece.stop)

    def walk(self, frame: Frame) -> Arrived:
        """By input row, and then by node, as every walk."""
        starts, others = self._ends(frame)
        ahead = self.walker.adjacency()
        is_other = self._other_counts(others) < walk.degrees(ahead, starts)
        mine, theirs = np.flatnonzero(~is_other), np.flatnonzero(is_other & (others >= 0))
        rows, nodes = walk.step(ahead, starts[mine])
        back_rows, back_nodes = walk.step(self.back, others[theirs])
        back_rows = theirs[back_rows]
        met = walk.meets(ahead, starts[back_rows], back_nodes)
        whole = np.concatenate([mine[rows], back_rows[met]])
        reached = np.concatenate([nodes, back_nodes[met]])
        order = np.argsort(whole, kind="stable")
        return self.walker.arrived(whole[order], reached[order])

    def _counts(self, frame: Frame) -> Places:
        """The length of the shorter list of each row."""
        starts, others = self._ends(frame)
        own = walk.degrees(self.walker.adjacency(), starts)
        return np.minimum(own, self._other_counts(others))

    def _other_counts(self, others: Ordinals) -> Places:
        """No check joins a row whose other node is unbound, so its list is empty."""
        counts = walk.degrees(self.back, others)
        return np.where(others < 0, 0, counts)

    def _ends(self, frame: Frame) -> tuple[Ordinals, Ordinals]:
        starts = self.walker.ends_at(self.walker.operator.source, frame)
        return starts, self.check.ends_at(self.other, frame)
