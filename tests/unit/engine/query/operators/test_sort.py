"""The first rows by order, found without sorting the rest."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from omnigraph.engine.query.operators import sort
from omnigraph.engine.query.operators.sort import _may_be_among, order_of
from omnigraph.engine.tables.arrays import nulls, pick

VALUES = st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=30)
TEXTS = st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "ab", "é", "Z"])), max_size=30)
FLAGS = st.lists(st.one_of(st.none(), st.booleans()), max_size=30)


@given(st.one_of(VALUES, TEXTS, FLAGS), st.integers(0, 8), st.booleans())
def test_whoever_can_be_among_the_first_is_kept(
    values: list[Any],
    keep: int,
    descending: bool,  # noqa: FBT001 - drawn
) -> None:
    known = any(each is not None for each in values)
    column = pa.array(values) if known else nulls(len(values), pa.int8())
    ids = pa.array([f"{at:02}" for at in range(len(values))])
    if not len(column):
        return
    whole = order_of([(column, descending), (ids, False)])[:keep]
    mask = _may_be_among((column, descending), keep)
    assert set(whole) <= set(np.flatnonzero(mask))
    kept = np.flatnonzero(mask)
    if len(kept):
        again = order_of([(pick(column, kept), descending), (pick(ids, kept), False)])
        assert list(kept[again][:keep]) == list(whole)


@pytest.mark.parametrize("descending", [False, True])
def test_most_rows_are_left_out_at_once(descending: bool) -> None:  # noqa: FBT001 - a parameter
    column = pa.array(np.random.default_rng(1).permutation(100_000))
    assert _may_be_among((column, descending), 10).sum() == 10


NUMBERS = st.lists(st.one_of(st.none(), st.floats(-3, 3), st.just(float("nan"))), max_size=40)


@given(st.one_of(VALUES, TEXTS, NUMBERS), st.booleans(), st.booleans())
def test_rows_that_are_divided_first_are_sorted_alike(
    values: list[Any],
    descending: bool,  # noqa: FBT001 - drawn
    has_ties: bool,  # noqa: FBT001 - drawn
) -> None:
    if not any(each is not None for each in values):
        return
    ids = pa.array([f"{at % 3:02}" if has_ties else f"{at:02}" for at in range(len(values))])
    keys = [(pa.array(values), descending), (ids, False)]
    whole = order_of(keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sort, "SORTED_TOGETHER", 3)
        patch.setattr(sort, "SAMPLED", 4)
        patch.setattr(sort, "LISTED_MAX", 0)  # few rows without ties are sorted in Python
        divided = order_of(keys)
    assert sorted(divided) == sorted(whole)
    spelled = [[(repr(values[at]), ids[int(at)]) for at in each] for each in (divided, whole)]
    assert spelled[0] == spelled[1]
