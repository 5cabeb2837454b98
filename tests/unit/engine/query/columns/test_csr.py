"""Edges in compressed sparse rows."""

import numpy as np
from hypothesis import given, strategies as st

from omnigraph.engine.query.columns.csr import order_of_pairs

SMALL = st.integers(0, 5)
LARGE = st.sampled_from([0, 1, 2**31 - 2, 2**31 - 1])
"""With two large ends and a place, a pair has more bits than a number."""


@given(st.lists(st.tuples(SMALL, SMALL)) | st.lists(st.tuples(LARGE, LARGE)))
def test_pairs_are_in_order_and_equal_pairs_stay_in_theirs(pairs: list[tuple[int, int]]) -> None:
    near, far = (np.array([each[end] for each in pairs], np.int32) for end in (0, 1))
    wanted = sorted(range(len(pairs)), key=lambda at: pairs[at])
    assert order_of_pairs(near, far).tolist() == wanted
