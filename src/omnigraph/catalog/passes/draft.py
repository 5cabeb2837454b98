"""A schema between tree and catalog: types resolved, interfaces expanded, with source places.

Every pass of `catalog.build` reads a draft and adds to `Findings`. A fault is reported once and
replaced by a harmless value, so that later passes can check the rest.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from omnigraph.catalog.model import Cardinality, Constraint
from omnigraph.catalog.rules import SchemaRule
from omnigraph.catalog.types import ValueType
from omnigraph.lang.schema import ast
from omnigraph.lang.source import Diagnostic, Source, Span, sort_diagnostics


@dataclass(frozen=True, slots=True)
class DraftProperty:
    written: ast.Property
    type: ValueType
    owner: str
    """The type that declares it: for an inherited property, the interface."""

    @property
    def name(self) -> str:
        return self.written.name.text

    @property
    def place(self) -> str:
        """Its name in messages: `Person.age`."""
        return f"{self.owner}.{self.name}"


@dataclass(frozen=True, slots=True)
class DraftConstraint:
    value: Constraint
    names: tuple[ast.Name, ...]
    """The properties it names, as written."""
    span: Span


@dataclass(frozen=True, slots=True)
class DraftInterface:
    name: ast.Name
    properties: tuple[DraftProperty, ...]


@dataclass(frozen=True)
class DraftType:
    """A node or an edge."""

    kind: Literal["node", "edge"]
    name: ast.Name
    written: ast.Node | ast.Edge
    properties: tuple[DraftProperty, ...]
    """Its own properties as written, then the inherited ones."""
    constraints: tuple[DraftConstraint, ...]
    """Those of the body; after pass A also those that were written as annotations."""
    cardinality: Cardinality

    @cached_property
    def _properties_by_name(self) -> dict[str, DraftProperty]:
        return {each.name: each for each in self.properties}

    def find(self, name: str) -> DraftProperty | None:
        return self._properties_by_name.get(name)

    @property
    def property_names(self) -> frozenset[str]:
        return frozenset(self._properties_by_name)


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    interfaces: tuple[DraftInterface, ...]
    nodes: tuple[DraftType, ...]
    edges: tuple[DraftType, ...]

    @property
    def types(self) -> tuple[DraftType, ...]:
        return (*self.nodes, *self.edges)


class Findings:
    """The faults of a schema so far."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # Every node that implements an interface meets its faults again; they are reported once.
        self._found: dict[Diagnostic, None] = {}

    def add(self, rule: SchemaRule, message: str, span: Span, *, hint: str | None = None) -> None:
        found = Diagnostic(rule.value, rule.family, message, self._source, span, hint)
        self._found.setdefault(found)

    def sorted(self) -> tuple[Diagnostic, ...]:
        return sort_diagnostics(list(self._found))
