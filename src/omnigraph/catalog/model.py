"""The catalog: every type of a graph, immutable, in canonical order.

All parts are sorted by name (byte order) when the catalog is built. So equal schemas give equal
catalogs, and their tables have the same columns in the same order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from omnigraph.catalog.names import ID, ID_PROPERTY, SYSTEM_ID, column_of, spelling_of
from omnigraph.catalog.types import ValueType
from omnigraph.ids import TableKey, table_key

ENDS: Final = ("src", "dst")
"""The columns of the ends of an edge."""

PAIR_SEPARATOR: Final = "."
"""Stands in no declared name: `LocatedIn.Person.City` is a pair of the family `LocatedIn`."""


def family_of(name: str) -> str:
    """The name that a schema declares: of a pair the part before its ends, else the name."""
    return name.partition(PAIR_SEPARATOR)[0]


def pair_name(family: str, source: str, target: str) -> str:
    """The name of one pair of ends of an edge that is declared over several."""
    return PAIR_SEPARATOR.join((family, source, target))


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name(value, keyword=…)`, with values as text."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of a row: its columns, sorted by their spelling; for an edge with `src` and
    `dst` among them.
    """

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unique:
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexConstraint:
    """A request for an index; only one with a single column builds an index."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive numeric bounds; None is open. Integers and floats have different spellings."""

    property: str
    low: int | float | None
    high: int | float | None


@dataclass(frozen=True, slots=True)
class Check:
    """A pattern that must match somewhere in the value."""

    property: str
    pattern: str


Constraint = Key | Unique | IndexConstraint | Range | Check


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    """Its column."""
    type: ValueType
    annotations: tuple[Annotation, ...] = ()

    @property
    def spelling(self) -> str:
        """Its name in the schema, in programs and in data."""
        return spelling_of(self.name)

    def annotation(self, name: str) -> Annotation | None:
        return next((a for a in self.annotations if a.name == name), None)

    @property
    def embed(self) -> "Embed | None":
        """The content of `@embed`: the column that is embedded, and the model."""
        annotation = self.annotation("embed")
        if annotation is None or annotation.value is None:
            return None
        return Embed(column_of(annotation.value), dict(annotation.keywords).get("model"))


@dataclass(frozen=True, slots=True)
class Embed:
    source: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Cardinality:
    """The number of edges of one type that may leave one source node."""

    low: int = 0
    high: int | None = None


class WantedIndexKind(StrEnum):
    BTREE = "btree"
    FULL_TEXT = "full_text"
    VECTOR = "vector"


def index_kind(value_type: ValueType) -> WantedIndexKind | None:
    """The kind of index for a property of this type, if any."""
    if value_type.is_list or value_type.is_blob:
        return None
    if value_type.is_vector:
        return WantedIndexKind.VECTOR
    if value_type.is_string and value_type.enum_values is None:
        return WantedIndexKind.FULL_TEXT
    return WantedIndexKind.BTREE


def _uniques_among(constraints: tuple[Constraint, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(each.columns for each in constraints if isinstance(each, Unique))


@dataclass(frozen=True)
class InterfaceType:
    """Properties that several node types share. It has no table; to a query it is all of them."""

    name: str
    properties: tuple[Property, ...]


class _WithProperties:
    """What nodes and edges have in common: properties by column and by name."""

    properties: tuple[Property, ...]

    @cached_property
    def _properties_by_name(self) -> dict[str, Property]:
        return {each.name: each for each in self.properties}

    def find(self, column: str) -> Property | None:
        return self._properties_by_name.get(column)

    def named(self, name: str) -> Property | None:
        """The property that the schema calls so."""
        return None if name == ID_PROPERTY else self.find(column_of(name))

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The columns of properties that may not be null."""
        return tuple(each.name for each in self.properties if not each.type.nullable)

    @cached_property
    def enums(self) -> tuple[Property, ...]:
        """The properties that hold one of a few values."""
        return tuple(each for each in self.properties if each.type.enum_values is not None)

    @property
    def id_name(self) -> str:
        """The system's id in data: `id`, or `@id` where a property is called `id`."""
        return SYSTEM_ID if ID_PROPERTY in self._properties_by_name else ID


@dataclass(frozen=True)
class NodeType(_WithProperties):
    name: str
    properties: tuple[Property, ...]
    """Own and inherited, sorted by name. The column `id` is not among them."""
    constraints: tuple[Constraint, ...] = ()
    implements: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The members of `@key`, sorted; empty for a node without a key."""
        return next((each.columns for each in self.constraints if isinstance(each, Key)), ())

    @cached_property
    def indexes(self) -> tuple[tuple[str, WantedIndexKind], ...]:
        """The indexed columns: `id`, then every single-column key or index, by constraint order."""
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

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in the order of a new table."""
        return ("id", *self._properties_by_name)

    @cached_property
    def uniques(self) -> tuple[tuple[str, ...], ...]:
        """The column sets of `@unique`, in schema order."""
        return _uniques_among(self.constraints)

    @cached_property
    def table_key(self) -> TableKey:
        return table_key("node", self.name)


@dataclass(frozen=True)
class EdgeType(_WithProperties):
    name: str
    source: str
    target: str
    properties: tuple[Property, ...] = ()
    """Sorted by name. The columns `id`, `src` and `dst` are not among them."""
    cardinality: Cardinality = Cardinality()
    constraints: tuple[Constraint, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The members of `@key`: `src`, `dst`, then properties, sorted; empty without a key."""
        columns = next((each.columns for each in self.constraints if isinstance(each, Key)), ())
        own = tuple(each for each in columns if each not in ENDS)
        return (*ENDS, *own) if columns else ()

    @property
    def family(self) -> str:
        return family_of(self.name)

    @property
    def is_pair(self) -> bool:
        """One pair of ends of an edge that is declared over several."""
        return PAIR_SEPARATOR in self.name

    @property
    def indexes(self) -> tuple[tuple[str, WantedIndexKind], ...]:
        """Edges are indexed by `id`, `src` and `dst`; their properties are not."""
        return (
            ("id", WantedIndexKind.BTREE),
            ("src", WantedIndexKind.BTREE),
            ("dst", WantedIndexKind.BTREE),
        )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in the order of a new table."""
        return ("id", *ENDS, *self._properties_by_name)

    @cached_property
    def uniques(self) -> tuple[tuple[str, ...], ...]:
        """The column sets of `@unique`, in schema order."""
        return _uniques_among(self.constraints)

    @cached_property
    def table_key(self) -> TableKey:
        return table_key("edge", self.name)


def spell_ends(edges: Sequence[EdgeType]) -> str:
    """`Company | Person -> City`: the ends of an edge type, or of the pairs of a family."""
    ends = ({each.source for each in edges}, {each.target for each in edges})
    return " -> ".join(" | ".join(sorted(each)) for each in ends)


@dataclass(frozen=True)
class Catalog:
    """Every type of a graph. `catalog.build` and `catalog.codec` make it; it never changes."""

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
        """As in traversals and load records: by the exact name, or else ignoring case."""
        return self._edges_by_name.get(name) or self._edges_by_folded_name.get(name.lower())

    @cached_property
    def _families(self) -> Mapping[str, tuple[EdgeType, ...]]:
        """By name in lower case: the pairs of each edge that is declared over several ends."""
        found: dict[str, tuple[EdgeType, ...]] = {}
        for each in self.edges:
            if each.is_pair:
                name = each.family.lower()
                found[name] = (*found.get(name, ()), each)
        return found

    @cached_property
    def edge_names(self) -> tuple[str, ...]:
        """As the schema declares them: a family counts once."""
        return tuple(dict.fromkeys(each.family for each in self.edges))

    def pairs(self, name: str) -> tuple[EdgeType, ...]:
        """The pairs of an edge that is declared over several ends, by its exact name."""
        found = self._families.get(name.lower(), ())
        return found if found and found[0].family == name else ()

    def edges_named(self, name: str) -> tuple[EdgeType, ...]:
        """What a name means in a traversal: one edge type, or the pairs of a family, or none."""
        edge = self.edge_named(name)
        return self._families.get(name.lower(), ()) if edge is None else (edge,)

    def implementers(self, interface: str) -> tuple[NodeType, ...]:
        """The node types that implement an interface, sorted by name."""
        return tuple(each for each in self.nodes if interface in each.implements)

    def edges_at(self, node: str) -> tuple[EdgeType, ...]:
        """The edge types that have this node type at either end."""
        return tuple(each for each in self.edges if node in (each.source, each.target))
