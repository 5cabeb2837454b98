"""Texts that a property of an enum is compared with, and that the enum does not have.

An enum compares like a String, so such a read is valid, but what it asks is the same for every row.
"""

from collections.abc import Iterator

from omnigraph.compiler.ir import (
    Comparator,
    Compare,
    Condition,
    Constant,
    Member,
    Not,
    Operand,
    PropertyOf,
    Read,
)
from omnigraph.compiler.scope import atoms_of, conditions_in, is_named
from omnigraph.compiler.spelling import closest
from omnigraph.lang.source import Source, Span

_EQUALITY = (Comparator.EQ, Comparator.NE)


def find_missing_members(query: Read, source: Source) -> Iterator[str]:
    """A warning for each, with the member that may have been meant."""
    having = () if query.having is None else atoms_of(query.having)
    for condition in (*conditions_in(query.steps), *having):
        for held, text, span in _compared(condition):
            members = held.type.enum_values
            if members is None or text in members:
                continue
            best = closest(text, members)
            hint = f"did you mean '{best}'?" if best else f"it has {', '.join(members)}"
            place = f"{source.line_at(span.start)}:{source.column_at(span.start)}"
            owner = f" of `${held.variable}`" if is_named(held.variable) else ""
            yield f"{place}: the enum {held.spelling}{owner} has no '{text}'; {hint}"


def _compared(condition: Condition) -> Iterator[tuple[PropertyOf, str, Span]]:
    """The properties that a test compares with a text, and the text."""
    match condition:
        case Not(test):
            yield from _compared(test)
        case Compare(left, comparator, right) if comparator in _EQUALITY:
            yield from _paired(left, right, condition.span)
            yield from _paired(right, left, condition.span)
        case Member(PropertyOf() as held, tuple() as options):
            for each in options:
                yield from _paired(held, each, condition.span)
        case Member(PropertyOf() as held, Constant(tuple() as values)):
            yield from ((held, each, condition.span) for each in values if isinstance(each, str))
        case _:
            pass


def _paired(held: Operand, value: Operand, span: Span) -> Iterator[tuple[PropertyOf, str, Span]]:
    if (
        isinstance(held, PropertyOf)
        and isinstance(value, Constant)
        and isinstance(value.value, str)
    ):
        yield held, value.value, span
