"""Pass C: whether constraints fit the properties that they name."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from omnigraph.catalog.model import Check, IndexConstraint, Key, Range, Unique
from omnigraph.catalog.passes.draft import DraftConstraint, DraftProperty, DraftType, Findings
from omnigraph.catalog.regex import PatternInvalid, PatternTooLarge, compile_pattern
from omnigraph.catalog.rules import SchemaRule
from omnigraph.catalog.types import INTEGER_BOUNDS, Scalar
from omnigraph.lang.source import Span
from omnigraph.lang.syntax import close_match

EDGE_ENDS: Final = frozenset({"src", "dst"})


def check_constraints(draft: DraftType, findings: Findings) -> None:
    keys = [each for each in draft.constraints if isinstance(each.value, Key)]
    for extra in keys[1:]:
        findings.add(
            SchemaRule.C2,
            f"{draft.kind} {draft.name.text} has a second @key",
            extra.span,
            hint="a key of several properties is one constraint: @key(a, b)",
        )
    for each in keys if draft.kind == "edge" else ():
        if not {name.text for name in each.names} >= EDGE_ENDS:
            findings.add(
                SchemaRule.C14,
                f"the key of edge {draft.name.text} does not name both of its ends",
                each.span,
                hint="write @key(src, dst), and behind them properties if there are any",
            )
    for each in draft.constraints:
        if draft.kind == "edge" and isinstance(each.value, Range | Check):
            name = type(each.value).__name__.lower()
            message = f"@{name} stands on edge {draft.name.text}; only nodes have it"
            findings.add(SchemaRule.C1, message, each.span)
        else:
            for member in _members(each, draft, findings):
                _check_member(each, member, findings)


@dataclass(frozen=True, slots=True)
class _Member:
    """A property that a constraint names, and the place of the name."""

    property: DraftProperty
    span: Span


def _members(
    constraint: DraftConstraint, draft: DraftType, findings: Findings
) -> Iterator[_Member]:
    ends = EDGE_ENDS if draft.kind == "edge" else frozenset[str]()
    seen: set[str] = set()
    for name in constraint.names:
        found = draft.find(name.text)
        if name.text in seen:
            findings.add(SchemaRule.C12, f"the constraint names '{name.text}' twice", name.span)
        elif found is not None:
            yield _Member(found, name.span)
        elif name.text not in ends:
            findings.add(
                SchemaRule.C3,
                f"{draft.kind} {draft.name.text} has no property '{name.text}'",
                name.span,
                hint=close_match(name.text, draft.property_names | ends),
            )
        seen.add(name.text)


def _check_member(constraint: DraftConstraint, member: _Member, findings: Findings) -> None:
    place, value_type = member.property.place, member.property.type
    is_compound = value_type.is_list or value_type.is_vector or value_type.is_blob
    match constraint.value:
        case Key() if value_type.nullable:
            message = f"{place} is a member of the key and nullable"
            findings.add(SchemaRule.C4, message, member.span, hint="remove the '?' of its type")
        case Key() if is_compound:
            message = f"{place} is a member of the key and {value_type}"
            findings.add(SchemaRule.C4, message, member.span)
        case IndexConstraint() if value_type.is_blob:
            findings.add(SchemaRule.C5, f"@index on {place}, which is a Blob", member.span)
        case Unique() if is_compound:
            findings.add(SchemaRule.C6, f"@unique on {place}, which is {value_type}", member.span)
        case Range() as bounds:
            if not value_type.is_number:
                message = f"@range on {place}, which is {value_type} and not a number"
                findings.add(SchemaRule.C7, message, member.span)
            _check_bounds(bounds, place, constraint.span, findings)
        case Check(_, pattern):
            if not value_type.is_string:
                message = f"@check on {place}, which is {value_type} and not String"
                findings.add(SchemaRule.C8, message, member.span)
            _check_pattern(pattern, place, constraint.span, findings)
        case _:
            pass


def _check_bounds(bounds: Range, place: str, span: Span, findings: Findings) -> None:
    low, high = bounds.low, bounds.high
    smallest, largest = INTEGER_BOUNDS[Scalar.I64]
    for bound in (low, high):
        # The canonical form stores an integer bound in 64 bits, here and in the reference.
        if isinstance(bound, int) and not smallest <= bound <= largest:
            findings.add(
                SchemaRule.C11,
                f"@range of {place}: {bound} does not fit in 64 bits with a sign",
                span,
                hint="write it with a decimal point, or leave that side open",
            )
    if low is not None and high is not None and low > high:
        message = f"@range of {place}: {low} is above {high}"
        findings.add(SchemaRule.C10, message, span, hint="no value could ever satisfy it")


def _check_pattern(pattern: str, place: str, span: Span, findings: Findings) -> None:
    try:
        compile_pattern(pattern)
    except PatternTooLarge as too_large:
        findings.add(SchemaRule.C13, f"@check of {place}: {too_large.reason}", span)
    except PatternInvalid as invalid:
        where = f"at character {invalid.at + 1} of the pattern"
        findings.add(SchemaRule.C9, f"@check of {place}: {invalid.reason}, {where}", span)
