"""What the engine is asked to do: operators as frozen data, a tree whose leaves are tables.

An operator yields rows. A row binds variables to nodes and edges, by id, with the columns that the
binding operator names; an unbound variable has a null id and null columns. `Project` and
`Aggregate` end that and yield plain columns.

`AntiJoin`, `SemiJoin`, `Measure` and `LeftJoin` run their inner tree once for all rows: its leaf
`Given` stands for the distinct bindings, in the rows of the other side, of the variables listed in
`on`, and its rows are matched with those by id, null with null. How any of this runs is not said
here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from omnigraph.catalog.model import WantedIndexKind
from omnigraph.catalog.types import ValueType
from omnigraph.compiler.access import KeyPart
from omnigraph.compiler.ir import (
    Aggregate as AggregateExpression,
    Assignment,
    CarriedVariable,
    Comparator,
    Condition,
    Direction,
    ObjectOf,
    Operand,
    Parameter,
    ParameterRef,
    PathOf,
    Predicate,
    PropertyOf,
    Rank,
    Way,
)
from omnigraph.ids import TypeKind

Count = int | ParameterRef

# ── leaves ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class OneRow:
    """A single row that binds nothing: where a tree without a leaf of its own begins."""


@dataclass(frozen=True, slots=True)
class Given:
    """The distinct bindings of these variables in the rows outside."""

    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeScan:
    """The nodes of a type for which all filters are true."""

    type_name: str
    variable: str
    filters: tuple[Condition, ...]
    columns: tuple[str, ...]
    index: tuple[str, WantedIndexKind] | None
    """The index that would serve the most selective filter, if the graph has built it."""


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """The one node with this key, if it exists and all filters are true. Null matches nothing."""

    type_name: str
    variable: str
    key: tuple[KeyPart, ...]
    """In the order in which the id spells them; or the single part `id`."""
    filters: tuple[Condition, ...]
    """What is left to check."""
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """The rows of several leaves, each of which binds the variable to nodes of another type.

    Such a variable has a column `@type`, and nodes are told apart by type and id.
    """

    variable: str
    parts: tuple[NodeScan | KeyLookup, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """The rows of a finished table: each binds its variables by their ids, and `ir.CARRIED`."""

    input: "Operator"
    """It yields columns."""
    variables: tuple[CarriedVariable, ...]


# ── joins ────────────────────────────────────────────────────────────────────────────────────────


class WalkMode(StrEnum):
    """What one row of an expand stands for."""

    EDGES = "edges"
    """An edge."""
    NEIGHBOURS = "neighbours"
    """A distinct neighbour: parallel edges collapse."""
    SEARCH = "search"
    """A distinct node at the right distance, found breadth-first."""
    NOTHING = "nothing"
    """Never anything: two hops or more over an edge between different types."""


@dataclass(frozen=True, slots=True)
class Expand:
    """Walk from a bound variable. Rows whose source is unbound walk nowhere."""

    input: "Operator"
    source: str
    edge: str
    direction: Direction
    target: str
    target_type: str
    mode: WalkMode
    hops_low: int
    hops_high: int | None
    edge_variable: str | None
    closes: bool
    """The target is bound already: keep the rows for which the walk arrives there."""
    filters: tuple[Condition, ...]
    columns: tuple[str, ...]
    edge_columns: tuple[str, ...]
    kept: tuple[str, ...] | None = None
    """The variables of the input that are read above; None for all of them."""


@dataclass(frozen=True, slots=True)
class ExpandAny:
    """Walk any of several ways from a bound variable; see `ir.ExpandAny`."""

    input: "Operator"
    source: str
    source_types: tuple[str, ...]
    ways: tuple[Way, ...]
    target: str
    target_types: tuple[str, ...]
    mode: WalkMode
    hops_low: int
    hops_high: int | None
    edge_variable: str | None
    closes: bool
    filters: tuple[Condition, ...]
    columns: tuple[str, ...]
    """What every type of the target has."""
    edge_columns: tuple[str, ...]
    walks: tuple[Expand, ...]
    """Each way as an operator of its own, of one hop, given the rows whose source has its type.
    Filters are those of the whole, and apply afterwards."""

    @property
    def edges(self) -> tuple[str, ...]:
        """The edge types, sorted."""
        return tuple(sorted({each.edge for each in self.ways}))


@dataclass(frozen=True, slots=True)
class EachPath:
    """Each row once for every shortest path between two of its variables; see `ir.EachPath`."""

    input: "Operator"
    variable: str
    path: PathOf


@dataclass(frozen=True, slots=True)
class CrossJoin:
    left: "Operator"
    right: "Operator"


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """The input rows for which the inner tree yields nothing."""

    input: "Operator"
    inner: "Operator"
    on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """The input rows for which the inner tree yields something."""

    input: "Operator"
    inner: "Operator"
    on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """The input rows for which an aggregate over the rows of the inner tree compares as wanted."""

    input: "Operator"
    inner: "Operator"
    on: tuple[str, ...]
    aggregate: AggregateExpression
    comparator: Comparator
    bound: Operand


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """Each input row with every row of the inner tree; once, with `binds` unbound, if none."""

    input: "Operator"
    inner: "Operator"
    on: tuple[str, ...]
    binds: tuple[str, ...]


# ── rows to rows ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Filter:
    input: "Operator"
    conditions: tuple[Condition, ...]
    """All must be true."""
    kept: tuple[str, ...] | None = None
    """The variables that are read above; None for all of them."""


@dataclass(frozen=True, slots=True)
class TopRanked:
    """Keep the rows whose `variable` is among the best nodes found in the input.

    Nodes are ranked, not rows: all rows of a node stay. `Nearest` keeps `limit + offset` of them,
    `Bm25` every one that matches, and `Rrf` fuses what its arms keep and keeps `limit + offset`.
    Text is scored against the whole table. When the input is a scan, its filters apply before the
    ranking and an index may do both.
    """

    input: "Operator"
    variable: str
    type_name: str
    by: Rank
    limit: Count | None
    offset: Count | None


@dataclass(frozen=True, slots=True)
class ByValue:
    """Nulls are smallest."""

    operand: Operand
    descending: bool


@dataclass(frozen=True, slots=True)
class ByRank:
    """As `TopRanked` found them, best first."""

    variable: str


@dataclass(frozen=True, slots=True)
class ByColumn:
    """By a column of an aggregate, given by its place. Nulls are smallest."""

    place: int
    descending: bool


@dataclass(frozen=True, slots=True)
class Sort:
    """A total order of rows: equal keys are told apart by the ids of `ties`, ascending."""

    input: "Operator"
    keys: tuple[ByValue | ByRank, ...]
    ties: tuple[str, ...]
    typed_ties: tuple[str, ...] = ()
    """Those of several types: after all ids, the names of their types decide."""


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of two trees with the same columns; each row once if they are distinct."""

    left: "Operator"
    right: "Operator"
    distinct: bool


@dataclass(frozen=True, slots=True)
class FilterColumns:
    """The groups for which all conditions are true; those read the columns of `ir.RESULT`."""

    input: "Operator"
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class SortColumns:
    """A total order of groups: equal keys are told apart by the group key, ascending.

    The rows of a union are told apart by all columns.
    """

    input: "Operator"
    keys: tuple[ByColumn, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    input: "Operator"
    offset: Count | None
    count: Count | None


# ── rows to columns ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    expression: Operand | ObjectOf | Rank
    type: ValueType


@dataclass(frozen=True, slots=True)
class Project:
    input: "Operator"
    columns: tuple[Column, ...]
    late: tuple[PropertyOf, ...] = ()
    """Properties that no operator below reads: a limit can be applied before they are fetched."""


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """A group key, or an aggregate over the rows of the group."""

    name: str
    expression: Operand | ObjectOf | AggregateExpression
    type: ValueType


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group; without group keys, exactly one row, even when there is no input."""

    input: "Operator"
    columns: tuple[GroupColumn, ...]


Operator = (
    OneRow
    | Given
    | NodeScan
    | KeyLookup
    | Either
    | Stage
    | Expand
    | ExpandAny
    | EachPath
    | CrossJoin
    | AntiJoin
    | SemiJoin
    | Measure
    | LeftJoin
    | Filter
    | TopRanked
    | Sort
    | Union
    | FilterColumns
    | SortColumns
    | Limit
    | Project
    | Aggregate
)


def inputs_of(operator: Operator) -> tuple[Operator, ...]:
    """The operators it reads from, the main one first."""
    match operator:
        case OneRow() | Given() | NodeScan() | KeyLookup():
            return ()
        case Either(_, parts):
            return parts
        case CrossJoin(left, right) | Union(left, right):
            return (left, right)
        case (
            AntiJoin(given, inner)
            | SemiJoin(given, inner)
            | Measure(given, inner)
            | LeftJoin(given, inner)
        ):
            return (given, inner)
        case (
            Stage(given)
            | Expand(input=given)
            | ExpandAny(input=given)
            | EachPath(given)
            | Filter(given)
            | TopRanked(given)
            | Sort(given)
            | FilterColumns(given)
            | SortColumns(given)
            | Limit(given)
            | Project(given)
            | Aggregate(given)
        ):
            return (given,)
        case _:
            assert_never(operator)


def columns_of(operator: Operator) -> tuple[Column | GroupColumn, ...]:
    """The columns that the top of a plan yields."""
    match operator:
        case Project(columns=columns):
            return columns
        case Aggregate(columns=groups):
            return groups
        case FilterColumns(given) | SortColumns(given) | Limit(given) | Union(given):
            return columns_of(given)
        case _:
            raise AssertionError(f"{type(operator).__name__} yields rows, not columns")


def ties_of(operator: Operator) -> tuple[int, ...]:
    """The places of the columns that tell the rows of an operator apart."""
    columns = columns_of(operator)
    if isinstance(operator, Union):
        return tuple(range(len(columns)))
    return tuple(
        place
        for place, each in enumerate(columns)
        if not isinstance(each.expression, AggregateExpression)
    )


def operators_in(root: Operator) -> Iterator[Operator]:
    """The whole tree, each operator before what it reads from."""
    yield root
    for each in inputs_of(root):
        yield from operators_in(each)


# ── plans ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ReadPlan:
    name: str
    parameters: tuple[Parameter, ...]
    root: Operator


@dataclass(frozen=True, slots=True)
class InsertRow:
    """`key` lists the columns that spell the id: an upsert. Without them the id is new."""

    kind: TypeKind
    type_name: str
    assignments: tuple[Assignment, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateRows:
    type_name: str
    assignments: tuple[Assignment, ...]
    where: Predicate
    by_key: bool
    """The predicate pins the key, so one node at most matches."""


@dataclass(frozen=True, slots=True)
class DeleteRows:
    kind: TypeKind
    type_name: str
    where: Predicate
    by_key: bool
    cascade: tuple[str, ...]
    """The edge types that lose the edges of a deleted node."""


StatementPlan = InsertRow | UpdateRows | DeleteRows


@dataclass(frozen=True, slots=True)
class MutationPlan:
    """Statements run in order, each on what the ones before it left."""

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[StatementPlan, ...]


Plan = ReadPlan | MutationPlan
