"""Arrays of numbers."""

import numpy as np
from hypothesis import given, strategies as st

from omnigraph.engine.tables.arrays import distinct


@given(st.lists(st.integers(-5, 5)))
def test_each_number_is_there_once_in_order(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))
