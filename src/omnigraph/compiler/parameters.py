"""The values of one call: checked against the declared types before anything runs.

Values arrive as JSON, or as Python objects that look like it, and leave in the canonical form of
`ir`: a Date as days, a DateTime as milliseconds, lists and vectors as tuples, an F32 rounded to
what is stored. What the query does not declare is ignored.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import assert_never

from omnigraph.catalog.fitting import (
    Misfit,
    fit_blob_text,
    fit_boolean,
    fit_float,
    fit_moment,
    fit_text,
    spell_kind,
)
from omnigraph.catalog.precision import to_singles
from omnigraph.catalog.types import INTEGER_BOUNDS, Scalar, ValueType, Vector
from omnigraph.compiler.functions import find_pattern_problem
from omnigraph.compiler.ir import DATETIME, NOW_PARAMETER, Parameter, Scalarish, Value
from omnigraph.errors import ParameterInvalid, UsageError
from omnigraph.lang.syntax import close_match

_SAFE_MAX = 2**53 - 1
"""Beyond this a number may have lost digits on its way through JavaScript."""

_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)

_BOUNDS = INTEGER_BOUNDS | {Scalar.U64: (0, INTEGER_BOUNDS[Scalar.I64][1])}
"""The language counts in 64 signed bits: a U64 parameter has one bit less than a property."""


class IntegerEncoding(Enum):
    """Who wrote the numbers."""

    NATIVE = auto()
    JAVASCRIPT = auto()
    """Integers may arrive as integral floats; large ones must arrive as decimal strings."""


def bind(
    parameters: Sequence[Parameter], given: object, mode: IntegerEncoding = IntegerEncoding.NATIVE
) -> Mapping[str, Value]:
    """A value for every declared parameter, and for the instant of execution if one is given.

    Raises ParameterInvalid for a missing required parameter or a value that does not fit, and
    UsageError when `given` is neither a mapping nor None.
    """
    if given is None:
        given = {}
    if not isinstance(given, dict | Mapping):
        raise UsageError(f"parameters are an object of names and values, not {spell_kind(given)}")
    for each in parameters:
        if each.name not in given and not each.type.nullable:
            reason = f"it is required and missing{_find_misspelt(each.name, parameters, given)}"
            raise ParameterInvalid(each.name, declared=str(each.type), reason=reason)
    values = {each.name: _bind_one(each, given, mode) for each in parameters}
    if NOW_PARAMETER in given:
        now = Parameter(NOW_PARAMETER, DATETIME)
        values[NOW_PARAMETER] = _bind_one(now, given, mode)
    return values


def _bind_one(parameter: Parameter, given: Mapping[object, object], mode: IntegerEncoding) -> Value:
    try:
        value = given.get(parameter.name)
        if value is None:
            return _fit_null(parameter)
        if type(value) is str and value.isascii() and parameter.is_plain_text:
            return value
        return _fit_use(_fit(value, parameter.type, mode), parameter)
    except Misfit as misfit:
        declared, reason = str(parameter.type), str(misfit)
        raise ParameterInvalid(parameter.name, declared=declared, reason=reason) from None


def _find_misspelt(
    name: str, parameters: Sequence[Parameter], given: Mapping[object, object]
) -> str:
    """The end of a message: a given name that nothing declares, and that resembles this one."""
    declared = {each.name for each in parameters}
    unknown = [each for each in given if isinstance(each, str) and each not in declared]
    alike = [each for each in unknown if close_match(each.casefold(), {name.casefold()})]
    return f"; '{alike[0]}' was given: did you mean '{name}'?" if alike else ""


def _fit_null(parameter: Parameter) -> Value:
    if parameter.type.nullable:
        return None
    raise Misfit("it cannot be null")


def _fit_use(value: Value, parameter: Parameter) -> Value:
    if parameter.is_count and isinstance(value, int) and value < 0:
        raise Misfit(f"a count is not negative, got {value}")
    if parameter.is_fraction and isinstance(value, int | float) and not 0 <= value <= 1:
        raise Misfit(f"a fraction lies between 0 and 1, got {value}")
    if parameter.is_pattern and isinstance(value, str):
        problem = find_pattern_problem(value)
        if problem is not None:
            raise Misfit(f"it is not a pattern: {problem}")
    return value


def _fit(value: object, wanted: ValueType, mode: IntegerEncoding) -> Value:
    if isinstance(wanted.base, Vector):
        return _fit_vector(value, wanted.base.dimension)
    if not wanted.is_list:
        return _fit_scalar(value, wanted.scalar, mode)
    items: list[Scalarish] = []
    for item in _as_array(value):
        try:
            items.append(_fit_scalar(item, wanted.scalar, mode))
        except Misfit as misfit:
            raise Misfit(f"element {len(items) + 1}: {misfit}") from None
    return tuple(items)


def _as_array(value: object) -> Sequence[object]:
    if isinstance(value, list | tuple):
        return value
    raise Misfit(f"expected an array, got {spell_kind(value)}")


def _fit_vector(value: object, dimension: int) -> tuple[float, ...]:
    items = _as_array(value)
    if len(items) != dimension:
        raise Misfit(f"expected {dimension} dimensions, got {len(items)}")
    numbers = [fit_float(item, Scalar.F64) for item in items]
    singles = to_singles(numbers)
    if singles is None:
        raise Misfit("an element lies beyond the range of F32")
    return singles


def _fit_scalar(value: object, wanted: Scalar, mode: IntegerEncoding) -> Scalarish:
    match wanted:
        case Scalar.STRING:
            return fit_text(value)
        case Scalar.BLOB:
            return fit_blob_text(value)
        case Scalar.BOOL:
            return fit_boolean(value)
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _fit_integer(value, wanted, mode)
        case Scalar.F32 | Scalar.F64:
            return fit_float(value, wanted)
        case Scalar.DATE | Scalar.DATETIME:
            return fit_moment(value, wanted)
        case _:
            assert_never(wanted)


def _fit_integer(value: object, wanted: Scalar, mode: IntegerEncoding) -> int:
    low, high = _BOUNDS[wanted]
    number = _read_integer(value, mode)
    if not low <= number <= high:
        raise Misfit(f"the number is out of range, {low} to {high}")
    return number


def _read_integer(value: object, mode: IntegerEncoding) -> int:
    match value:
        case str() if _INTEGER.fullmatch(value):
            return int(value)
        case bool():
            raise Misfit("expected an integer, got a boolean")
        case int():
            number = value
        case float() if mode is IntegerEncoding.JAVASCRIPT and value.is_integer():
            number = int(value)
        case _:
            raise Misfit(f"expected an integer, got {spell_kind(value)}")
    if mode is IntegerEncoding.JAVASCRIPT and abs(number) > _SAFE_MAX:
        raise Misfit(f"integers beyond ±{_SAFE_MAX} must be given as decimal strings")
    return number
