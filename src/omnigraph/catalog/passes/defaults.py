"""`@default(literal)`: the property must accept the value.

Rows that are older than the property get the value when the schema is applied.
"""

import struct
from collections.abc import Sequence

from omnigraph.catalog.model import Check, Range
from omnigraph.catalog.passes.draft import DraftConstraint, DraftProperty, DraftType, Findings
from omnigraph.catalog.regex import PatternInvalid, compile_pattern
from omnigraph.catalog.rules import SchemaRule
from omnigraph.catalog.temporal import TemporalInvalid, parse_date, parse_datetime
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, INTEGERS, Scalar, ValueType
from omnigraph.lang.schema import ast

Value = str | int | float | bool


def check_defaults(draft: DraftType, findings: Findings) -> None:
    for each in draft.properties:
        defaults = [a for a in each.written.annotations if a.name == "default"]
        for repeated in defaults[1:]:
            findings.add(SchemaRule.A17, f"@default of {each.place} is repeated", repeated.span)
        for default in defaults[:1]:
            _check_default(default, each, draft.constraints, findings)


def _check_default(
    default: ast.Annotation,
    property_: DraftProperty,
    constraints: Sequence[DraftConstraint],
    findings: Findings,
) -> None:
    value_type = property_.type
    literal = default.value
    if value_type.is_list or value_type.is_vector or value_type.is_blob:
        message = f"@default cannot stand on {property_.place}, which is {value_type}"
        findings.add(SchemaRule.A18, message, default.span)
    elif not isinstance(literal, ast.Literal) or default.keywords:
        findings.add(
            SchemaRule.A17,
            f"@default of {property_.place} takes one literal",
            default.span,
            hint='for example @default("new"), @default(3) or @default(true)',
        )
    else:
        fault = find_misfit(literal.value, value_type) or _find_broken(
            literal.value, property_.name, constraints
        )
        if fault is not None:
            shown = f'"{literal.text}"' if isinstance(literal.value, str) else literal.text
            message = f"@default of {property_.place}: {shown} {fault}"
            findings.add(SchemaRule.A19, message, literal.span)


def find_misfit(value: Value, value_type: ValueType) -> str | None:
    """Why a literal is not a value of a scalar type; the text continues the literal."""
    base = value_type.base
    assert isinstance(base, Scalar)
    match value:
        case bool() if base is Scalar.BOOL:
            return None
        case str() if base is Scalar.STRING:
            allowed = value_type.enum_values
            return (
                None if allowed is None or value in allowed else f"is not {value_type.required()}"
            )
        case str() if base in {Scalar.DATE, Scalar.DATETIME}:
            return _find_temporal_misfit(value, base)
        case int() if base in INTEGERS and not isinstance(value, bool):
            low, high = INTEGER_BOUNDS[base]
            return None if low <= value <= high else f"does not fit in {base.value}"
        case int() | float() if base in FLOATS and not isinstance(value, bool):
            return None if _fits_float(value, base) else f"does not fit in {base.value}"
        case _:
            return f"is not {value_type.required()}"


def _fits_float(value: float, base: Scalar) -> bool:
    assert base in FLOATS
    try:
        struct.pack("<f" if base is Scalar.F32 else "<d", float(value))
    except OverflowError:
        return False
    return True


def _find_temporal_misfit(text: str, base: Scalar) -> str | None:
    try:
        parse_date(text) if base is Scalar.DATE else parse_datetime(text)
    except TemporalInvalid as invalid:
        return f"is not a {base.value}: {invalid}"
    return None


def _find_broken(value: Value, name: str, constraints: Sequence[DraftConstraint]) -> str | None:
    """The constraint of the property that its default would break."""
    for constraint in constraints:
        match constraint.value:
            case Range(property=on, low=low, high=high) if on == name and not isinstance(
                value, str
            ):
                if (low is not None and value < low) or (high is not None and value > high):
                    return "is outside its @range"
            case Check(property=on, pattern=pattern) if on == name and isinstance(value, str):
                try:
                    compiled = compile_pattern(pattern)
                    if compiled.is_too_long(value) or not compiled.is_found_in(value):
                        return "does not match its @check"
                except PatternInvalid:  # reported where the constraint stands
                    continue
            case _:
                pass
    return None
