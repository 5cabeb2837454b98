"""The access paths of a scan, by its conditions and the schema alone.

No statistics are read, so paths are ranked and no row counts are estimated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from omnigraph.catalog.model import NodeType, WantedIndexKind
from omnigraph.catalog.types import INTEGERS, ValueType
from omnigraph.compiler.ir import (
    Comparator,
    Compare,
    Condition,
    Constant,
    IdOf,
    Member,
    Now,
    Operand,
    ParameterRef,
    PropertyOf,
    StringMatch,
    StringTest,
    TextMatch,
)
from omnigraph.compiler.scope import leaves_of


class Access(IntEnum):
    """Cheapest first."""

    KEY = 0
    EQUALITY = 1
    RANGE = 2
    TEXT = 3
    CONDITION = 4
    """A condition that is evaluated for every node."""
    EVERYTHING = 5


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One member of the key, or `id`, and its required value."""

    column: str
    value: Operand


def access_of(conditions: Sequence[Condition], node: NodeType) -> Access:
    """The cheapest path that these conditions on one node allow."""
    if find_key(conditions, node) is not None:
        return Access.KEY
    return min(map(_access, conditions), default=Access.EVERYTHING)


def find_key(conditions: Sequence[Condition], node: NodeType) -> tuple[KeyPart, ...] | None:
    """The parts that identify at most one node: its id, or every member of its key."""
    parts: dict[str, KeyPart] = {}
    for condition in conditions:
        match condition:
            case Compare(IdOf(), Comparator.EQ, value) if is_fixed(value):
                return (KeyPart("id", value),)
            case Compare(PropertyOf(name=name, type=held), Comparator.EQ, value) if (
                name in node.key and is_fixed(value) and is_spelled_alike(held, value)
            ):
                parts.setdefault(name, KeyPart(name, value))
            case _:
                pass
    if not node.key or len(parts) < len(node.key):
        return None
    return tuple(parts[name] for name in node.key)


def find_index(
    conditions: Sequence[Condition], node: NodeType
) -> tuple[str, WantedIndexKind] | None:
    """The index that serves the best of these conditions, if one was asked for.

    A text search comes first: it has no other way.
    """
    kinds = dict(node.indexes)
    searched = [each.target.name for each in conditions if isinstance(each, TextMatch)]
    for name in searched:
        if kinds.get(name) is WantedIndexKind.FULL_TEXT:
            return name, WantedIndexKind.FULL_TEXT
    for condition in sorted(conditions, key=_access):
        match condition:
            case Compare(PropertyOf(name=name)) | Member(PropertyOf(name=name)) if (
                _access(condition) <= Access.RANGE and kinds.get(name) is WantedIndexKind.BTREE
            ):
                return name, WantedIndexKind.BTREE
            case _:
                pass
    return None


def is_fixed(operand: Operand) -> bool:
    """Does the operand have one value for the whole execution?"""
    return all(isinstance(each, Constant | ParameterRef | Now) for each in leaves_of(operand))


def _access(condition: Condition) -> Access:
    match condition:
        case Compare(PropertyOf() | IdOf(), comparator, value) if is_fixed(value):
            match comparator:
                case Comparator.EQ:
                    return Access.EQUALITY
                case Comparator.NE:
                    return Access.CONDITION
                case _:
                    return Access.RANGE
        case Member(PropertyOf() | IdOf(), haystack) if (
            all(map(is_fixed, haystack)) if isinstance(haystack, tuple) else is_fixed(haystack)
        ):
            return Access.EQUALITY
        case StringMatch(PropertyOf(), StringTest.STARTS_WITH, pattern) if is_fixed(pattern):
            return Access.RANGE
        case TextMatch():
            return Access.TEXT
        case _:
            return Access.CONDITION


def is_spelled_alike(held: ValueType, value: Operand) -> bool:
    """An id is the text of the key: 2.0 equals the integer 2, but it would be spelled otherwise."""
    if value.type is None:
        return False
    return held.base == value.type.base or {held.base, value.type.base} <= INTEGERS
