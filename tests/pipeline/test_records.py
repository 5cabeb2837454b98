"""What a line may say: every envelope and every value, accepted or refused, and why."""

import json

import pytest

from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.tables.cells import Blob
from omnigraph.pipeline.sources.records import Record, Rejected, read_record

CATALOG = compile_active_schema(
    """
    node Thing {
      code: String @key
      text: String?  flag: Bool?  kind: enum(a, b)?
      i32: I32?  i64: I64?  u32: U32?  u64: U64?
      f32: F32?  f64: F64?
      day: Date?  at: DateTime?
      tags: [String]?  counts: [I32]?  vec: Vector(2)?  blob: Blob?
      @range(i32, 0..10)  @check(text, "^[a-z]*$")
    }
    node Free { size: I32 }
    edge Links: Thing -> Free { weight: F64? }
    """,
    name="schema",
).catalog


def read(line: str | bytes) -> Record | Rejected | None:
    data = line.encode() if isinstance(line, str) else line
    return read_record(CATALOG, data, lambda: "made-up")


def thing(**data: object) -> str:
    return json.dumps({"type": "Thing", "data": {"code": "x", **data}})


def reasons(line: str | bytes) -> list[str]:
    record = read(line)
    assert isinstance(record, Rejected), record
    return [fault.message for fault in record.faults]


@pytest.mark.parametrize("line", ["", "  ", "\t", "\r"])
def test_blank_lines_are_skipped(line: str) -> None:
    assert read(line) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON: Expecting property name"),
        ("{} {}", "not JSON: Extra data"),
        ("[]", "expected an object, got []"),
        ("3", "expected an object, got 3"),
        ('{"type":"Thing","data":{"f64":NaN}}', "NaN is not a number"),
        ('{"type":"Thing","data":{"f64":-Infinity}}', "-Infinity is not a number"),
        ('{"type":"Thing","type":"Free","data":{}}', "the name 'type' is given twice"),
        ('{"type":"Thing","data":{"code":"a","code":"b"}}', "the name 'code' is given twice"),
        (b'{"type":"\xff"}', "not UTF-8: invalid start byte at byte 10"),
        ('{"data":{}}', "expected 'type' or 'edge'"),
        ('{"type":"Thing","edge":"Links","data":{}}', "'type' or 'edge', not both"),
        ('{"type":3}', "'type' is the name of a type, not 3"),
        ('{"type":"Thimg"}', "there is no node type 'Thimg'; did you mean 'Thing'?"),
        ('{"type":"thing"}', "there is no node type 'thing'; did you mean 'Thing'?"),
        ('{"edge":"Lynks"}', "there is no edge type 'Lynks'; did you mean 'Links'?"),
        ('{"type":"Links"}', "there is no node type 'Links'"),
        ("[" * 100_000, "not JSON we can read"),
        ('{"type":"Thing","data":{"i64":' + "9" * 5_000 + "}}", "not JSON we can read"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: str | bytes, reason: str) -> None:
    (message,) = reasons(line)
    assert reason in message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"type":"Thing","data":{"code":"x"},"id":"y"}', "unknown field 'id' beside 'data'"),
        ('{"type":"Thing","data":{"code":"x"},"from":"y"}', "unknown field 'from' beside 'data'"),
        (
            '{"type":"Thing","data":{"code":"x","txt":"y"}}',
            "no property 'txt'; did you mean 'text'",
        ),
        ('{"type":"Thing","data":{"code":"x","txt":null}}', "no property 'txt'"),
        ('{"type":"Thing","data":[]}', "'data' of Thing: expected an object"),
        ('{"type":"Thing","data":null}', "'data' of Thing: expected an object"),
        ('{"type":"Thing"}', "non-nullable property 'code'"),
        ('{"type":"Free","data":{}}', "non-nullable property 'size'"),
        ('{"edge":"Links","to":"y"}', "missing required property 'from'"),
        ('{"edge":"Links","from":"x","to":null}', "missing required property 'to'"),
        ('{"edge":"Links","from":1,"to":"y"}', "Links.from is expected a string, got an integer"),
        ('{"edge":"Links","from":"x","to":"y","data":{"from":"z"}}', "belongs beside 'data'"),
        ('{"edge":"Links","from":"x","to":"y","data":{"id":7}}', "an id is a string"),
        ('{"type":"Thing","data":{"code":"x","id":"y"}}', "not the one the key spells"),
    ],
)
def test_an_envelope_that_does_not_fit_says_why(line: str, reason: str) -> None:
    assert any(reason in message for message in reasons(line)), reasons(line)


@pytest.mark.parametrize("line", ['{"type":"Thing","data":{"code":1,"i32":"a","zip":1}}'])
def test_everything_wrong_with_a_record_is_told_at_once(line: str) -> None:
    assert len(reasons(line)) == 3


def test_edges_go_by_any_case_and_nodes_do_not() -> None:
    record = read('{"edge":"LINKS","from":"x","to":"y"}')
    assert isinstance(record, Record)
    assert record.type.name == "Links"
    assert record.row == {"id": "made-up", "src": "x", "dst": "y", "weight": None}
    assert record.is_new


def test_a_given_id_is_kept_and_a_key_is_the_id() -> None:
    given = read('{"type":"Free","data":{"id":"mine","size":1}}')
    assert isinstance(given, Record)
    assert (given.row["id"], given.is_new) == ("mine", False)
    keyed = read('{"type":"Thing","data":{"code":"k","id":"k"}}')
    assert isinstance(keyed, Record)
    assert (keyed.row["id"], keyed.is_new) == ("k", False)


@pytest.mark.parametrize(
    ("name", "given", "stored"),
    [
        ("text", "abc", "abc"),
        ("flag", True, True),
        ("kind", "a", "a"),
        ("i32", 3, 3),
        ("i64", -(2**63), -(2**63)),
        ("u32", 2**32 - 1, 2**32 - 1),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("f64", 3, 3.0),
        ("f32", 0.1, 0.10000000149011612),
        ("day", "1970-01-02", 1),
        ("day", 400, 400),
        ("at", "1970-01-01T00:00:01.5Z", 1500),
        ("at", "1970-01-01T02:00:00+02:00", 0),
        ("at", "1970-01-02", 86_400_000),
        ("at", 7, 7),
        ("tags", ["a", "b"], ("a", "b")),
        ("tags", [], ()),
        ("vec", [1, 2.5], (1.0, 2.5)),
        ("vec", None, None),
        ("blob", "base64:AAE=", Blob(data=b"\x00\x01")),
        ("blob", "s3://b/k", Blob(uri="s3://b/k")),
    ],
)
def test_values_that_fit_are_stored(name: str, given: object, stored: object) -> None:
    record = read(thing(**{name: given}))
    assert isinstance(record, Record), record
    assert record.row[name] == stored


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("text", 5, "expected a string, got an integer"),
        ("text", {"a": 1}, "expected a string, got an object"),
        ("text", "\ud800", "half of a surrogate pair"),
        ("text", "UPPER", "@check violation on Thing.text"),
        ("flag", 1, "expected a boolean"),
        ("flag", "yes", "expected a boolean"),
        ("kind", "c", "invalid enum value 'c' for Thing.kind"),
        ("i32", 3.0, "expected an integer"),
        ("i32", "3", "expected an integer"),
        ("i32", True, "expected an integer"),
        ("i32", 2**31, "out of range"),
        ("i32", 11, "@range violation on Thing.i32"),
        ("i64", 2**63, "out of range"),
        ("u32", -1, "out of range"),
        ("u64", 2**64, "out of range"),
        ("f64", "1", "expected a number"),
        ("f32", 1e39, "not finite, or out of range"),
        ("day", "2024-02-30", "no such day"),
        ("day", "2024-5-1", "expected YYYY-MM-DD"),
        ("day", 1.5, "expected an integer"),
        ("at", "yesterday", "invalid DateTime literal"),
        ("tags", "a", "expected an array"),
        ("tags", ["a", None], "element 2: expected a string, got null"),
        ("counts", [1, 2**31], "element 2"),
        ("vec", [1], "vector property 'vec' expects 2 dimensions, got 1"),
        ("vec", [1, "2"], "expected a number"),
        ("vec", [1, None], "expected a number"),
        ("vec", 3, "expected an array"),
        ("blob", "base64:%", "not base64"),
        ("blob", "https://host/a", "its scheme is none of"),
        ("blob", 3, "expected a string"),
    ],
)
def test_values_that_do_not_fit_say_why(name: str, given: object, reason: str) -> None:
    (message,) = reasons(thing(**{name: given}))
    assert reason in message
    assert name in message
