"""Two rows have one digest exactly if they say the same."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from omnigraph.engine.history.row_digest import differ, digest_rows

BLOB = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])


def digest(type_: pa.DataType, *values: Any) -> list[bytes]:
    return digest_rows(pa.table({"v": pa.array(list(values), type_)}))


@pytest.mark.parametrize(
    ("type_", "one", "two"),
    [
        (pa.string(), None, ""),
        (pa.string(), "a", "a\x00"),
        (pa.int64(), 0, None),
        (pa.int64(), 1, -1),
        (pa.float64(), 0.5, 0.25),
        (pa.float64(), math.inf, math.nan),
        (pa.list_(pa.string()), ["a", "b"], ["a,b"]),
        (pa.list_(pa.string()), [], None),
        (pa.list_(pa.string()), [None], [""]),
        (pa.list_(pa.string()), ["\x01a", ""], ["\x01", "a"]),
        (pa.list_(pa.float32(), 2), [1.0, 2.0], [2.0, 1.0]),
        (pa.list_(pa.float32(), 2), [0.0, 0.0], None),
        (BLOB, {"data": b"a", "uri": None}, {"data": b"b", "uri": None}),
        (BLOB, {"data": b"a", "uri": None}, {"data": None, "uri": "a"}),
        (BLOB, {"data": b"", "uri": None}, None),
    ],
)
def test_what_differs_has_another_digest(type_: pa.DataType, one: Any, two: Any) -> None:
    first, second = digest(type_, one, two)
    assert first != second


@pytest.mark.parametrize(
    ("type_", "one", "two"),
    [
        (pa.float64(), 0.0, -0.0),
        (pa.float64(), math.nan, -math.nan),
        (pa.float32(), 0.0, -0.0),
        (BLOB, {"data": b"a", "uri": None}, {"data": b"a", "uri": None}),
    ],
)
def test_what_means_the_same_has_one_digest(type_: pa.DataType, one: Any, two: Any) -> None:
    first, second = digest(type_, one, two)
    assert first == second


def test_a_cell_cannot_move_into_its_neighbour() -> None:
    rows = pa.table({"a": ["x", "xy", "", None], "b": ["yz", "z", "xyz", "xyz"]})
    assert len(set(digest_rows(rows))) == 4


def test_the_type_of_a_column_counts() -> None:
    assert digest(pa.int32(), 1) != digest(pa.int64(), 1)
    assert digest(pa.string(), "1") != digest(pa.int64(), 1)


def test_the_order_of_columns_does_not_count() -> None:
    rows = pa.table({"a": ["1", "2"], "b": [1, 2]})
    assert digest_rows(rows) == digest_rows(rows.select(["b", "a"]))


def test_instants_differ_by_their_time_of_day() -> None:
    moments = pa.array([0, 1, 86_400_000], pa.int64()).view(pa.date64())
    assert len(set(digest_rows(pa.table({"at": moments})))) == 3
    lists = pa.array([[0], [1]], pa.list_(pa.int64())).view(pa.list_(pa.date64()))
    assert len(set(digest_rows(pa.table({"at": lists})))) == 2


cells = st.tuples(
    st.one_of(st.none(), st.text(max_size=3)),
    st.one_of(st.none(), st.integers(-2, 2)),
    st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text(max_size=2)), max_size=3)),
)


@given(st.lists(cells, max_size=12))
def test_digests_tell_rows_apart_as_values_do(rows: list[tuple[Any, Any, Any]]) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    table = pa.table(
        {
            "s": pa.array(columns[0], pa.string()),
            "i": pa.array(columns[1], pa.int64()),
            "l": pa.array(columns[2], pa.list_(pa.string())),
        }
    )
    digests = digest_rows(table)
    for one, first in zip(rows, digests, strict=True):
        for two, second in zip(rows, digests, strict=True):
            assert (repr(one) == repr(two)) is (first == second)


NUMBERS = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.sampled_from([None, "", "a", "a\x00", "é"]),
    pa.bool_(): st.sampled_from([None, True, False]),
    pa.int64(): st.sampled_from([None, 0, -1, 2**62]),
    pa.uint64(): st.sampled_from([None, 0, 2**64 - 1]),
    pa.float32(): NUMBERS,
    pa.float64(): NUMBERS,
    pa.date32(): st.sampled_from([None, 0, -1, 1]),
    pa.date64(): st.sampled_from([None, 0, 1, 86_400_000]),
    pa.list_(pa.string()): st.sampled_from([None, [], [None], [""], ["a", "b"], ["a,b"]]),
    pa.list_(pa.float64()): st.sampled_from([None, [0.0], [-0.0], [math.nan]]),
    pa.list_(pa.float32(), 2): st.sampled_from([None, [0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]]),
    BLOB: st.sampled_from(
        [None, {"data": b"", "uri": None}, {"data": b"a", "uri": None}, {"data": None, "uri": "a"}]
    ),
}


def column_of(type_: pa.DataType, values: list[Any]) -> "pa.Array[Any]":
    """Instants are written as the numbers they are kept as. Cut, so that offsets count."""
    carrier = pa.int64() if type_ == pa.date64() else type_
    return pa.array([None, *values, None], carrier).view(type_).slice(1, len(values))


@given(st.data())
def test_rows_differ_exactly_if_their_digests_do(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 6))
    sides: list[dict[str, Any]] = [{}, {}]
    for number, (type_, values) in enumerate(VALUES.items()):
        for side in sides:
            drawn = data.draw(st.lists(values, min_size=count, max_size=count))
            side[f"c{number}"] = column_of(type_, drawn)
    for name in [*sides[0], None]:
        chosen = [name] if name is not None else list(sides[0])
        left, right = (pa.table(side).select(chosen) for side in sides)
        pairs = zip(digest_rows(left), digest_rows(right), strict=True)
        assert differ(left, right).tolist() == [one != two for one, two in pairs]
