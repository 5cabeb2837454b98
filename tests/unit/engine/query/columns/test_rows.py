"""Rows of a whole table in memory."""

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.engine.query.columns.rows import ID, ORDER, ResidentRows

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


def test_each_id_is_found_by_itself_before_there_is_a_sample_and_with_one() -> None:
    rows = rows_of(IDS)
    for _ in range(20):
        assert [rows.find_one(each) for each in WANTED] == [
            IDS.index("k100"),
            0,
            -1,
            -1,
            IDS.index("k050"),
            -1,
        ]
    assert [rows.find_one(each) for each in IDS] == [*range(len(IDS))]


def test_ids_that_are_kept_in_order_are_not_read_to_find_one() -> None:
    read: list[str] = []

    def read_columns(names: Sequence[str]) -> pa.Table:
        read.extend(names)
        return pa.table(dict.fromkeys(names, pa.array(IDS)))

    kept = {ORDER: rows_of(IDS).order()}
    mapped = ResidentRows(len(IDS), read_columns, kept.get)
    mapped.load_to_find(["name"])
    assert mapped.find_texts(["k050"]).tolist() == [IDS.index("k050")]
    assert read == ["name"]

    read.clear()
    other = ResidentRows(len(IDS), read_columns, lambda _: None)
    other.load_to_find(["name"])
    assert other.find_texts(["k050"]).tolist() == [IDS.index("k050")]
    assert read == [ID, "name"], "in one scan"
