"""The catalog: every type of a graph, immutable, in canonical order.

Everything here is sorted by name (byte order) when it is built, so that two schemas which say the
same are equal values, and tables made from them have the same columns in the same order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from omnigraph.catalog.types import ValueType
from omnigraph.ids import TableKey, table_key


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name(value, keyword=…)`, values kept as text."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of a node: its columns, sorted."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unique:
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexConstraint:
    """The wish for an index; only one column builds anything."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive numeric bounds; None is open. An int bound and a float bound are spelled apart."""

    property: str
    low: int | float | None
    high: int | float | None


@dataclass(frozen=True, slots=True)
class Check:
    """A pattern that must be found somewhere in the value."""

    property: str
    pattern: str


Constraint = Key | Unique | IndexConstraint | Range | Check


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    type: ValueType
    annotations: tuple[Annotation, ...] = ()

    def annotation(self, name: str) -> Annotation | None:
        return next((a for a in self.annotations if a.name == name), None)

    @property
    def embed(self) -> "Embed | None":
        """What `@embed` says: which property the vector comes from, and by which model."""
        annotation = self.annotation("embed")
        if annotation is None or annotation.value is None:
            return None
        return Embed(annotation.value, dict(annotation.keywords).get("model"))


@dataclass(frozen=True, slots=True)
class Embed:
    source: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Cardinality:
    """How many edges of one type may leave one source node."""

    low: int = 0
    high: int | None = None


class WantedIndexKind(StrEnum):
    BTREE = "btree"
    FULL_TEXT = "full_text"
    VECTOR = "vector"


def index_kind(value_type: ValueType) -> WantedIndexKind | None:
    """The index a property of this type gets, if any."""
    if value_type.is_list or value_type.is_blob:
        return None
    if value_type.is_vector:
        return WantedIndexKind.VECTOR
    if value_type.is_string and value_type.enum_values is None:
        return WantedIndexKind.FULL_TEXT
    return WantedIndexKind.BTREE


@dataclass(frozen=True)
class InterfaceType:
    """Properties that nodes may share. It has no table and cannot be bound."""

    name: str
    properties: tuple[Property, ...]


@dataclass(frozen=True)
class NodeType:
    name: str
    properties: tuple[Property, ...]
    """Own and inherited, sorted by name. The column `id` is not among them."""
    constraints: tuple[Constraint, ...] = ()
    implements: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @cached_property
    def _properties_by_name(self) -> dict[str, Property]:
        return {each.name: each for each in self.properties}

    def find(self, name: str) -> Property | None:
        return self._properties_by_name.get(name)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The members of `@key`, sorted; empty for a node without a key."""
        return next((each.columns for each in self.constraints if isinstance(each, Key)), ())

    @cached_property
    def indexes(self) -> tuple[tuple[str, WantedIndexKind], ...]:
        """What to build: `id`, then every single-column key or index, in constraint order."""
        wanted = {"id": WantedIndexKind.BTREE}
        for constraint in self.constraints:
            match constraint:
                case Key((column,)) | IndexConstraint((column,)):
                    kind = index_kind(self._properties_by_name[column].type)
                    if kind is not None:
                        wanted.setdefault(column, kind)
                case _:
                    pass
        return tuple(wanted.items())

    @property
    def table_key(self) -> TableKey:
        return table_key("node", self.name)


@dataclass(frozen=True)
class EdgeType:
    name: str
    source: str
    target: str
    properties: tuple[Property, ...] = ()
    """Sorted by name. The columns `id`, `src` and `dst` are not among them."""
    cardinality: Cardinality = Cardinality()
    constraints: tuple[Constraint, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @cached_property
    def _properties_by_name(self) -> dict[str, Property]:
        return {each.name: each for each in self.properties}

    def find(self, name: str) -> Property | None:
        return self._properties_by_name.get(name)

    @property
    def indexes(self) -> tuple[tuple[str, WantedIndexKind], ...]:
        """Edges are indexed by identity and by both ends; their properties are not."""
        return (
            ("id", WantedIndexKind.BTREE),
            ("src", WantedIndexKind.BTREE),
            ("dst", WantedIndexKind.BTREE),
        )

    @property
    def table_key(self) -> TableKey:
        return table_key("edge", self.name)


@dataclass(frozen=True)
class Catalog:
    """Every type of a graph. `catalog.build` and `catalog.codec` make it; nothing changes it."""

    interfaces: tuple[InterfaceType, ...] = ()
    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()

    @cached_property
    def _nodes_by_name(self) -> Mapping[str, NodeType]:
        return {each.name: each for each in self.nodes}

    @cached_property
    def _edges_by_name(self) -> Mapping[str, EdgeType]:
        return {each.name: each for each in self.edges}

    @cached_property
    def _edges_by_folded_name(self) -> Mapping[str, EdgeType]:
        return {each.name.lower(): each for each in self.edges}

    def node(self, name: str) -> NodeType | None:
        """By exact name."""
        return self._nodes_by_name.get(name)

    def edge(self, name: str) -> EdgeType | None:
        """By exact name, as mutations spell it."""
        return self._edges_by_name.get(name)

    def edge_named(self, name: str) -> EdgeType | None:
        """As traversals and load records spell it: the exact name, else whatever the case."""
        return self._edges_by_name.get(name) or self._edges_by_folded_name.get(name.lower())

    def edges_at(self, node: str) -> tuple[EdgeType, ...]:
        """The edge types that have this node type at either end."""
        return tuple(each for each in self.edges if node in (each.source, each.target))
