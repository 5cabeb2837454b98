import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.keys import KeyValue, derive_id, key_text
from omnigraph.catalog.model import NodeType
from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.errors import KeyInvalid
from omnigraph.lang.source import Source


def node(text: str) -> NodeType:
    (built,) = compile_schema(Source("test.pg", text)).nodes
    return built


@pytest.mark.parametrize(
    ("base", "value", "text"),
    [
        (Scalar.STRING, "AB-7", "AB-7"),
        (Scalar.STRING, '["7"]', '["7"]'),
        (Scalar.STRING, "", ""),
        (Scalar.BOOL, True, "true"),
        (Scalar.BOOL, False, "false"),
        (Scalar.I32, -2147483648, "-2147483648"),
        (Scalar.U64, 18446744073709551615, "18446744073709551615"),
        (Scalar.DATE, 19844, "19844"),
        (Scalar.DATETIME, -1, "-1"),
        (Scalar.F64, 1.0, "1"),
        (Scalar.F64, 3, "3"),
        (Scalar.F64, 0.1, "0.1"),
        (Scalar.F64, 1e22, "10000000000000000000000"),
        (Scalar.F64, -1.5e-7, "-0.00000015"),
        (Scalar.F64, 0.0, "0"),
        (Scalar.F64, -0.0, "0"),
        (Scalar.F32, 0.1, "0.1"),
        (Scalar.F32, 16777217.0, "16777216"),
        (Scalar.F32, 1e-50, "0"),
        (Scalar.F32, 3.4028234663852886e38, "340282350000000000000000000000000000000"),
    ],
)
def test_a_value_has_one_canonical_text(base: Scalar, value: KeyValue, text: str) -> None:
    assert key_text(value, ValueType(base)) == text


@pytest.mark.parametrize(
    ("base", "value"),
    [
        (Scalar.STRING, 7),
        (Scalar.STRING, None),
        (Scalar.STRING, "\ud800"),
        (Scalar.BOOL, 1),
        (Scalar.BOOL, "true"),
        (Scalar.I32, True),
        (Scalar.I32, 2147483648),
        (Scalar.I32, 1.0),
        (Scalar.I32, "1"),
        (Scalar.U32, -1),
        (Scalar.DATE, "2024-05-01"),
        (Scalar.DATE, 2**31),
        (Scalar.DATETIME, 2**63),
        (Scalar.F64, float("nan")),
        (Scalar.F64, float("inf")),
        (Scalar.F64, True),
        (Scalar.F64, "1.0"),
        (Scalar.F64, 10**400),
        (Scalar.F32, 1e39),
        (Scalar.BLOB, "x"),
        (Vector(2), 1.0),
    ],
)
def test_a_value_of_another_type_is_no_key(base: Scalar | Vector, value: KeyValue) -> None:
    with pytest.raises(KeyInvalid):
        key_text(value, ValueType(base))


def test_the_id_of_a_node_with_one_key_column_is_its_text() -> None:
    gallery = node("node Gallery { code: I64 @key title: String }")
    assert derive_id(gallery, {"code": 7, "title": "West"}) == "7"


def test_a_composite_id_is_a_json_array_in_the_order_of_the_names() -> None:
    seat = node("node Seat { row: I32 hall: String at: F32 @key(row, hall, at) }")
    values: dict[str, KeyValue] = {"row": 7, "hall": 'no"rth é\n', "at": 0.1}
    assert derive_id(seat, values) == '["0.1","no\\"rth é\\n","7"]'


def test_composite_keys_that_would_read_alike_when_joined_stay_apart() -> None:
    pair = node("node Pair { a: String b: String @key(a, b) }")
    assert derive_id(pair, {"a": "x,y", "b": "z"}) != derive_id(pair, {"a": "x", "b": "y,z"})


def test_an_error_names_the_member() -> None:
    seat = node("node Seat { row: I32 hall: String @key(row, hall) }")
    with pytest.raises(KeyInvalid) as caught:
        derive_id(seat, {"row": "seven", "hall": "north"})
    assert caught.value.member == "Seat.row"
    with pytest.raises(KeyInvalid) as missing:
        derive_id(seat, {"row": 7})
    assert missing.value.member == "Seat.hall"
