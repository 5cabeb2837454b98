"""Rows of a whole table in memory."""

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.engine.query.columns.rows import ResidentRows

IDS = [f"k{(number * 37) % 101:03}" for number in range(101)]
WANTED = ["k100", "k000", "nothing", "", "k050", "zz"]


def rows_of(ids: Sequence[str]) -> ResidentRows:
    held = pa.array(ids, pa.string())
    return ResidentRows(len(ids), lambda names: pa.table(dict.fromkeys(names, held)))


def test_ids_are_found_in_order_all_at_once() -> None:
    found = rows_of(IDS).find_in_order(pa.array(WANTED))
    assert found.tolist() == [IDS.index("k100"), 0, -1, -1, IDS.index("k050"), -1]


def test_nothing_is_found_among_no_rows() -> None:
    assert rows_of([]).find_in_order(pa.array(WANTED)).tolist() == [-1] * len(WANTED)
