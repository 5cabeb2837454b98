"""A schema on its way to a catalog: types resolved, interfaces expanded, places remembered.

Every pass of `catalog.build` reads a draft and adds to `Findings`. What is wrong is reported once
and then stood in for by something harmless, so that the later passes can look at the rest.
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
    """The type that wrote it down: for an inherited property, the interface."""

    @property
    def name(self) -> str:
        return self.written.name.text

    @property
    def place(self) -> str:
        """How messages call it: `Person.age`."""
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
    """Own ones in the order they were written, then inherited ones."""
    constraints: tuple[DraftConstraint, ...]
    """Those of the body; once the annotations are checked, also those written as annotations."""
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
    """What is wrong with a schema so far."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # A fault in an interface is met again in each node that implements it, and said once.
        self._found: dict[Diagnostic, None] = {}

    def add(self, rule: SchemaRule, message: str, span: Span, *, hint: str | None = None) -> None:
        found = Diagnostic(rule.value, rule.family, message, self._source, span, hint)
        self._found.setdefault(found)

    def sorted(self) -> tuple[Diagnostic, ...]:
        return sort_diagnostics(list(self._found))
