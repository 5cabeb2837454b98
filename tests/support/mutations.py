"""A graph of dicts under mutations: the second opinion on what a write leaves behind.

It follows the language rule by rule: statements run in order on whole copies of the tables, and the
whole outcome is checked, not only the changes. It is slow and obvious on purpose. Ids that the
engine generates cannot be predicted, so graphs are compared by the rows of each table without them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa

from omnigraph.catalog.keys import KeyValue, derive_id
from omnigraph.catalog.model import Catalog, Check, EdgeType, NodeType, Range, Unique
from omnigraph.catalog.regex import compile_pattern
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Value
from omnigraph.engine.graph import Graph
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.stores import Stores
from support.values import compare

Record = Mapping[str, Value]
Tables = Mapping[str, Mapping[str, Record]]
"""Type, then id, then column; an edge has the columns `src` and `dst`."""


class Rejected(Exception):
    """The outcome would break the schema."""

    def __init__(self, faults: frozenset[tuple[str, str]]) -> None:
        self.faults = faults
        """Kind of violation, and the type it is on."""
        super().__init__(str(sorted(faults)))


@dataclass(frozen=True, slots=True)
class Outcome:
    tables: Tables
    affected_nodes: int
    affected_edges: int


def types_of(catalog: Catalog) -> tuple[NodeType | EdgeType, ...]:
    return (*catalog.nodes, *catalog.edges)


def apply(
    catalog: Catalog, tables: Tables, mutation: ir.Mutation, values: Mapping[str, Value]
) -> Outcome:
    """What a mutation makes of a graph. Raises Rejected."""
    model = _Model(catalog, {name: dict(rows) for name, rows in tables.items()}, values)
    for statement in mutation.statements:
        model.run(statement)
    faults = frozenset(_faults(catalog, tables, model.tables))
    if faults:
        raise Rejected(faults)
    return Outcome(model.tables, model.counts["node"], model.counts["edge"])


class _Model:
    def __init__(
        self, catalog: Catalog, tables: dict[str, dict[str, Record]], values: Mapping[str, Value]
    ) -> None:
        self.catalog = catalog
        self.tables = tables
        self.values = values
        self.counts: Counter[str] = Counter()
        self.made = 0

    def run(self, statement: ir.Statement) -> None:
        match statement:
            case ir.Insert(kind, name, assignments):
                owner = self.catalog.node(name) or self.catalog.edge(name)
                assert owner is not None
                record: Record = {each.name: None for each in owner.properties}
                self.insert(owner, {**record, **self.assigned(assignments)})
                self.counts[kind] += 1
            case ir.Update(name, assignments, where):
                for key in self.matches(name, where):
                    self.tables[name][key] = {
                        **self.tables[name][key],
                        **self.assigned(assignments),
                    }
                    self.counts["node"] += 1
            case ir.Delete(kind, name, where):
                for key in self.matches(name, where):
                    del self.tables[name][key]
                    self.counts[kind] += 1
                    if kind == "node":
                        self.cascade(name, key)
            case _:
                assert_never(statement)

    def insert(self, owner: NodeType | EdgeType, record: Record) -> None:
        if isinstance(owner, NodeType) and owner.key:
            members: dict[str, KeyValue] = {}
            for each in owner.key:
                cell = record[each]
                assert not isinstance(cell, tuple)
                members[each] = cell
            key = derive_id(owner, members)
        else:
            # A name that cannot be the one of a row that was read back from the graph.
            self.made += 1
            key = f"made:{self.made}"
        self.tables[owner.name][key] = record

    def assigned(self, assignments: tuple[ir.Assignment, ...]) -> Record:
        return {each.column: self.value(each.value) for each in assignments}

    def value(self, operand: ir.Operand) -> Value:
        match operand:
            case ir.Constant(value):
                return value
            case ir.ParameterRef(name):
                return self.values[name]
            case _:
                raise AssertionError(f"{operand} is not for the model")

    def matches(self, name: str, where: ir.Predicate) -> list[str]:
        wanted = self.value(where.value)
        return [
            key
            for key, record in self.tables[name].items()
            if compare(record[where.column], where.comparator, wanted) is True
        ]

    def cascade(self, name: str, key: str) -> None:
        for edge in self.catalog.edges:
            for each, record in list(self.tables[edge.name].items()):
                leaves = edge.source == name and record["src"] == key
                arrives = edge.target == name and record["dst"] == key
                if leaves or arrives:
                    del self.tables[edge.name][each]
                    self.counts["edge"] += 1


# ── what the schema forbids ──────────────────────────────────────────────────────────────────────


def _faults(catalog: Catalog, before: Tables, after: Tables) -> Iterator[tuple[str, str]]:
    for owner in types_of(catalog):
        for record in after[owner.name].values():
            yield from ((fault, owner.name) for fault in _row_faults(owner, record))
        for constraint in owner.constraints:
            if isinstance(constraint, Unique):
                held = [tuple(r[c] for c in constraint.columns) for r in after[owner.name].values()]
                whole = Counter(each for each in held if None not in each)
                if any(count > 1 for count in whole.values()):
                    yield "unique", owner.name
    for edge in catalog.edges:
        yield from ((fault, edge.name) for fault in _edge_faults(edge, before, after))


def _row_faults(owner: NodeType | EdgeType, record: Record) -> Iterator[str]:
    for each in owner.properties:
        value = record[each.name]
        if value is None:
            if not each.type.nullable:
                yield "required"
        elif each.type.enum_values is not None and value not in each.type.enum_values:
            yield "enum"
    for constraint in owner.constraints:
        match constraint:
            case Range(name, low, high):
                value = record[name]
                if isinstance(value, int | float) and not (
                    (low is None or low <= value) and (high is None or value <= high)
                ):
                    yield "range"
            case Check(name, pattern):
                value = record[name]
                if isinstance(value, str) and not compile_pattern(pattern).is_found_in(value):
                    yield "check"
            case _:
                pass


def _edge_faults(edge: EdgeType, before: Tables, after: Tables) -> Iterator[str]:
    for record in after[edge.name].values():
        if record["src"] not in after[edge.source] or record["dst"] not in after[edge.target]:
            yield "endpoint"
    counts = Counter(record["src"] for record in after[edge.name].values())
    # A node that never had an edge is never short of one; a node that lost its last one is.
    had = {record["src"] for record in before[edge.name].values()} & after[edge.source].keys()
    for source in counts.keys() | had:
        low, high = edge.cardinality.low, edge.cardinality.high
        if counts[source] < low or (high is not None and counts[source] > high):
            yield "cardinality"


# ── what a graph holds ───────────────────────────────────────────────────────────────────────────


def read_tables(graph: Graph, stores: Stores, branch: BranchName = MAIN) -> Tables:
    """Every row a branch shows. Blobs are left out."""
    snapshot = graph.snapshot(branch)
    catalog = graph.catalog
    return {
        owner.name: {
            str(record.pop("id")): record
            for record in _records(
                stores.tables.read(graph.open_table(snapshot, owner.table_key)), owner
            )
        }
        for owner in types_of(catalog)
    }


def _records(rows: pa.Table, owner: NodeType | EdgeType) -> list[dict[str, Value]]:
    blobs = {each.name for each in owner.properties if each.type.is_blob}
    columns = {name: _cells(rows[name]) for name in rows.column_names if name not in blobs}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _cells(column: "pa.ChunkedArray[Any]") -> list[Value]:
    """Dates and instants as the numbers they are stored as."""
    whole: Any = column.combine_chunks()
    number = _number_of(column.type)
    cells = (whole if number is None else whole.view(number)).to_pylist()
    return [tuple(each) if isinstance(each, list) else each for each in cells]


def _number_of(kind: pa.DataType) -> pa.DataType | None:
    if kind == pa.date32():
        return pa.int32()
    if kind == pa.date64():
        return pa.int64()
    if isinstance(kind, pa.ListType):
        number = _number_of(kind.value_type)
        return None if number is None else pa.list_(pa.field("item", number))
    return None


def comparable(catalog: Catalog, tables: Tables) -> dict[str, Counter[str]]:
    """What must agree: rows with the ids that their keys spell, and without those made up."""
    shown: dict[str, Counter[str]] = {}
    for owner in types_of(catalog):
        is_keyed = isinstance(owner, NodeType) and bool(owner.key)
        shown[owner.name] = Counter(
            repr((key if is_keyed else None, sorted(record.items())))
            for key, record in tables[owner.name].items()
        )
    return shown
