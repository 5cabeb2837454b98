"""Whatever is read together, reading one by one would have read as the same rows.

And lines that are plainly right are read together; otherwise the law would hold of a reader that
reads nothing.
"""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st
from ulid import ULID

from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.pipeline.sources.columns import read_columns, read_pairs
from omnigraph.pipeline.sources.identities import encode_ulids
from omnigraph.pipeline.sources.parse import Parsed, parse_block, read_one_by_one

CATALOG = compile_active_schema(
    """
    node Thing {
      code: String @key
      text: String?  flag: Bool?  kind: enum(a, b)?
      i32: I32?  i64: I64?  u32: U32?  u64: U64?
      f32: F32?  f64: F64?
      day: Date?  at: DateTime?
      tags: [String]?  days: [Date]?  singles: [F32]?  vec: Vector(2)?
      @range(i32, -5..2.5)  @range(f64, ..1000)  @range(u64, 0..)  @check(text, "a|^$")
    }
    node Number { id: I64 @key  day: Date }
    node Pair { a: I32 @key  b: Bool  size: F32? }
    node Place { town: String  day: Date  at: DateTime  open: Bool  @key(town, day, at, open) }
    edge Links: Thing -> Thing { weight: F64? }
    edge Sits: Thing | Number -> Thing | Place @key(src, dst) { weight: F64? }
    """,
    name="schema",
).catalog

WHOLE = st.integers(-(2**65), 2**65) | st.integers(-6, 6)
FRACTION = st.floats(width=64, allow_nan=False, allow_infinity=False)
DAYS = st.sampled_from(
    [
        "2024-05-01",
        "2024-02-30",
        "0000-01-01",
        "9999-12-31",
        "2024-5-1",
        " 2024-05-01",
        "1969-12-31",
    ]
)
INSTANTS = st.sampled_from(
    [
        "2024-05-01T10:11:12Z",
        "2024-05-01 10:11:12",
        "2024-05-01T10:11:12.5",
        "2024-05-01T10:11:12.123456Z",
        "2024-05-01T10:11",
        "2024-05-01",
        "2024-05-01T24:00:00Z",
        "2024-05-01T23:59:60Z",
        "2024-02-30T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00.001Z",
        "9999-12-31T23:59:59.999Z",
        "1969-12-31T23:59:59.999Z",
        "2024-05-01T10:11:12+02:00",
        "2024-05-01T10:11:12ZZ",
    ]
)
TEXTS = st.text(max_size=4) | st.sampled_from(["a", "ab", "", "é", "\x00", "𝄞", "b"])
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, [], {}, "x", 1, 1.5, -0.0, 1e300, "", [None], ["a"]]
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "flag": st.booleans(),
    "kind": st.sampled_from(["a", "b", "c"]),
    "i32": st.integers(-6, 4) | WHOLE,
    "i64": WHOLE,
    "u32": WHOLE,
    "u64": WHOLE,
    "f32": FRACTION | WHOLE,
    "f64": FRACTION | WHOLE,
    "day": DAYS | WHOLE,
    "at": INSTANTS | WHOLE,
    "tags": st.lists(TEXTS | st.none(), max_size=2),
    "days": st.lists(DAYS, max_size=2),
    "singles": st.lists(FRACTION, max_size=2),
    "vec": st.lists(FRACTION | WHOLE, min_size=1, max_size=3),
    "id": st.sampled_from(["k1", "k2", "x"]),
}


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A record of some type, mostly as it should be."""
    odd = draw(st.integers(0, 9)) == 0
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=4))
    data = {name: draw(ODD if odd and draw(st.booleans()) else VALUES[name]) for name in names}
    match draw(
        st.sampled_from(["Thing", "Thing", "Number", "Pair", "Place", "links", "Links", "Sits"])
    ):
        case "Thing":
            record = {
                "type": "Thing",
                "data": {"code": draw(st.sampled_from(["k1", "k2"])), **data},
            }
        case "Number":
            own = {"@id": "3"} if draw(st.integers(0, 3)) == 0 else {}
            record = {"type": "Number", "data": {"id": draw(WHOLE), "day": draw(DAYS), **own}}
        case "Pair":
            record = {"type": "Pair", "data": {"a": draw(WHOLE), "b": True}}
        case "Place":
            place = {"town": draw(TEXTS), "day": draw(DAYS), "at": draw(INSTANTS), "open": True}
            record = {"type": "Place", "data": place}
        case "Sits":
            ends = st.sampled_from([{"Thing": "a"}, {"Number": "1"}, {"Place": "p"}, "a"]) | ODD
            typed = st.sampled_from([{"Thing": "a"}, {"Thing": "b"}])
            record = {"edge": "Sits", "from": draw(typed | ends), "to": draw(typed | ends)}
        case name:
            extra = {} if draw(st.booleans()) else {"data": {"weight": draw(FRACTION | ODD)}}
            record = {"edge": name, "from": "a", "to": "b", **extra}
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps(record, ensure_ascii=draw(st.booleans()), separators=separators)
    return text + draw(st.sampled_from(["", "", "", "\r", " ", "}", ","]))


def rows_of(parsed: Parsed) -> dict[int, str]:
    """Every row by its line; ids that were made up do not count."""
    found = {}
    for type_, table, numbers in parsed.tables:
        assert numbers.tolist() == sorted(numbers.tolist())
        for number, row in zip(numbers.tolist(), _pylist(table), strict=True):
            if type_.name == "Links" and len(str(row["id"])) == 26:
                row["id"] = "made up"
            found[number] = f"{type_.name} {row}"
    return found


def _pylist(table: pa.Table) -> list[dict[str, Any]]:
    """Instants as numbers: as dates they would lose their time of day."""
    if "at" in table.column_names:
        at = table["at"].combine_chunks().view(pa.int64())
        table = table.set_column(table.column_names.index("at"), "at", at)
    if "day" in table.column_names:
        day = table["day"].combine_chunks().view(pa.int32())
        table = table.set_column(table.column_names.index("day"), "day", day)
    if "days" in table.column_names:
        days = table["days"].combine_chunks().view(pa.list_(pa.field("item", pa.int32())))
        table = table.set_column(table.column_names.index("days"), "days", days)
    return table.to_pylist()


@settings(max_examples=200, deadline=None)
@given(st.lists(lines(), min_size=1, max_size=6))
@example(['{"type":"Thing","data":{"code":"k1","text":"\\ud800"}}'])
@example(['{"type":"Thing","data":{"code":"k1","f64":NaN}}'])
@example(['{"type":"Thing","data":{"code":"k1","i64":1e2}}'])
@example(['{"type":"Thing","data":{"code":"k1","i64":-0}}'])
@example(['{"type":"Thing","data":{"code":"k1","i64":01}}'])
@example(['{"type":"Thing","data":{"code":"k1","text":"a\tb"}}'])
@example(['{"type":"Thing","data":{"code":"k1"},"data":{"code":"k2"}}'])
@example(['{"type":"Thing","data":{"code":"k1","code":"k1"}}'])
@example(['{"type":"Thing","data":{"code":"k1"}} {"type":"Thing","data":{"code":"k2"}}'])
@example(['{"type":"Thing","data":{"code":"k1"}}{"type":"Thing","data":{"code":"k2"}}'])
@example(['{"type":"Thing","data":null}', '{"type":"Thing"}'])
@example(['{"edge":"Links","from":"a","to":"b","data":null}'])
@example(['{"edge":"Links","from":"a","to":"b","data":{"weight":1e999}}'])
@example(['{"type":"Thing","edge":null,"data":{"code":"k1"}}'])
@example(['{"type":"Thing","data":{"code":"k1","id":null,"vec":null}}'])
@example(['{"type":"Thing","data":{"code":"k1","zip":null}}'])
@example(['{"type":"Thing","data":{"code":"k1",}}'])
@example(['{"edge":"Sits","from":{"Thing":"a","Number":null},"to":{"Thing":"b"}}'])
@example(['{"edge":"Sits","from":{"Thing":"a","Number":"1"},"to":{"Thing":"b"}}'])
@example(['{"edge":"Sits","from":{"Thing":"a","Thing":"b"},"to":{"Thing":"b"}}'])
@example(['{"edge":"Sits","from":{"Thing":"a"},"to":{"Thing":"b"},"data":null}'])
@example(['{"type":"Thing" /* */,"data":{"code":"k1"}}'])
@example(['{"type":"Thing",\'data\':{"code":"k1"}}'])
def test_reading_together_is_reading_one_by_one(records: list[str]) -> None:
    block = "\n".join(records).encode("utf-8", "surrogatepass")
    together, alone = parse_block(CATALOG, block), Parsed()
    read_one_by_one(CATALOG, enumerate(block.split(b"\n")), alone)
    assert rows_of(together) == rows_of(alone)
    assert together.faults == alone.faults
    assert together.given_ids == alone.given_ids


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "Thing",
            (
                '{"type":"Thing","data":{"code":"k","text":"a","flag":true,"kind":"a","i32":2,"i64":-9,'
                '"u32":1,"u64":18446744073709551615,"f32":0.1,"f64":1,"day":"2024-05-01",'
                '"at":"2024-05-01T10:11:12.5Z","tags":["x"],"days":["1970-01-01"],"singles":[1.5],'
                '"vec":[1,2]}}'
            ),
        ),
        ("Number", '{"type": "Number", "data": {"id": 7, "day": "2024-05-01"}}'),
        (
            "Place",
            (
                '{"type":"Place","data":{"town":"Ulm","day":"2024-05-01","at":"2024-05-01T10:11:12Z",'
                '"open":true}}'
            ),
        ),
        ("Links", '{"edge":"Links","from":"a","to":"b"}'),
    ],
)
def test_lines_that_are_plainly_right_are_read_together(name: str, line: str) -> None:
    type_ = CATALOG.node(name) or CATALOG.edge(name)
    assert type_ is not None
    read = read_columns(type_, name, pa.py_buffer(f"{line}\n".encode() * 3), 3)
    assert read is not None
    assert read[0].num_rows == 3


def test_lines_that_say_the_types_of_their_ends_are_read_together() -> None:
    ends = [("Thing", "Place"), ("Number", "Place"), ("Thing", "Place"), ("Thing", "Thing")]
    records = [
        {"edge": "Sits", "from": {s: f"{n}"}, "to": {t: "p"}} for n, (s, t) in enumerate(ends)
    ]
    text = "".join(json.dumps(each) + "\n" for each in records).encode()
    read = read_pairs(CATALOG.pairs("Sits"), "Sits", pa.py_buffer(text), 4)
    assert read is not None
    found = {pair.name: (own.tolist(), rows["src"].to_pylist()) for pair, own, rows, _ in read}
    assert found == {
        "Sits.Number.Place": ([1], ["1"]),
        "Sits.Thing.Place": ([0, 2], ["0", "2"]),
        "Sits.Thing.Thing": ([3], ["3"]),
    }


def test_made_up_ids_are_ulids_and_all_different() -> None:
    line = b'{"edge":"Links","from":"a","to":"b"}\n'
    edge = CATALOG.edge("Links")
    assert edge is not None
    read = read_columns(edge, "Links", pa.py_buffer(line * 1000), 1000)
    assert read is not None
    ids = read[0]["id"].to_pylist()
    assert len(set(ids)) == 1000
    assert {len(str(each)) for each in ids} == {26}
    assert set("".join(map(str, ids))) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


@given(st.integers(0, 2**48 - 1), st.binary(min_size=30, max_size=30))
def test_ids_made_as_columns_are_those_made_one_by_one(now_ms: int, entropy: bytes) -> None:
    time = now_ms.to_bytes(6, "big")
    alone = [str(ULID.from_bytes(time + entropy[at : at + 10])) for at in (0, 10, 20)]
    assert encode_ulids(now_ms, entropy).to_pylist() == alone
