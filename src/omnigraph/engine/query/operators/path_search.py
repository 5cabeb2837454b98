"""Searches for shortest paths over an adjacency, in rounds: each round goes one edge further.

Without weights, a round holds the nodes at that distance. With weights, it holds the nodes that so
many edges reach cheaper than fewer edges do; since every round knows its costs, a bound on the
edges holds exactly. In both, a node of a shortest path is in the round of its place on the path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.csr import Adjacency
from omnigraph.engine.query.columns.rows import Ordinals
from omnigraph.engine.query.operators import walk
from omnigraph.engine.tables.arrays import Mask, distinct

Weights = npt.NDArray[np.float64]
Lengths = npt.NDArray[np.int64]
"""The number of edges of a path to each target; -1 if there is none."""

UNREACHED: Final = -1

BYTES_PER_NODE: Final = 32
"""What a search holds for each node of the table, at most."""


@dataclass(frozen=True, slots=True)
class PathEdges:
    """The edges as one end of the paths sees them."""

    adjacency: Adjacency
    weights: Weights | None = None
    """Of each entry of the adjacency; infinite if it is closed. None if every edge counts one."""


@dataclass(frozen=True, slots=True)
class Round:
    """The nodes that paths of so many edges reach, in ascending order."""

    nodes: Ordinals
    costs: Weights | None = None

    def places(self, nodes: Ordinals) -> tuple[npt.NDArray[np.int64], Mask]:
        """Where these nodes are in the round, and which of them are there."""
        places = np.searchsorted(self.nodes, nodes)
        places[places == len(self.nodes)] = 0
        if not len(self.nodes):
            return places, np.zeros(len(nodes), np.bool_)
        return places, self.nodes[places] == nodes


Rounds = Sequence[Round]


def find_rounds(
    ahead: PathEdges, back: PathEdges, source: int, targets: Ordinals, high: int
) -> tuple[Rounds, Lengths]:
    """The rounds from a source until its targets are reached, and how far each of them is.

    A single target is searched from both ends.
    """
    wanted = distinct(targets[targets != source])
    if ahead.weights is not None:
        rounds = _by_weight(ahead.adjacency, ahead.weights, source, wanted, high)
    elif len(wanted) == 1:
        rounds = _from_both_ends(ahead.adjacency, back.adjacency, source, int(wanted[0]), high)
    else:
        rounds = _by_length(ahead.adjacency, source, wanted, high)
    lengths = np.full(len(targets), UNREACHED, np.int64)
    for hop, each in enumerate(rounds):
        lengths[each.places(targets)[1]] = hop
    return rounds, lengths


def are_within(
    sides: tuple[PathEdges, PathEdges], near: Ordinals, far: Ordinals, low: int, high: int
) -> Mask:
    """Row by row: does a walk within these bounds lead from `near` to `far`?"""
    found = np.zeros(len(near), np.bool_)
    for rows in rows_by_source(near, np.arange(len(near))):
        source, targets = int(near[rows[0]]), far[rows]
        _, lengths = find_rounds(*sides, source, targets, high)
        found[rows] = (lengths >= low) & (lengths <= high)
        if low == 1:
            found[rows[targets == source]] = has_loop(sides[0], source)
    return found


def rows_by_source(near: Ordinals, rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """The rows of each distinct source."""
    order = rows[np.argsort(near[rows], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(near[order])) + 1)
    return [each for each in parts if len(each)]


def has_loop(edges: PathEdges, node: int) -> bool:
    return bool(np.isfinite(loop_cost(edges, node)))


def loop_cost(edges: PathEdges, node: int) -> float:
    """The weight of the cheapest edge from a node to itself; infinite if there is none."""
    start, stop = edges.adjacency.starts[node], edges.adjacency.starts[node + 1]
    is_loop = edges.adjacency.targets[start:stop] == node
    if edges.weights is None:
        return 1.0 if is_loop.any() else np.inf
    return float(edges.weights[start:stop][is_loop].min(initial=np.inf))


def find_before(back: PathEdges, node: int, after: Round, before: Round) -> Ordinals:
    """The nodes of the round before from which a path leads on to this node, each once."""
    start, stop = back.adjacency.starts[node], back.adjacency.starts[node + 1]
    others = back.adjacency.targets[start:stop]
    places, met = before.places(others)
    if back.weights is not None:
        assert before.costs is not None, "every round has costs"
        assert after.costs is not None, "every round has costs"
        at = after.places(np.array([node], np.int32))[0]
        met &= before.costs[places] + back.weights[start:stop] == after.costs[at]
    return distinct(others[met])


# ── by length ────────────────────────────────────────────────────────────────────────────────────


def _by_length(adjacency: Adjacency, source: int, wanted: Ordinals, high: int) -> Rounds:
    met = np.zeros(len(adjacency.starts) - 1, np.bool_)
    met[source] = True
    rounds = [Round(np.array([source], np.int32))]
    while len(rounds) <= high and not met[wanted].all():
        nodes = walk.advance(adjacency, rounds[-1].nodes, met)
        if not len(nodes):
            break
        rounds.append(Round(nodes))
    return rounds


def _from_both_ends(
    ahead: Adjacency, back: Adjacency, source: int, target: int, high: int
) -> Rounds:
    """Two searches that take turns, the one with fewer edges to follow first, until they meet.

    The rounds behind the meeting hold only nodes of shortest paths. Without a meeting, there is
    only the source.
    """
    count = len(ahead.starts) - 1
    front, rear = [np.array([source], np.int32)], [np.array([target], np.int32)]
    met_front, met_rear = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    met_front[source] = met_rear[target] = True
    while len(front) + len(rear) - 2 < high:
        edges = [int(walk.degrees(*each).sum()) for each in ((ahead, front[-1]), (back, rear[-1]))]
        if not all(edges):
            break
        if edges[0] <= edges[1]:
            front.append(walk.advance(ahead, front[-1], met_front))
            meeting = front[-1][met_rear[front[-1]]]
        else:
            rear.append(walk.advance(back, rear[-1], met_rear))
            meeting = rear[-1][met_front[rear[-1]]]
        if len(meeting):
            return [Round(each) for each in (*front[:-1], *_onward(ahead, meeting, rear[:-1]))]
    return [Round(front[0])]


def _onward(ahead: Adjacency, meeting: Ordinals, rear: Sequence[Ordinals]) -> list[Ordinals]:
    """From where the searches met, the nodes of shortest paths up to the target."""
    found = [meeting]
    for level in reversed(rear):
        check_cancelled()
        reached = distinct(walk.step(ahead, found[-1])[1])
        found.append(reached[Round(level).places(reached)[1]])
    return found


# ── by weight ────────────────────────────────────────────────────────────────────────────────────


def _by_weight(
    adjacency: Adjacency, weights: Weights, source: int, wanted: Ordinals, high: int
) -> Rounds:
    """Only nodes that are cheaper than the dearest target go on: no weight is negative."""
    costs = np.full(len(adjacency.starts) - 1, np.inf)
    costs[source] = 0.0
    rounds = [Round(np.array([source], np.int32), np.zeros(1))]
    while len(rounds) <= high:
        last = rounds[-1]
        assert last.costs is not None, "every round has costs"
        goes_on = last.costs < costs[wanted].max(initial=-np.inf)
        nodes, so_far = last.nodes[goes_on], last.costs[goes_on]
        found = _improve(adjacency, weights, nodes, so_far, costs)
        if not len(found.nodes):
            break
        rounds.append(found)
    return rounds


def _improve(
    adjacency: Adjacency, weights: Weights, nodes: Ordinals, so_far: Weights, costs: Weights
) -> Round:
    """The nodes that one more edge reaches cheaper than anything did, which is recorded."""
    reached, offered = [np.empty(0, np.int32)], [np.empty(0)]
    for each in walk.cut(adjacency, nodes):
        check_cancelled()
        rows, places = walk.spread(adjacency, nodes[each])
        ends, sums = adjacency.targets[places], so_far[each][rows] + weights[places]
        better = sums < costs[ends]
        reached.append(ends[better])
        offered.append(sums[better])
    ends, sums = np.concatenate(reached), np.concatenate(offered)
    order = np.lexsort((sums, ends))
    ends, sums = ends[order], sums[order]
    is_first = np.ones(len(ends), np.bool_)
    np.not_equal(ends[1:], ends[:-1], out=is_first[1:])
    found = Round(ends[is_first], sums[is_first])
    costs[found.nodes] = found.costs
    return found
