"""What callers hand in, as the values tables hold."""

from datetime import UTC, date, datetime

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.fitting import Misfit
from omnigraph.catalog.model import EdgeType, NodeType, Property
from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.engine.tables.cells import Blob, Cell
from omnigraph.engine.write.coercion import coerce, coerce_row
from omnigraph.lang.source import Source

CATALOG = compile_schema(
    Source(
        "<schema>",
        """
        node Keyed { a: I32  b: String  note: String?  @key(b, a) }
        node Loose { n: I32? }
        edge Leads: Keyed -> Loose { since: Date? }
        """,
    )
)


def keyed() -> NodeType:
    found = CATALOG.node("Keyed")
    assert found is not None
    return found


def leads() -> EdgeType:
    found = CATALOG.edge("Leads")
    assert found is not None
    return found


def of(base: Scalar | Vector, *, is_list: bool = False) -> Property:
    return Property("p", ValueType(base, nullable=True, is_list=is_list))


@pytest.mark.parametrize(
    ("base", "given", "stored"),
    [
        (Scalar.STRING, "x", "x"),
        (Scalar.I32, -(2**31), -(2**31)),
        (Scalar.U64, 2**64 - 1, 2**64 - 1),
        (Scalar.F64, 3, 3.0),
        (Scalar.F32, 0.1, 0.10000000149011612),
        (Scalar.BOOL, False, False),
        (Scalar.DATE, "2024-05-01", 19844),
        (Scalar.DATE, 19844, 19844),
        (Scalar.DATE, date(1969, 12, 31), -1),
        (Scalar.DATETIME, "2024-05-01T10:00:00+02:00", 1_714_550_400_000),
        (Scalar.DATETIME, "2024-05-01", 1_714_521_600_000),
        (Scalar.DATETIME, datetime(2024, 5, 1, 8, 0, 0, 1999, tzinfo=UTC), 1_714_550_400_001),
        (Scalar.DATETIME, -1, -1),
        (Scalar.BLOB, "base64:aGk=", Blob(data=b"hi")),
        (Scalar.BLOB, "base64:", Blob(data=b"")),
        (Scalar.BLOB, b"hi", Blob(data=b"hi")),
        (Scalar.BLOB, "s3://bucket/x", Blob(uri="s3://bucket/x")),
        (Vector(2), [1, 0.5], (1.0, 0.5)),
    ],
)
def test_what_fits_becomes_what_is_stored(
    base: Scalar | Vector, given: object, stored: Cell
) -> None:
    found = coerce(given, of(base))
    assert found == stored
    assert type(found) is type(stored)


@pytest.mark.parametrize(
    ("base", "given", "reason"),
    [
        (Scalar.STRING, 3, "expected a string, got an integer"),
        (Scalar.STRING, "\ud800", "half of a surrogate pair"),
        (Scalar.I32, 3.0, "expected an integer, got the number 3.0"),
        (Scalar.I32, "3", "expected an integer, got a string"),
        (Scalar.I32, True, "expected an integer, got a boolean"),
        (Scalar.I32, 2**31, "out of range"),
        (Scalar.U32, -1, "out of range"),
        (Scalar.U64, 2**64, "out of range"),
        (Scalar.F64, "1", "expected a number, got a string"),
        (Scalar.F64, float("nan"), "not finite"),
        (Scalar.F64, 10**400, "not finite, or out of range"),
        (Scalar.F32, 1e39, "not finite, or out of range"),
        (Scalar.BOOL, 1, "expected a boolean, got an integer"),
        (Scalar.DATE, "2023-02-29", "no such day"),
        (Scalar.DATE, datetime(2024, 5, 1, tzinfo=UTC), "expected a string, got a datetime"),
        (Scalar.DATE, 2**31, "out of range"),
        (Scalar.DATETIME, 1.5, "expected an integer"),
        (Scalar.BLOB, "base64:a", "not base64"),
        (Scalar.BLOB, "base64:a-_=", "not base64"),
        (Scalar.BLOB, 3, "expected a string, got an integer"),
        (Vector(2), [1], "vector property 'p' expects 2 dimensions, got 1"),
        (Vector(2), [1, float("inf")], "not finite"),
        (Vector(2), [1, None], "expected a number, got null"),
        (Vector(2), [1, 1e39], "beyond the range of F32"),
        (Vector(2), "ab", "expected an array, got a string"),
    ],
)
def test_what_does_not_fit_says_why(base: Scalar | Vector, given: object, reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        coerce(given, of(base))


def test_a_list_is_an_array_without_nulls() -> None:
    assert coerce(["2024-05-01", 0], of(Scalar.DATE, is_list=True)) == (19844, 0)
    with pytest.raises(Misfit, match="element 2: expected a string, got null"):
        coerce(["a", None], of(Scalar.STRING, is_list=True))
    with pytest.raises(Misfit, match="expected an array, got an object"):
        coerce({"a": 1}, of(Scalar.STRING, is_list=True))


def test_a_key_spells_the_id_in_the_order_of_its_members_names() -> None:
    found = coerce_row(keyed(), {"b": "x", "a": 7}, lambda: "made up")
    assert (found.id, found.is_new, found.violations) == ('["7","x"]', False, ())
    assert found.row == {"a": 7, "b": "x", "note": None, "id": '["7","x"]'}


def test_a_row_without_an_identity_gets_a_new_one() -> None:
    loose = CATALOG.node("Loose")
    assert loose is not None
    assert coerce_row(loose, {}, lambda: "made up").id == "made up"
    given = coerce_row(loose, {"id": "mine"}, lambda: "made up")
    assert (given.id, given.is_new) == ("mine", False)
    wrong = coerce_row(loose, {"id": 7}, lambda: "made up")
    assert (wrong.id, wrong.violations[0].property_name) == (None, "id")


def test_the_ends_of_an_edge_are_called_from_and_to() -> None:
    found = coerce_row(leads(), {"from": "x", "to": "y"}, lambda: "e1")
    assert found.row == {"id": "e1", "src": "x", "dst": "y", "since": None}
    misspelt = coerce_row(leads(), {"src": "x", "to": "y"}, lambda: "e1")
    assert [each.property_name for each in misspelt.violations] == ["src", "from"]
