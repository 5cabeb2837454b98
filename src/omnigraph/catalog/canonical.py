"""The canonical order and spelling of a catalog, equal to those of the reference.

Equal schemas must give equal bytes in both programs, because the programs compare the hash of the
bytes. So the sort keys and the text of floats are exactly those of the reference.
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Literal, assert_never

from omnigraph.catalog.model import (
    Annotation,
    Check,
    Constraint,
    IndexConstraint,
    Key,
    Range,
    Unique,
)
from omnigraph.catalog.names import spelling_of

EntityKind = Literal["interface", "node", "edge"]


def fnv1a_32(text: str) -> int:
    """The 32-bit FNV-1a hash of the UTF-8 bytes; 0 means «none» and is replaced by 1."""
    value = 2_166_136_261
    for byte in text.encode():
        value = ((value ^ byte) * 16_777_619) & 0xFFFF_FFFF
    return value or 1


def type_id(kind: EntityKind, name: str) -> int:
    return fnv1a_32(f"{kind}:{name}")


def property_id(kind: EntityKind, owner: str, name: str) -> int:
    return fnv1a_32(f"{kind}:{owner}:{name}")


def sort_annotations(annotations: list[Annotation]) -> tuple[Annotation, ...]:
    """By name, then by value, without a value first; keywords order repeated annotations."""
    return tuple(
        sorted(annotations, key=lambda a: (a.name, a.value is not None, a.value or "", a.keywords))
    )


def rename_columns(constraint: Constraint, renames: Mapping[str, str]) -> Constraint:
    match constraint:
        case Key(columns) | Unique(columns) | IndexConstraint(columns):
            renamed = (renames.get(each, each) for each in columns)
            return replace(constraint, columns=tuple(sorted(renamed, key=spelling_of)))
        case Range(name) | Check(name):
            return replace(constraint, property=renames.get(name, name))


def sort_constraints(constraints: list[Constraint]) -> tuple[Constraint, ...]:
    return tuple(sorted(constraints, key=_constraint_text))


def float_text(value: float) -> str:
    """The shortest text that parses to `value`, with the exponents of Rust's JSON.

    Python writes 1e+22 and 1e-05 where Rust writes 1e22 and 0.00001.
    """
    return _spelled(value, zeros_max=4)


def _spelled(value: float, *, zeros_max: int) -> str:
    """Up to `zeros_max` zeros after the point are written; more need an exponent."""
    sign, digits, point = _decimal_parts(value)
    if 0 < point <= 16:
        whole = digits[:point].ljust(point, "0")
        return f"{sign}{whole}.{digits[point:] or '0'}"
    if -zeros_max <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1}"


def _decimal_parts(value: float) -> tuple[str, str, int]:
    """Sign, digits without outer zeros, and the number of digits before the point."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "an infinite bound was let through"
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "-" if sign else "", "0", 1
    return "-" if sign else "", text.rstrip("0"), len(text) + exponent


def _constraint_text(constraint: Constraint) -> str:
    match constraint:
        case Key(columns):
            return f"key:{','.join(columns)}"
        case Unique(columns):
            return f"unique:{','.join(columns)}"
        case IndexConstraint(columns):
            return f"index:{','.join(columns)}"
        case Range(name, low, high):
            return f"range:{name}:{_bound_text(low)}:{_bound_text(high)}"
        case Check(name, pattern):
            return f"check:{name}:{pattern}"
        case _:
            assert_never(constraint)


def _bound_text(bound: float | None) -> str:
    """Rust's debug text, by which two ranges of one property are sorted."""
    match bound:
        case None:
            return "None"
        case int():
            return f"Some(Integer({bound}))"
        case _:
            return f"Some(Float({_spelled(bound, zeros_max=3)}))"
