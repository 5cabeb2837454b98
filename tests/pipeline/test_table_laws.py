"""Laws of tables: reading together is reading one by one, and cutting a CSV changes nothing.

Rows that are plainly right are read together; otherwise the law would hold of a reader that reads
nothing.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.load.inputs import Input
from omnigraph.pipeline.sources.delimited import (
    find_ends,
    parse_cells,
    read_cells,
    read_record_blocks,
    resolve_quotes,
    split_cells,
)
from omnigraph.pipeline.sources.mappings import ColumnMapping, can_hold, fit_columns
from omnigraph.pipeline.sources.parse import Parsed
from omnigraph.pipeline.sources.splits import Cells, LineNumbers, Split, cut_bytes, ordinal_of
from omnigraph.pipeline.sources.tabular import _read_one_by_one, read_table, read_together

CATALOG = compile_active_schema(
    """
    node Thing {
      code: String @key
      flag: Bool?  kind: enum(a, b)?
      i32: I32?  i64: I64?  u32: U32?  u64: U64?
      f32: F32?  f64: F64?
      day: Date?  at: DateTime?
      tags: [String]?  counts: [I32]?  days: [Date]?  ats: [DateTime]?  vec: Vector(2)?
      blob: Blob?
      @range(i32, -5..2.5)
    }
    node Free { text: String  day: Date? }
    edge Links: Thing -> Thing { weight: F64? }
    """,
    name="schema",
).catalog
FREE, THING = CATALOG.nodes
(LINKS,) = CATALOG.edges


def rows_of(parsed: Parsed) -> dict[int, str]:
    """Every row by its number; ids that were made up do not count."""
    found = {}
    for _, table, numbers in parsed.tables:
        whole = table.combine_chunks()
        columns = [
            _numbers(whole[name].combine_chunks()).to_pylist() for name in whole.column_names
        ]
        for number, row in zip(numbers.tolist(), zip(*columns, strict=True), strict=True):
            made = [
                "made up" if isinstance(each, str) and len(each) == 26 else each for each in row
            ]
            found[number] = repr(made)
    return found


def _numbers(column: Any) -> Any:
    """Instants as numbers: as dates they would lose their time of day."""
    if pa.types.is_date(column.type):
        return column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    if pa.types.is_list(column.type) and pa.types.is_date(column.type.value_type):
        is_days = pa.types.is_date32(column.type.value_type)
        return column.view(pa.list_(pa.field("item", pa.int32() if is_days else pa.int64())))
    return column


def check_agreement(mapping: ColumnMapping, table: pa.Table) -> None:
    alone = _read_one_by_one(mapping, table)
    whole = read_table(mapping, table)
    assert rows_of(whole) == rows_of(alone)
    assert repr(whole.faults) == repr(alone.faults)  # a NaN is not equal to itself
    assert whole.given_ids == alone.given_ids


# ── Arrow ────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.text(max_size=3) | st.sampled_from(["2024-05-01", "2024-05-01T10:00:00Z", "base64:YQ=="])
DAYS = st.dates(date(1960, 1, 1), date(2030, 1, 1))
MOMENTS = st.datetimes(datetime(1960, 1, 1), datetime(2030, 1, 1))  # noqa: DTZ001 - Arrow adds the zone
FLOATS = st.floats(allow_nan=True) | st.sampled_from([1e39, 0.1, -0.0])

ARROW: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-6, 4)),
    (pa.int64(), st.integers(-6, 4) | st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.decimal128(20, 0), st.integers(-(10**20) + 1, 10**20 - 1).map(Decimal)),
    (pa.decimal128(10, 3), st.integers(-(10**9), 10**9).map(lambda each: Decimal(each) / 1000)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), FLOATS),
    (pa.date32(), DAYS),
    (pa.timestamp("s"), MOMENTS.map(lambda each: each.replace(microsecond=0))),
    (pa.timestamp("ms"), MOMENTS.map(lambda each: each.replace(microsecond=7000))),
    (pa.timestamp("us", "Europe/Berlin"), MOMENTS.map(lambda each: each.replace(tzinfo=UTC))),
    (pa.timestamp("ns"), MOMENTS),
    (pa.binary(), st.binary(max_size=3)),
    (pa.large_binary(), st.binary(max_size=3)),
    (pa.null(), st.none()),
    (pa.list_(pa.string()), st.lists(TEXTS | st.none(), max_size=3)),
    (pa.large_list(pa.int64()), st.lists(st.integers(-(2**33), 2**33), max_size=3)),
    (pa.list_(pa.float32(), 2), st.lists(st.floats(width=32), min_size=2, max_size=2)),
    (pa.list_(pa.float64()), st.lists(FLOATS, min_size=1, max_size=3)),
    (pa.list_(pa.date32()), st.lists(DAYS, max_size=2)),
    (pa.list_(pa.timestamp("us")), st.lists(MOMENTS, max_size=2)),
]


@st.composite
def tables(draw: st.DrawFn) -> tuple[ColumnMapping, pa.Table]:
    """Some columns for a property each, of types that can hold it."""
    count = draw(st.integers(1, 5))
    columns: dict[str, Any] = {"code": [f"k{draw(st.integers(0, 9))}" for _ in range(count)]}
    names = draw(st.lists(st.sampled_from([each.name for each in THING.properties]), max_size=3))
    for name in set(names) - {"code"}:
        of = THING.find(name)
        assert of is not None
        fitting = [each for each in ARROW if can_hold(each[0], of.type)]
        kind, values = draw(st.sampled_from(fitting))
        cells = [draw(values | st.none()) for _ in range(count)]
        columns[name] = pa.array(cells, kind)
    table = pa.table(columns)
    return ColumnMapping(THING, {name: name for name in table.column_names}), table


@settings(max_examples=150, deadline=None)
@given(tables(), st.integers(0, 2))
def test_reading_together_is_reading_one_by_one(
    made: tuple[ColumnMapping, pa.Table], skipped: int
) -> None:
    mapping, table = made
    # Sliced, because what stands before a slice is still there and must not be read.
    check_agreement(mapping, table.slice(min(skipped, table.num_rows - 1)))


@pytest.mark.parametrize(
    ("name", "kind", "value", "stored"),
    [
        ("i32", pa.int64(), 2, 2),
        ("u64", pa.decimal128(20, 0), Decimal(2**64 - 1), 2**64 - 1),
        ("f32", pa.int64(), 3, 3.0),
        ("f64", pa.decimal128(5, 2), Decimal("0.30"), 0.3),
        ("day", pa.date32(), date(1970, 1, 2), 1),
        ("day", pa.string(), "1970-01-02", 1),
        ("at", pa.timestamp("ns"), datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),  # noqa: DTZ001 - without
        ("at", pa.timestamp("s", "UTC"), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
        ("at", pa.date32(), date(1970, 1, 2), 86_400_000),
        ("vec", pa.list_(pa.float64(), 2), [1.0, 2.0], [1.0, 2.0]),
        ("counts", pa.large_list(pa.uint8()), [1, 2], [1, 2]),
        ("kind", pa.dictionary(pa.int8(), pa.string()), "a", "a"),
        ("blob", pa.binary(), b"ab", {"data": b"ab", "uri": None}),
    ],
)
def test_values_that_plainly_fit_are_read_together(
    name: str, kind: pa.DataType, value: object, stored: object
) -> None:
    column: Any = pa.array([value, None], kind)
    table = pa.table({"code": ["a", "b"], name: column})
    parsed = read_together(ColumnMapping(THING, {"code": "code", name: name}), table, np.arange(2))
    assert parsed is not None
    ((_, rows, _),) = parsed.tables
    assert _numbers(rows[name].combine_chunks()).to_pylist() == [stored, None]


def test_integers_stand_for_their_digits_at_the_ends_of_edges() -> None:
    table = pa.table({"src": [7], "dst": pa.array([8], pa.uint8()), "id": [9]})
    mapping = ColumnMapping(LINKS, {"from": "src", "to": "dst", "id": "id"})
    check_agreement(mapping, table)
    ((_, rows, _),) = read_table(mapping, table).tables
    assert rows.select(["id", "src", "dst"]).to_pylist() == [{"id": "9", "src": "7", "dst": "8"}]


def test_bytes_that_are_no_text_are_a_fault_of_their_row() -> None:
    broken: Any = pa.array([b"ok", b"\xff"]).view(pa.string())
    parsed = read_table(ColumnMapping(FREE, {"text": "text"}), pa.table({"text": broken}))
    assert [(line, fault.property_name) for line, fault in parsed.faults] == [(1, "text")]


def test_spark_integers_beyond_a_property_are_faults_not_failures() -> None:
    column: Any = pa.array([Decimal(1), Decimal(10**19)], pa.decimal128(20, 0))
    table = pa.table({"code": ["a", "b"], "i64": column})
    parsed = read_table(ColumnMapping(THING, {"code": "code", "i64": "i64"}), table)
    assert [(line, fault.value) for line, fault in parsed.faults] == [(1, 10**19)]


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────

CELLS: dict[str, st.SearchStrategy[str]] = {
    "i32": st.sampled_from(["1", "-5", "3", "01", "+1", "1.0", " 1", "2147483648", "-0", "x", ""]),
    "u64": st.sampled_from(["18446744073709551615", "18446744073709551616", "-1", "0", "9" * 50]),
    "f32": st.sampled_from(["0.1", "1e39", "1E5", ".5", "1.", "NaN", "inf", "-0.0", "0x1", "7"]),
    "f64": st.floats().map(repr) | st.sampled_from(["1e999", "5", "1_0"]),
    "flag": st.sampled_from(["true", "false", "True", "1", ""]),
    "day": st.sampled_from(["2024-05-01", "2024-02-30", "19844", ""]),
    "at": st.sampled_from(["2024-05-01", "2024-05-01T10:00:00+02:00", "2024-05-01 10:00:00.1234"]),
    "kind": st.sampled_from(["a", "b", "c"]),
    "tags": st.sampled_from(
        [
            '["a","b"]',
            "[]",
            '["a",null]',
            "[1]",
            "a",
            "",
            '["a"]} {"v":["b"]',
            '["a"],"w":[1',
            "[\n]",
        ]
    ),
    "counts": st.sampled_from(["[1,2]", "[1.0]", "[2147483648]", "[[1]]", "[1,]", "null"]),
    "vec": st.sampled_from(["[1,2]", "[0.1, 2e3]", "[1]", "[1,NaN]", "[1,null]", '["1",2]']),
    "blob": st.sampled_from(["base64:YQ==", "base64:%", "s3://x/y"]),
}


def quoted(cell: str, *, always: bool) -> str:
    if always or any(each in cell for each in ',"\n\r'):
        return '"' + cell.replace('"', '""') + '"'
    return cell


@st.composite
def files(draw: st.DrawFn) -> str:
    """Records of a code and some cells, mostly as they should be."""
    names = draw(st.lists(st.sampled_from(sorted(CELLS)), unique=True, max_size=3))
    lines = [",".join(["code", *names])]
    for number in range(draw(st.integers(0, 6))):
        code = draw(st.sampled_from([f"k{number}", "line\nbreak", 'a "quote"', "a,b", "é"]))
        cells = [code, *(draw(CELLS[name]) for name in names)]
        if draw(st.integers(0, 19)) == 0:
            cells.append("extra")
        lines.append(",".join(quoted(each, always=draw(st.booleans())) for each in cells))
        if draw(st.integers(0, 9)) == 0:
            lines.append("")
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return newline.join(lines) + (newline if draw(st.booleans()) else "")


def cells_of(text: str) -> Cells:
    header = tuple(text.splitlines()[0].split(","))
    first = int(find_ends(text.encode())[0]) if "\n" in text else len(text.encode())
    mapping = ColumnMapping(THING, {name: name for name in header}, are_texts=True)
    return Cells(mapping, header, ",", "", first)


def read_in_pieces(path: Path, split_bytes: int, block_bytes: int) -> dict[int, str]:
    """Rows and faults by line, from a file that is cut."""
    content = cells_of(path.read_text())
    pieces = [
        Split(number, str(path), "a", start, end, content)
        for number, (start, end) in enumerate(cut_bytes(path.stat().st_size, split_bytes))
    ]
    data = path.read_bytes()
    quotes = [data.count(b'"', each.start, each.end) for each in pieces]
    splits = resolve_quotes(pieces, quotes)
    blocks = [block for each in splits for block in read_record_blocks(each, {}, block_bytes)]
    assert b"".join(blocks) == data
    found: dict[int, Any] = {}
    counts = []
    for split in splits:
        before = 0
        for parsed, count in read_cells(split, {}):
            found |= {
                ordinal_of(split.number, before + at): row for at, row in rows_of(parsed).items()
            }
            for at, fault in parsed.faults:
                found.setdefault(ordinal_of(split.number, before + at), fault.message)
            before += count
        counts.append(before)
    numbers = LineNumbers(splits, counts)
    return {numbers.place_of(at).line: row for at, row in found.items()}


@settings(max_examples=120, deadline=None)
@given(files(), st.integers(1, 60), st.integers(1, 60))
@example('code\n"a\n"', 3, 2)
def test_any_cut_of_a_csv_gives_the_same_rows_on_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, text: str, split_bytes: int, block_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.csv"
    path.write_bytes(text.encode())
    whole = read_in_pieces(path, 10**6, 10**6)
    assert read_in_pieces(path, split_bytes, block_bytes) == whole
    lines = text.encode().split(b"\n")
    for line in whole:
        assert lines[line - 1].startswith((b'"', *(f"{each}".encode() for each in "klaé")))


def alone(content: Cells, block: bytes) -> Parsed:
    """The same records, each as if there were no other."""
    parsed = Parsed()
    start = 0
    ends = find_ends(block).tolist()
    for end in [*ends, len(block)]:
        one = parse_cells(content, block[start:end])
        one.move_lines(block.count(b"\n", 0, start))
        parsed.tables += one.tables
        parsed.faults += one.faults
        start = end
    return parsed


@settings(max_examples=150, deadline=None)
@given(files())
def test_records_read_together_are_the_records_read_alone(text: str) -> None:
    content = cells_of(text)
    header = int(find_ends(text.encode())[0]) if b"\n" in text.encode() else len(text)
    block = text.encode()[header:]
    whole, single = parse_cells(content, block), alone(content, block)
    assert rows_of(whole) == rows_of(single)
    assert whole.faults == single.faults


@pytest.mark.parametrize(
    ("block", "line"),
    [('a"b,1\n', 0), ('a,1\n"b"c,2\n', 1), ('a,1\n"b,2\n', 1), ('a,1\nb, "2"\n', 1)],
)
def test_a_quote_out_of_place_is_a_fault(block: str, line: int) -> None:
    parsed = parse_cells(cells_of("code,i32\n"), block.encode())
    assert [at for at, _ in parsed.faults] == [line]
    assert not parsed.tables


@pytest.mark.parametrize(
    ("record", "cells"),
    [
        ("", [("", False)]),
        ("a,,b", [("a", False), ("", False), ("b", False)]),
        ('"",a', [("", True), ("a", False)]),
        ('"a ""b"" c","x\n,y"\r\n', [('a "b" c', True), ("x\n,y", True)]),
        ("a,", [("a", False), ("", False)]),
        ('"""",b', [('"', True), ("b", False)]),
    ],
)
def test_cells_are_split_as_the_format_says(record: str, cells: list[tuple[str, bool]]) -> None:
    assert split_cells(record, ",") == cells


def test_a_quoted_cell_is_never_null_and_a_required_one_must_be_there() -> None:
    cells = Cells(
        ColumnMapping(FREE, {"text": "text"}, are_texts=True), ("text", "more"), ",", "NA", 0
    )
    parsed = parse_cells(cells, b'"NA",1\nNA,1\n,1\n"",1\n')
    assert sorted(rows_of(parsed)) == [0, 2, 3]
    assert [(line, fault.kind) for line, fault in parsed.faults] == [(1, "required")]


def test_bytes_that_are_no_text_and_lines_that_are_too_short_are_faults() -> None:
    mapping = ColumnMapping(FREE, {"text": "text"}, are_texts=True)
    cells = Cells(mapping, ("text", "more"), ",", "", 0)
    parsed = parse_cells(cells, b"\xff,1\nok\nok,1\nx\ry,1\n")
    assert [line for line, _ in parsed.faults] == [0, 1, 3]
    assert list(rows_of(parsed)) == [2]


# ── feeds ────────────────────────────────────────────────────────────────────────────────────────


def test_a_column_that_is_mapped_elsewhere_does_not_feed_its_namesake() -> None:
    fields: dict[str, pa.DataType] = {"text": pa.string(), "day": pa.string()}
    source = Input("x", type="Free", mapping={"text": "day"})
    fitting = fit_columns(CATALOG, FREE, source, pa.schema(fields), shown="x", are_texts=False)
    assert fitting.mapping.columns == {"text": "day"}
    assert fitting.unused == ("text",)
    assert not fitting.faults


def test_either_name_of_an_end_will_do_but_only_one() -> None:
    fields: dict[str, pa.DataType] = dict.fromkeys(("src", "to", "a"), pa.string())
    schema = pa.schema(fields)
    fitting = fit_columns(
        CATALOG, LINKS, Input("x", mapping={"weight": "a"}), schema, shown="x", are_texts=True
    )
    assert fitting.mapping.columns == {"weight": "a", "from": "src", "to": "to"}
    both = Input("x", mapping={"src": "a", "from": "src"})
    (fault,) = fit_columns(CATALOG, LINKS, both, schema, shown="x", are_texts=True).faults
    assert "two columns are to feed 'from'" in fault.message
