"""The rules of a schema for the rows of a write, as data.

`rules_of_write` and `rules_of_load` list the rules that a write can break, in the order in which
its faults are reported, `rules_of_merge` those that a merge of branches can break. Five evaluators
take the rules: `engine.write.validate` evaluates a rule over rows in memory, `engine.merge.check`
over the columns of two branches, `pipeline.checks.conditions` states it as conditions on keys that
Arrow can prove, `pipeline.checks.joins` finds broken rows with Spark joins, and
`pipeline.checks.arrow_joins` with joins of Arrow.

1. A rule is a value: the type, the columns, and nothing about how it is evaluated.
2. Every evaluator matches on the class of the rule and closes the match with `assert_never`. A new
   class of rule therefore does not type-check until each evaluator handles it.
3. `tables_read` names the committed tables that can change the result of a rule. A rule without
   such a table is checked once and holds for good.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from omnigraph.catalog.model import Cardinality, Catalog, EdgeType, NodeType
from omnigraph.engine.write.base_rows import Type, uniques_of
from omnigraph.ids import TableKey, table_key

ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True)
class RowValues:
    """Each row holds values that its type allows, whatever the other rows hold."""

    type: Type


@dataclass(frozen=True, slots=True)
class UniqueValue:
    """At most one row holds a value of the columns. A null in one of them is no value."""

    type: Type
    number: int
    """The position of the constraint among the unique constraints of the type."""
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The node at one end of a written edge exists."""

    edge: EdgeType
    column: str

    @property
    def node_key(self) -> TableKey:
        return end_key(self.edge, self.column)


@dataclass(frozen=True, slots=True)
class EdgeCount:
    """The number of edges that leave a source lies within the cardinality of the edge type."""

    edge: EdgeType
    siblings: tuple[EdgeType, ...] = ()
    """The other pairs of the edge that leave the same sources; their edges count too."""

    @property
    def edges(self) -> tuple[EdgeType, ...]:
        return (self.edge, *self.siblings)


@dataclass(frozen=True, slots=True)
class RepeatedId:
    """The input of a load gives an id at most once. Broken, it hides all other rules."""

    type: Type


@dataclass(frozen=True, slots=True)
class NewId:
    """No committed row has the id of a row that is appended. Broken, it is a key conflict."""

    type: Type


@dataclass(frozen=True, slots=True)
class OrphanedEdge:
    """A committed edge keeps the node at one end when the write deletes or replaces nodes."""

    edge: EdgeType
    column: str

    @property
    def node_key(self) -> TableKey:
        return end_key(self.edge, self.column)


WriteRule = RowValues | UniqueValue | Endpoint | EdgeCount
MergeRule = WriteRule | OrphanedEdge
_OF_EDGES = (Endpoint, EdgeCount)
KeyRule = UniqueValue | Endpoint | EdgeCount | RepeatedId | NewId | OrphanedEdge
"""The rules that need no more than the keys of rows."""


def end_key(edge: EdgeType, column: str) -> TableKey:
    """The table of the nodes at one end of an edge type."""
    return table_key("node", edge.source if column == "src" else edge.target)


def rules_of_write(catalog: Catalog, types: Iterable[Type]) -> Iterator[WriteRule]:
    """The rules that rows of these types can break.

    Node types by name (values, then unique values), the ends of edges, edge types by name (values,
    then unique values), edge counts.
    """
    ordered = sorted(types, key=lambda each: each.name)
    nodes = [each for each in ordered if isinstance(each, NodeType)]
    edges = [each for each in ordered if isinstance(each, EdgeType)]
    for node in nodes:
        yield RowValues(node)
        yield from _unique_values(node)
    for edge in edges:
        yield from (Endpoint(edge, column) for column in ENDS)
    for edge in edges:
        yield RowValues(edge)
        yield from _unique_values(edge)
    yield from _edge_counts(catalog, edges)


def _edge_counts(catalog: Catalog, edges: Iterable[EdgeType]) -> Iterator[EdgeCount]:
    """One rule for all pairs of an edge that leave the same sources."""
    counted: set[tuple[str, str]] = set()
    for edge in edges:
        group = (edge.family, edge.source)
        if edge.cardinality != Cardinality() and group not in counted:
            counted.add(group)
            yield EdgeCount(edge, siblings_of(catalog, edge))


def siblings_of(catalog: Catalog, edge: EdgeType) -> tuple[EdgeType, ...]:
    """The other pairs of an edge over several ends that have the same type of sources."""
    pairs = catalog.pairs(edge.family)
    return tuple(each for each in pairs if each.source == edge.source and each.name != edge.name)


def _unique_values(type_: Type) -> Iterator[UniqueValue]:
    for number, columns in enumerate(uniques_of(type_)):
        yield UniqueValue(type_, number, columns)


def rules_of_load(
    catalog: Catalog,
    types: Collection[Type],
    named: Collection[TableKey],
    *,
    merges: bool,
    overwrites: bool,
) -> tuple[KeyRule, ...]:
    """The rules that the rows of a load can break together; each record obeys its type already.

    `named` are the tables for which at least one record states its id or its key. A generated id
    is new and never repeats. A load that merges keeps the last row of a repeated id, unless the
    type has a key.
    """
    ordered = sorted(types, key=lambda each: each.table_key)
    stated = [each for each in ordered if each.table_key in named]
    rules: list[KeyRule] = [RepeatedId(each) for each in stated if not merges or is_keyed(each)]
    rules += [each for each in rules_of_write(catalog, types) if not isinstance(each, RowValues)]
    if overwrites:
        rules += _orphaned_edges(catalog, {each.table_key for each in types})
    elif not merges:
        rules += [NewId(each) for each in stated]
    return tuple(rules)


def _orphaned_edges(catalog: Catalog, replaced: Collection[TableKey]) -> Iterator[OrphanedEdge]:
    for edge in sorted(catalog.edges, key=lambda each: each.name):
        for column in ENDS if edge.table_key not in replaced else ():
            if end_key(edge, column) in replaced:
                yield OrphanedEdge(edge, column)


def rules_of_merge(
    catalog: Catalog, type_: Type, counted: Collection[TableKey] = ()
) -> Iterator[MergeRule]:
    """The rules that changes of one type can break: values and unique values, then edges.

    Edges whose sources a rule about one of the `counted` tables counts are not counted again.
    """
    rules = sorted(rules_of_write(catalog, [type_]), key=lambda each: isinstance(each, _OF_EDGES))
    for rule in rules:
        if not isinstance(rule, EdgeCount) or not _is_counted(rule, counted):
            yield rule
    for edge in catalog.edges:
        for column in ENDS:
            if end_key(edge, column) == type_.table_key:
                yield OrphanedEdge(edge, column)


def _is_counted(rule: EdgeCount, counted: Collection[TableKey]) -> bool:
    return any(each.table_key in counted for each in rule.siblings)


def is_keyed(type_: Type) -> bool:
    return bool(type_.key)


def tables_read(rule: KeyRule, replaced: Collection[TableKey] = ()) -> frozenset[TableKey]:
    """(3) The committed tables that a rule depends on. Replaced tables begin empty."""
    match rule:
        case RepeatedId():
            keys: set[TableKey] = set()
        case UniqueValue(type_) | NewId(type_):
            keys = {type_.table_key}
        case EdgeCount():
            keys = {each.table_key for each in rule.edges}
        case Endpoint():
            keys = {rule.node_key}
        case OrphanedEdge(edge):
            keys = {edge.table_key}
        case _:
            assert_never(rule)
    return frozenset(keys.difference(replaced))
