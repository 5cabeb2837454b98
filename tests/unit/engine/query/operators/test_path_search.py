"""Searches for shortest paths, beside counts of every way in plain Python."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from hypothesis import given, strategies as st

from omnigraph.engine.query.columns.csr import build_edges, build_neighbours
from omnigraph.engine.query.columns.rows import Ordinals
from omnigraph.engine.query.operators.path_search import (
    PathEdges,
    Rounds,
    are_within,
    find_before,
    find_rounds,
)

NODES = 12
INF = float("inf")

Edges = list[tuple[int, int, float]]
edges: st.SearchStrategy[Edges] = st.lists(
    st.tuples(
        st.integers(0, NODES - 1),
        st.integers(0, NODES - 1),
        st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0, INF]),
    ),
    max_size=40,
)
nodes = st.integers(0, NODES - 1)
highs = st.integers(1, 7)


def ordinals(numbers: list[int]) -> Ordinals:
    return np.array(numbers, np.int32)


def by_length(edges: Edges) -> tuple[PathEdges, PathEdges]:
    near, far = ordinals([each[0] for each in edges]), ordinals([each[1] for each in edges])
    return PathEdges(build_neighbours(NODES, near, far)), PathEdges(
        build_neighbours(NODES, far, near)
    )


def by_weight(edges: Edges) -> tuple[PathEdges, PathEdges]:
    near, far = ordinals([each[0] for each in edges]), ordinals([each[1] for each in edges])
    weights = np.array([each[2] for each in edges], np.float64)
    numbers = np.arange(len(edges), dtype=np.int32)
    ahead, back = build_edges(NODES, near, far, numbers), build_edges(NODES, far, near, numbers)
    assert ahead.edges is not None
    assert back.edges is not None
    return PathEdges(ahead, weights[ahead.edges]), PathEdges(back, weights[back.edges])


def costs_by_edges(edges: Edges, source: int, high: int) -> list[Mapping[int, float]]:
    """For each number of edges, the smallest cost of a way of exactly so many."""
    costs: list[Mapping[int, float]] = [{source: 0.0}]
    for _ in range(high):
        after: dict[int, float] = {}
        for near, far, weight in edges:
            cost = costs[-1].get(near, INF) + weight
            if cost < after.get(far, INF):
                after[far] = cost
        costs.append(after)
    return costs


def traced(back: PathEdges, rounds: Rounds, target: int, length: int) -> list[list[int]]:
    """Every path to the target, from its end backwards."""
    paths = [[target]]
    for hop in range(length, 0, -1):
        paths = [
            [*path, int(before)]
            for path in paths
            for before in find_before(back, path[-1], rounds[hop], rounds[hop - 1])
        ]
    return paths


def every_path(edges: Edges, source: int, target: int, length: int) -> set[tuple[int, ...]]:
    """Of a length, from the target backwards."""
    paths: set[tuple[int, ...]] = {(source,)}
    pairs = {(near, far) for near, far, _ in edges}
    for _ in range(length):
        paths = {(far, *path) for path in paths for near, far in pairs if near == path[0]}
    return {path for path in paths if path[0] == target}


@given(edges, nodes, st.lists(nodes, min_size=1), highs)
def test_rounds_hold_the_cheapest_ways_of_so_many_edges(
    edges: Edges, source: int, targets: list[int], high: int
) -> None:
    ahead, back = by_weight(edges)
    rounds, lengths = find_rounds(ahead, back, source, ordinals(targets), high)
    costs = costs_by_edges(edges, source, high)
    lightest = {
        (near, far): min(w for a, b, w in edges if (a, b) == (near, far)) for near, far, _ in edges
    }
    for target, length in zip(targets, lengths.tolist(), strict=True):
        best = min(each.get(target, INF) for each in costs)
        if best == INF:
            assert length == -1
            continue
        assert length == next(n for n, each in enumerate(costs) if each.get(target) == best)
        paths = traced(back, rounds, target, length)
        assert paths
        for path in paths:
            assert path[-1] == source
            steps = pairwise(reversed(path))
            assert sum(lightest[step] for step in steps) == best


@given(edges, nodes, nodes, highs)
def test_a_search_from_both_ends_finds_every_shortest_path(
    edges: Edges, source: int, target: int, high: int
) -> None:
    ahead, back = by_length(edges)
    rounds, (length,) = find_rounds(ahead, back, source, ordinals([target]), high)
    unweighted = [(near, far, 1.0) for near, far, _ in edges]
    costs = costs_by_edges(unweighted, source, high)
    assert length == next((n for n, each in enumerate(costs) if target in each), -1)
    if length > 0:
        found = traced(back, rounds, target, int(length))
        assert sorted(map(tuple, found)) == sorted(every_path(edges, source, target, int(length)))


@given(edges, st.lists(st.tuples(nodes, nodes), min_size=1), st.integers(0, 3), st.integers(0, 4))
def test_pairs_are_within_bounds_as_a_walk_finds_them(
    edges: Edges, pairs: list[tuple[int, int]], low: int, more: int
) -> None:
    high = max(1, low + more)
    near, far = (ordinals([pair[at] for pair in pairs]) for at in (0, 1))
    found = are_within(by_length(edges), near, far, low, high)
    unweighted = [(near, far, 1.0) for near, far, _ in edges]
    for (source, target), is_found in zip(pairs, found.tolist(), strict=True):
        costs = costs_by_edges(unweighted, source, high)
        distance = next((n for n, each in enumerate(costs) if target in each), -1)
        loops = source == target and low == 1 and source in costs[1]
        assert is_found == (loops or low <= distance <= high)


def test_a_search_from_both_ends_follows_few_edges() -> None:
    """A hub that both ends are next to, and a crowd behind it that no path needs."""
    crowd = range(3, 2_000)
    edges = [(0, 1), (1, 2), *((0, each) for each in (2_000,)), *((1, each) for each in crowd)]
    near, far = (ordinals([each[at] for each in edges]) for at in (0, 1))
    ahead, back = build_neighbours(2_001, near, far), build_neighbours(2_001, far, near)
    rounds, lengths = find_rounds(PathEdges(ahead), PathEdges(back), 0, ordinals([2]), 6)
    assert lengths.tolist() == [2]
    assert [each.nodes.tolist() for each in rounds][1:] == [[1], [2]]
    assert sum(len(each.nodes) for each in rounds) < 5
    _, lengths = find_rounds(PathEdges(ahead), PathEdges(back), 0, ordinals([2]), 1)
    assert lengths.tolist() == [-1]
