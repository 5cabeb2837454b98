from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.compiler.ir import NOW_PARAMETER, Parameter, Value
from omnigraph.compiler.parameters import IntegerEncoding, bind
from omnigraph.errors import ParameterInvalid, UsageError


def bind_one(
    value_type: ValueType, value: object, mode: IntegerEncoding = IntegerEncoding.NATIVE
) -> Value:
    return bind([Parameter("p", value_type)], {"p": value}, mode)["p"]


def of(base: Scalar, *, is_list: bool = False, nullable: bool = False) -> ValueType:
    return ValueType(base, nullable=nullable, is_list=is_list)


@pytest.mark.parametrize(
    ("value_type", "given", "expected"),
    [
        (of(Scalar.STRING), "héllo", "héllo"),
        (of(Scalar.BLOB), "base64:AA==", "base64:AA=="),
        (of(Scalar.BLOB), b"\x00", "base64:AA=="),
        (of(Scalar.BOOL), False, False),
        (of(Scalar.I32), -(2**31), -(2**31)),
        (of(Scalar.I64), "-9223372036854775808", -(2**63)),
        (of(Scalar.U32), 2**32 - 1, 2**32 - 1),
        (of(Scalar.U64), "9007199254740993", 9007199254740993),
        (of(Scalar.F64), 3, 3.0),
        (of(Scalar.F32), 0.1, 0.10000000149011612),
        (of(Scalar.DATE), "2024-05-01", 19844),
        (of(Scalar.DATE), date(2024, 5, 1), 19844),
        (of(Scalar.DATETIME), "2024-05-01T10:00:00+02:00", 1714550400000),
        (of(Scalar.DATETIME), datetime(2024, 5, 1, 8, tzinfo=UTC), 1714550400000),
        (
            of(Scalar.DATETIME),
            datetime(2024, 5, 1, 10, tzinfo=timezone(timedelta(hours=2))),
            1714550400000,
        ),
        (of(Scalar.STRING, is_list=True), ["a", "b"], ("a", "b")),
        (of(Scalar.I64, is_list=True), ["1", 2], (1, 2)),
        (of(Scalar.DATE, is_list=True), [], ()),
        (ValueType(Vector(2)), [1, 0.5], (1.0, 0.5)),
        (of(Scalar.I64, nullable=True), None, None),
    ],
)
def test_a_value_that_fits_becomes_canonical(
    value_type: ValueType, given: object, expected: Value
) -> None:
    bound = bind_one(value_type, given)
    assert bound == expected
    assert type(bound) is type(expected)


@pytest.mark.parametrize(
    ("value_type", "given", "reason"),
    [
        (of(Scalar.STRING), 3, "expected a string, got an integer"),
        (of(Scalar.STRING), None, "it cannot be null"),
        (of(Scalar.STRING), "\ud800", "half of a surrogate pair"),
        (of(Scalar.BLOB), 3, "expected a string, got an integer"),
        (of(Scalar.STRING), b"x", "expected a string, got a bytes"),
        (of(Scalar.BOOL), 1, "expected a boolean"),
        (of(Scalar.I32), 2**31, "out of range"),
        (of(Scalar.I32), "2147483648", "out of range"),
        (of(Scalar.I64), 3.0, "expected an integer"),
        (of(Scalar.I64), True, "expected an integer, got a boolean"),
        (of(Scalar.I64), "1_000", "expected an integer"),
        (of(Scalar.I64), " 1", "expected an integer"),
        (of(Scalar.I64), "١", "expected an integer"),
        (of(Scalar.I64), "9" * 5000, "expected an integer"),
        pytest.param(of(Scalar.I64), 10**5000, "out of range", id="too long to print"),
        (of(Scalar.U32), -1, "out of range"),
        (of(Scalar.U64), 2**63, "out of range"),
        (of(Scalar.F64), "1.5", "expected a number, got a string"),
        (of(Scalar.F64), True, "expected a number, got a boolean"),
        (of(Scalar.F64), float("nan"), "not finite"),
        (of(Scalar.F64), float("-inf"), "not finite"),
        (of(Scalar.F64), 10**400, "out of range"),
        (of(Scalar.F32), 1e39, "out of range"),
        (of(Scalar.F32), 10**400, "out of range"),
        (of(Scalar.DATE), "2024-02-30", "invalid Date literal '2024-02-30'"),
        (of(Scalar.DATE), datetime(2024, 5, 1, tzinfo=UTC), "got a datetime"),
        (of(Scalar.DATE), 19844, "expected a string"),
        (of(Scalar.DATETIME), "now", "invalid DateTime literal 'now'"),
        (of(Scalar.STRING, is_list=True), "ab", "expected an array, got a string"),
        (of(Scalar.STRING, is_list=True), ["a", None], "element 2: expected a string, got null"),
        (of(Scalar.STRING, is_list=True), {"a": 1}, "expected an array, got an object"),
        (ValueType(Vector(2)), [1], "expected 2 dimensions, got 1"),
        (ValueType(Vector(2)), [1, "x"], "expected a number"),
        (ValueType(Vector(2)), [1, float("inf")], "not finite"),
        (ValueType(Vector(2)), [1, 1e39], "range of F32"),
        (ValueType(Vector(2)), "ab", "expected an array"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(
    value_type: ValueType, given: object, reason: str
) -> None:
    with pytest.raises(ParameterInvalid) as caught:
        bind_one(value_type, given)
    assert caught.value.name == "p"
    assert caught.value.declared == str(value_type)
    assert reason in caught.value.reason


def test_a_missing_required_parameter_is_refused_before_anything_runs() -> None:
    with pytest.raises(ParameterInvalid, match=r"'\$p' \(String\): it is required and missing"):
        bind([Parameter("p", of(Scalar.STRING))], {})


@pytest.mark.parametrize("misspelt", ["nmae", "NAME", "$name", "names"])
def test_a_missing_parameter_is_found_under_a_name_that_resembles_it(misspelt: str) -> None:
    declared = [Parameter("age", of(Scalar.I32)), Parameter("name", of(Scalar.STRING))]
    with pytest.raises(ParameterInvalid) as caught:
        bind(declared, {"age": 1, "colour": 2, misspelt: "Ada"})
    expected = f"it is required and missing; '{misspelt}' was given: did you mean 'name'?"
    assert (caught.value.name, caught.value.reason) == ("name", expected)


def test_a_name_that_is_declared_is_not_taken_for_another_one() -> None:
    declared = [Parameter("name", of(Scalar.STRING)), Parameter("names", of(Scalar.STRING))]
    with pytest.raises(ParameterInvalid, match=r"missing$"):
        bind(declared, {"names": "Ada", "colour": 2})


@pytest.mark.parametrize("given", [None, {}])
def test_a_missing_nullable_parameter_is_null(given: Mapping[str, object] | None) -> None:
    assert bind([Parameter("p", of(Scalar.STRING, nullable=True))], given) == {"p": None}


def test_what_the_query_does_not_declare_is_ignored() -> None:
    assert bind([], {"x": object(), "y": {"z": 1}}) == {}


def test_the_instant_of_execution_can_be_fixed() -> None:
    bound = bind([], {NOW_PARAMETER: "2024-05-01T08:00:00Z"})
    assert bound == {NOW_PARAMETER: 1714550400000}
    with pytest.raises(ParameterInvalid):
        bind([], {NOW_PARAMETER: "yesterday"})


@pytest.mark.parametrize("given", [[], "x", 3])
def test_parameters_that_are_no_object_are_refused(given: object) -> None:
    with pytest.raises(UsageError, match="parameters are an object"):
        bind([], given)


def test_a_negative_limit_is_refused_when_it_is_bound() -> None:
    count = Parameter("n", of(Scalar.I64), is_count=True)
    assert bind([count], {"n": 0}) == {"n": 0}
    with pytest.raises(ParameterInvalid, match="not negative"):
        bind([count], {"n": -1})


def test_javascript_sends_whole_floats_and_large_integers_as_strings() -> None:
    integer = of(Scalar.I64)
    assert bind_one(integer, 3.0, IntegerEncoding.JAVASCRIPT) == 3
    assert bind_one(integer, 2**53 - 1, IntegerEncoding.JAVASCRIPT) == 2**53 - 1
    assert bind_one(integer, str(2**53), IntegerEncoding.JAVASCRIPT) == 2**53
    for given in (2**53, -(2.0**53), 1e300, 3.5, float("inf"), float("nan")):
        with pytest.raises(ParameterInvalid):
            bind_one(integer, given, IntegerEncoding.JAVASCRIPT)
