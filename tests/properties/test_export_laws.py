"""What an export spells, a load reads back; and the order of lines does not depend on the cuts."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.catalog.precision import to_single
from omnigraph.catalog.types import INTEGER_BOUNDS, Scalar, ValueType, Vector
from omnigraph.engine.load.sorted_runs import merge_runs, read_run, write_run
from omnigraph.engine.tables.cells import Cell
from omnigraph.engine.tables.columns import build_table
from omnigraph.engine.tables.record_format import Speller
from omnigraph.errors import NotExportable
from omnigraph.pipeline.sources.records import Record, read_record

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
SINGLES = st.floats(allow_nan=False, allow_infinity=False, width=32)


def whole(scalar: Scalar) -> st.SearchStrategy[int]:
    low, high = INTEGER_BOUNDS[scalar]
    return st.one_of(st.integers(low, high), st.sampled_from([low, high]))


SCALARS: Mapping[Scalar, st.SearchStrategy[Any]] = {
    Scalar.STRING: TEXTS,
    Scalar.BOOL: st.booleans(),
    Scalar.I32: whole(Scalar.I32),
    Scalar.I64: whole(Scalar.I64),
    Scalar.U32: whole(Scalar.U32),
    Scalar.U64: whole(Scalar.U64),
    Scalar.F32: SINGLES,
    Scalar.F64: DOUBLES,
    Scalar.DATE: whole(Scalar.I32),
    Scalar.DATETIME: whole(Scalar.I64) | st.integers(0, 4_000_000_000).map(lambda at: at * 1_000),
}
KINDS = {
    **{f"one_{each.value}": ValueType(each, nullable=True) for each in SCALARS},
    **{f"some_{each.value}": ValueType(each, nullable=True, is_list=True) for each in SCALARS},
    "vector": ValueType(Vector(3), nullable=True),
    "kind": ValueType(Scalar.STRING, nullable=True, enum_values=("a", "b")),
}
PROPERTIES = tuple(Property(name, KINDS[name]) for name in sorted(KINDS))
CATALOG = Catalog(
    nodes=(NodeType("Ant", PROPERTIES),), edges=(EdgeType("Eats", "Ant", "Ant", PROPERTIES),)
)


def cells(kind: ValueType) -> st.SearchStrategy[Cell]:
    if kind.enum_values is not None:
        return st.none() | st.sampled_from(kind.enum_values)
    if isinstance(kind.base, Vector):
        return st.none() | st.tuples(*[SINGLES] * kind.base.dimension)
    scalar = SCALARS[kind.scalar]
    return st.none() | (st.lists(scalar, max_size=3).map(tuple) if kind.is_list else scalar)


ROWS = st.fixed_dictionaries(
    {"id": TEXTS, "src": TEXTS, "dst": TEXTS, **{name: cells(KINDS[name]) for name in KINDS}}
)


def no_blobs(column: str, addresses: object) -> list[bytes | None]:
    raise AssertionError(f"{column} is no blob: {addresses}")


@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from(["node", "edge"]))
def test_a_row_that_is_spelled_and_read_is_the_same_row(
    rows: list[dict[str, Cell]], kind: str
) -> None:
    type_ = CATALOG.nodes[0] if kind == "node" else CATALOG.edges[0]
    # Arrow keeps chunks apart and slices in place; both must be spelled as what they show.
    table = pa.concat_tables([build_table(type_, rows), build_table(type_, rows).slice(1)])
    lines = Speller(type_.table_key, no_blobs).lines(table)
    read = [read_record(CATALOG, line.encode(), lambda: "made up") for line in lines]
    found = [each.row for each in read if isinstance(each, Record)]
    assert len(found) == len(lines), read
    assert build_table(type_, found).equals(table.combine_chunks())


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (ValueType(Scalar.F32), to_single(0.1), "0.1"),
        (ValueType(Scalar.F64), -0.0, "-0.0"),
        (ValueType(Scalar.F64), 1e300, "1e+300"),
        (ValueType(Scalar.DATE), 19_844, '"2024-05-01"'),
        (ValueType(Scalar.DATE), -719_528, '"0000-01-01"'),
        (ValueType(Scalar.DATE), 2_932_896, '"9999-12-31"'),
        (ValueType(Scalar.DATE), 2_932_897, "2932897"),
        (ValueType(Scalar.DATE), -719_529, "-719529"),
        (ValueType(Scalar.DATE, is_list=True), (0, 2**31 - 1), '["1970-01-01",2147483647]'),
        (ValueType(Scalar.DATETIME), 1_714_550_400_000, '"2024-05-01T08:00:00.000Z"'),
        (ValueType(Scalar.DATETIME), 1_714_550_400_120, '"2024-05-01T08:00:00.120Z"'),
        (ValueType(Scalar.DATETIME), -(2**63), "-9223372036854775808"),
        (ValueType(Scalar.U64), 2**64 - 1, "18446744073709551615"),
        (ValueType(Scalar.STRING), 'é"\n\u2028%s', '"é\\"\\n\u2028%s"'),
        (ValueType(Scalar.DATETIME, is_list=True), (0,), '["1970-01-01T00:00:00.000Z"]'),
    ],
)
def test_values_are_spelled_as_records_spell_them(kind: ValueType, value: Cell, text: str) -> None:
    type_ = NodeType("T", (Property("p", kind),))
    (line,) = Speller(type_.table_key, no_blobs).lines(
        build_table(type_, [{"id": "a", "p": value}])
    )
    assert line == f'{{"type":"T","data":{{"id":"a","p":{text}}}}}'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("is_vector", [False, True])
def test_a_number_that_is_none_is_refused_and_named(value: float, *, is_vector: bool) -> None:
    kind = ValueType(Vector(2)) if is_vector else ValueType(Scalar.F64)
    type_ = NodeType("T", (Property("p", kind),))
    cells: list[Cell] = [(1.0, 2.0), (1.0, value)] if is_vector else [1.0, value]
    rows = build_table(type_, [{"id": "a", "p": cells[0]}, {"id": "b", "p": cells[1]}])
    with pytest.raises(NotExportable, match="T 'b' cannot be exported: its p holds"):
        Speller(type_.table_key, no_blobs).lines(rows)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(TEXTS, max_size=4), max_size=5), st.integers(2, 4))
def test_runs_are_merged_in_the_order_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: list[list[str]], together: int
) -> None:
    monkeypatch.setattr("omnigraph.engine.load.sorted_runs.RUNS_MAX", together)
    paths = [write_run(((each, f"<{each}>") for each in sorted(run)), tmp_path) for run in ids]
    merged = list(merge_runs(paths, tmp_path))
    assert merged == sorted(
        ((each, f"<{each}>") for each in chain(*ids)), key=lambda line: line[0].encode()
    )


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    lines = [(f"{number:05}", f"line {number}") for number in range(2_500)]
    assert list(read_run(write_run(lines, tmp_path))) == lines
