"""Literals: which value each one is, and whether a property can hold it."""

from enum import Enum, auto
from typing import TypeGuard, assert_never

from omnigraph.catalog.precision import to_double, to_single, to_singles
from omnigraph.catalog.temporal import TemporalInvalid, parse_date, parse_datetime
from omnigraph.catalog.types import (
    INTEGER_BOUNDS,
    NUMBERS,
    Scalar,
    ValueType,
    Vector,
    are_compatible,
)
from omnigraph.compiler.ir import (
    BOOL,
    DATE,
    DATETIME,
    F64,
    I64,
    STRING,
    Constant,
    Scalarish,
    Value,
)
from omnigraph.compiler.resolve.context import Context
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import rank_candidates
from omnigraph.compiler.typecheck import TypeProblem, describe, hint_for_text
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span


class Use(Enum):
    """What a literal is put next to a property for."""

    ASSIGN = auto()
    """It becomes the value: null where null may be, no fractions or `2.0` for integers."""
    MATCH = auto()
    """It is compared by value, so it must be a value that can occur."""


# ── from text to value ───────────────────────────────────────────────────────────────────────────


def resolve_literal(literal: ast.LiteralValue, context: Context) -> Constant | None:
    """The constant a literal stands for, with the narrowest type the language gives it."""
    match literal:
        case ast.Literal(value, span):
            return Constant(value, _type_plain(value), span)
        case ast.Null(span):
            return Constant(None, None, span)
        case ast.DateLiteral(text, span) | ast.DateTimeLiteral(text, span):
            return _resolve_temporal(literal, text, span, context)
        case ast.ListLiteral(items, span):
            return _resolve_list(items, span, context)
        case _:
            assert_never(literal)


def _type_plain(value: str | float) -> ValueType:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, str):
        return STRING
    # The parser refuses integers that an I64 does not hold, and floats that are not finite.
    return I64 if isinstance(value, int) else F64


def _holds(integer: Scalar, value: int) -> bool:
    low, high = INTEGER_BOUNDS[integer]
    return low <= value <= high


def _resolve_temporal(
    literal: ast.DateLiteral | ast.DateTimeLiteral, text: str, span: Span, context: Context
) -> Constant | None:
    is_date = isinstance(literal, ast.DateLiteral)
    try:
        if is_date:
            return Constant(parse_date(text), DATE, span)
        return Constant(parse_datetime(text), DATETIME, span)
    except TemporalInvalid as error:
        name = "Date" if is_date else "DateTime"
        context.report(
            TypeProblem(QueryRule.U13, f"invalid {name} literal '{text}': {error}"), span
        )
        return None


def _resolve_list(
    items: tuple[ast.LiteralValue, ...], span: Span, context: Context
) -> Constant | None:
    values: list[Scalarish] = []
    item_type: ValueType | None = None
    is_whole = True
    for item in items:
        if isinstance(item, ast.ListLiteral | ast.Null):
            what = "null" if isinstance(item, ast.Null) else "a list"
            message = f"{what} cannot be an element of a list"
            context.report(TypeProblem(QueryRule.U5, message), item.span)
            is_whole = False
            continue
        constant = resolve_literal(item, context)
        if constant is None or constant.type is None:
            is_whole = False
            continue
        if item_type is not None and not are_compatible(item_type, constant.type):
            message = f"a list holds values of one type, here {item_type} and {constant.type}"
            context.report(TypeProblem(QueryRule.U5, message), item.span)
            is_whole = False
            continue
        item_type = constant.type if item_type is None else _wider(item_type, constant.type)
        assert not isinstance(constant.value, tuple)
        values.append(constant.value)
    if not is_whole:
        return None
    return Constant(tuple(values), as_list(item_type or STRING), span)


def _wider(left: ValueType, right: ValueType) -> ValueType:
    """Of two compatible literal types, the one that covers both."""
    return F64 if F64 in (left, right) else left


def as_list(item: ValueType) -> ValueType:
    return ValueType(item.base, is_list=True, enum_values=item.enum_values)


# ── from value to property ───────────────────────────────────────────────────────────────────────


def fit(constant: Constant, wanted: ValueType, *, target: str, use: Use) -> Constant | TypeProblem:
    """The constant as a value of the wanted type, or why it cannot be one.

    `target` names what it is for, as in `Artwork.title`.
    """
    if constant.type is None:
        return _fit_null(constant, wanted, target=target, use=use)
    reason = _find_shape_misfit(constant, wanted)
    fitted: Value | _Misfit
    if reason is not None:
        fitted = reason
    elif isinstance(constant.value, tuple):
        fitted = _fit_items(constant.value, constant.type, wanted, use)
    else:
        fitted = _fit_scalar(constant.value, constant.type, wanted, use)
    if isinstance(fitted, _Misfit):
        hint = fitted.hint or hint_for_text(constant, wanted)
        return TypeProblem(
            QueryRule.T3,
            f"{target} is {wanted}: {fitted.reason}",
            hint,
            expected=(str(wanted),),
            candidates=fitted.candidates,
        )
    return Constant(fitted, wanted.required(), constant.span)


class _Misfit:
    """Why a value does not fit."""

    def __init__(
        self, reason: str, hint: str | None = None, candidates: tuple[str, ...] = ()
    ) -> None:
        self.reason = reason
        self.hint = hint
        self.candidates = candidates


def _fit_null(
    constant: Constant, wanted: ValueType, *, target: str, use: Use
) -> Constant | TypeProblem:
    if use is Use.MATCH:
        message = f"{target} is compared with null, which never matches"
        return TypeProblem(QueryRule.U11, message, "null is tested in a filter, with `is null`")
    if not wanted.nullable:
        return TypeProblem(QueryRule.T3, f"{target} is {wanted}: it cannot be null")
    return Constant(None, wanted, constant.span)


def _find_shape_misfit(constant: Constant, wanted: ValueType) -> _Misfit | None:
    """Lists go to lists and vectors, scalars to scalars, and nothing goes to a Blob."""
    is_sequence = isinstance(constant.value, tuple)
    if wanted.is_blob:
        return _Misfit("a literal cannot be a Blob", "pass it as a parameter of type Blob")
    if isinstance(wanted.base, Vector):
        if not isinstance(constant.value, tuple):
            return _Misfit(f"expected a list of {wanted.base.dimension} numbers")
        count = len(constant.value)
        if count != wanted.base.dimension:
            return _Misfit(f"expects {wanted.base.dimension} dimensions, got {count}")
        return None
    if wanted.is_list and not is_sequence:
        return _Misfit(f"expected a list, got {describe(constant)}", "put it in brackets")
    if not wanted.is_list and is_sequence:
        return _Misfit("a list is not a single value")
    return None


def _fit_items(
    values: tuple[Scalarish, ...], given: ValueType, wanted: ValueType, use: Use
) -> Value | _Misfit:
    if isinstance(wanted.base, Vector):
        numbers = [each for each in values if is_number(each)]
        singles = to_singles(numbers) if len(numbers) == len(values) else None
        return singles if singles is not None else _Misfit("every element must be an F32 number")
    item = wanted.item
    fitted: list[Scalarish] = []
    for value in values:
        element = _fit_scalar(value, given.item, item, use)
        if isinstance(element, _Misfit):
            reason = f"element {len(fitted) + 1}: {element.reason}"
            return _Misfit(reason, element.hint, element.candidates)
        fitted.append(element)
    return tuple(fitted)


def _fit_scalar(
    value: Scalarish, given: ValueType, wanted: ValueType, use: Use
) -> Scalarish | _Misfit:
    if not are_compatible(given, wanted):
        return _Misfit(f"{given} does not fit")
    if wanted.enum_values is not None and value not in wanted.enum_values:
        allowed = ", ".join(wanted.enum_values)
        candidates = rank_candidates(str(value), wanted.enum_values)
        return _Misfit(f"invalid enum value '{value}'", f"allowed: {allowed}", candidates)
    if wanted.base in NUMBERS and is_number(value):
        return _fit_number(value, wanted, use)
    return value


def _fit_number(value: float, wanted: ValueType, use: Use) -> Scalarish | _Misfit:
    if wanted.base is Scalar.F64 or wanted.base is Scalar.F32:
        stored = to_single(value) if wanted.base is Scalar.F32 else to_double(value)
        return _Misfit(f"{value} is out of range") if stored is None else stored
    if isinstance(value, float):
        if use is Use.ASSIGN or not value.is_integer():
            return _Misfit(f"{value!r} is not an integer")
        value = int(value)
    assert isinstance(wanted.base, Scalar)
    if not _holds(wanted.base, value):
        low, high = INTEGER_BOUNDS[wanted.base]
        return _Misfit(f"{value} is out of range", f"{wanted.base} goes from {low} to {high}")
    return value


def is_number(value: Scalarish) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
