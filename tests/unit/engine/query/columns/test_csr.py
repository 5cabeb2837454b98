"""Edges in compressed sparse rows."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from omnigraph.compiler.ir import Direction
from omnigraph.engine.query.columns import csr
from omnigraph.engine.query.columns.csr import Edges, order_of_pairs

SMALL = st.integers(0, 5)
LARGE = st.sampled_from([0, 1, 2**31 - 2, 2**31 - 1])
"""With two large ends and a place, a pair has more bits than a number."""


@given(st.lists(st.tuples(SMALL, SMALL)) | st.lists(st.tuples(LARGE, LARGE)))
def test_pairs_are_in_order_and_equal_pairs_stay_in_theirs(pairs: list[tuple[int, int]]) -> None:
    near, far = (np.array([each[end] for each in pairs], np.int32) for end in (0, 1))
    wanted = sorted(range(len(pairs)), key=lambda at: pairs[at])
    assert order_of_pairs(near, far).tolist() == wanted


ENDS = st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), max_size=30)


@given(ENDS, st.sampled_from(Direction), st.integers(0, 4))
def test_the_edges_at_one_node_are_those_of_the_adjacency_in_its_order(
    ends: list[tuple[int, int]], direction: Direction, node: int
) -> None:
    """Loops, parallel edges and missing ends among them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csr, "SCANNED_MIN", -1)
        sources, targets = (np.array([each[end] for each in ends], np.int32) for end in (0, 1))
        edges = Edges(sources, targets, 5, 5)
        found = edges.beside(node, direction)
        whole = edges.adjacency(direction, by_edge=True)
    assert found is not None
    assert whole.edges is not None
    part = slice(int(whole.starts[node]), int(whole.starts[node + 1]))
    assert found[0].tolist() == whole.targets[part].tolist()
    assert found[1].tolist() == whole.edges[part].tolist()


def test_all_edges_are_sorted_once_single_nodes_were_looked_for_often() -> None:
    many = np.arange(csr.SCANNED_MIN + 1, dtype=np.int32)
    edges = Edges(many, many[::-1].copy(), len(many), len(many))
    found = [edges.beside(7, Direction.OUT) for _ in range(csr.SCANS_MAX + 1)]
    assert all(each is not None for each in found[:-1])
    assert found[-1] is None
    few = Edges(many[1:], many[1:], len(many), len(many))
    assert few.beside(7, Direction.OUT) is None, "sorting so few takes no time"
