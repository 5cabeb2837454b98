"""The tree of a `.pg` program: what was written, in the order it was written.

Values are frozen; two trees are equal if they have the same content, at whatever place.
"""

from dataclasses import dataclass, field

from omnigraph.lang.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier and its place."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal of the schema language. There is no null, no list, no sign."""

    value: str | int | float | bool
    text: str
    """The value as annotations keep it: `3`, `0.5`, `true`, or the string without its quotes."""
    span: Span = field(default=NOWHERE, compare=False)

    def __eq__(self, other: object) -> bool:  # 1 == True in Python, never here
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Range:
    """`low..high`, either side open."""

    low: int | float | None
    high: int | float | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name`, `@name(value)` or `@name(value, keyword=value…)`."""

    name: str
    value: Literal | Name | None
    keywords: tuple[tuple[str, Literal], ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Constraint:
    """`@key(…)`, `@unique(…)`, `@index(…)`, `@range(…)` or `@check(…)`, arguments unchecked."""

    name: str
    arguments: tuple[Name | Literal | Range, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TypeRef:
    """The type of a property, as written. Exactly one of `base`, `dimension`, `enum` is set."""

    base: str | None
    dimension: int | None
    enum: tuple[Name, ...] | None
    is_list: bool
    nullable: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Property:
    name: Name
    type: TypeRef
    annotations: tuple[Annotation, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Interface:
    name: Name
    properties: tuple[Property, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Node:
    name: Name
    annotations: tuple[Annotation, ...]
    implements: tuple[Name, ...]
    members: tuple[Property | Constraint, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cardinality:
    """`@card(low..high)`; `high` is None when open."""

    low: int
    high: int | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Edge:
    name: Name
    sources: tuple[Name, ...]
    targets: tuple[Name, ...]
    cardinality: Cardinality | None
    annotations: tuple[Annotation, ...]
    members: tuple[Property | Constraint, ...]
    span: Span = field(default=NOWHERE, compare=False)


Declaration = Interface | Node | Edge


@dataclass(frozen=True, slots=True)
class Schema:
    declarations: tuple[Declaration, ...]
