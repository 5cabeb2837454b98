"""The statements of a mutation, run in order into `Pending`.

A statement sees the result of those before it: pending rows instead of the committed rows that they
replace. The final state is validated once, so the order of statements does not matter for that.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from omnigraph.catalog.fitting import Misfit
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.names import spelling_of
from omnigraph.compiler.ir import (
    Assignment,
    Choice,
    Computed,
    Constant,
    IdOf,
    Now,
    Operand,
    ParameterRef,
    PathOf,
    Predicate,
    PropertyOf,
    Scalarish,
    Truth,
    Value,
)
from omnigraph.compiler.plan import DeleteRows, InsertRow, MutationPlan, StatementPlan, UpdateRows
from omnigraph.engine.tables.cells import Cell
from omnigraph.engine.write.base_rows import FoundRow, Type, satisfies
from omnigraph.engine.write.coercion import fit_bound, spell_key
from omnigraph.engine.write.pending import Affected, Pending, affected
from omnigraph.engine.write.validate import find_value_violations
from omnigraph.engine.write.violations import Violation, ViolationKind
from omnigraph.ids import TypeKind


@dataclass(frozen=True, slots=True)
class BoundValues:
    """A mutation with the values of one call."""

    plan: MutationPlan
    values: Mapping[str, Value]
    now_ms: int

    def value(self, operand: Operand) -> Value:
        match operand:
            case Constant(value):
                return value
            case ParameterRef(name):
                return self.values[name]
            case Now():
                return self.now_ms
            case PropertyOf() | IdOf() | PathOf() | Computed() | Choice() | Truth():
                raise AssertionError("a mutation binds no variables and computes nothing")
            case _:
                assert_never(operand)


def run_statements(bound: BoundValues, pending: Pending) -> Affected:
    """A value that does not fit becomes a violation, and its statement has no effect."""
    total = Affected()
    for statement in bound.plan.statements:
        total += _run(statement, bound, pending)
    return total


def _run(statement: StatementPlan, bound: BoundValues, pending: Pending) -> Affected:
    match statement:
        case InsertRow():
            return _insert(statement, bound, pending)
        case UpdateRows():
            return _update(statement, bound, pending)
        case DeleteRows():
            return _delete(statement, bound, pending)
        case _:
            assert_never(statement)


def _type(kind: TypeKind, name: str, pending: Pending) -> Type:
    found = pending.catalog.node(name) if kind == "node" else pending.catalog.edge(name)
    assert found is not None, "plans name types of the catalog"
    return found


def _node(name: str, pending: Pending) -> NodeType:
    found = pending.catalog.node(name)
    assert found is not None, "plans name types of the catalog"
    return found


# ── insert ───────────────────────────────────────────────────────────────────────────────────────


def _insert(statement: InsertRow, bound: BoundValues, pending: Pending) -> Affected:
    type_ = _type(statement.kind, statement.type_name, pending)
    assigned = _assigned(type_, statement.assignments, bound, pending)
    if assigned is None:
        return Affected()
    row = {**dict.fromkeys(type_.columns), **assigned}
    identity = spell_key(type_, row) if statement.key else pending.new_id()
    if identity is None:
        pending.violations += find_value_violations(type_, row)
        return Affected()
    row["id"] = identity
    pending.table(type_).write(row, is_new=not statement.key)
    return affected(type_, 1)


def _assigned(
    type_: Type, assignments: Iterable[Assignment], bound: BoundValues, pending: Pending
) -> dict[str, Cell] | None:
    """The values as cells of their columns; None if one of them does not fit."""
    cells: dict[str, Cell] = {}
    misfits: list[Violation] = []
    for each in assignments:
        value = bound.value(each.value)
        try:
            cells[each.column] = fit_bound(value, type_.find(each.column), each.type)
        except Misfit as misfit:
            name = spelling_of(each.column)
            message = f"{type_.name}.{name} is {each.type}: {misfit}"
            kind = ViolationKind.VALUE
            misfits.append(Violation(kind, type_.name, name, (), value, message))
    pending.violations += misfits
    return None if misfits else cells


# ── update ───────────────────────────────────────────────────────────────────────────────────────


def _update(statement: UpdateRows, bound: BoundValues, pending: Pending) -> Affected:
    node = _node(statement.type_name, pending)
    where, value = statement.where, _comparable(statement.where, bound)
    assigned = _assigned(node, statement.assignments, bound, pending)
    if assigned is None:
        return Affected()
    table = pending.table(node)
    # An assigned column is not read; for a Blob this saves reading its bytes.
    kept = [name for name in node.columns if name not in assigned]
    committed = [
        each
        for each in pending.committed.find_matches(node, where, value, kept)
        if each.id not in table.rows and each.id not in table.gone
    ]
    matched = [
        row for row in table.rows.values() if satisfies(row[where.column], where.comparator, value)
    ]
    for found in committed:
        table.rewrite(found, {**found.row, **assigned})
    for row in matched:
        table.write({**row, **assigned})
    return affected(node, len(committed) + len(matched))


def _comparable(where: Predicate, bound: BoundValues) -> Scalarish:
    value = bound.value(where.value)
    assert not isinstance(value, tuple), "a predicate compares single values"
    return value


# ── delete ───────────────────────────────────────────────────────────────────────────────────────


def _delete(statement: DeleteRows, bound: BoundValues, pending: Pending) -> Affected:
    type_ = _type(statement.kind, statement.type_name, pending)
    where, value = statement.where, _comparable(statement.where, bound)
    columns = ("src",) if isinstance(type_, EdgeType) else ()
    found = pending.committed.find_matches(type_, where, value, columns)
    matched = [
        identity
        for identity, row in pending.table(type_).rows.items()
        if satisfies(row[where.column], where.comparator, value)
    ]
    return delete_found(type_, found, matched, pending)


def delete_found(
    type_: Type, found: Iterable[FoundRow], matched: Collection[str], pending: Pending
) -> Affected:
    """Delete committed rows and pending ones, and with nodes every edge at one of them."""
    ids = _delete_rows(type_, found, matched, pending)
    total = affected(type_, len(ids))
    if not isinstance(type_, NodeType) or not ids:
        return total
    for edge in pending.catalog.edges_at(type_.name):
        incident = pending.committed.find_at(
            edge,
            # Ids are unique within a type only: a node of another type may have the same id.
            sources=ids if edge.source == type_.name else (),
            targets=ids if edge.target == type_.name else (),
        )
        doomed = set(ids)
        touching = [
            identity
            for identity, row in pending.table(edge).rows.items()
            if (edge.source == type_.name and row["src"] in doomed)
            or (edge.target == type_.name and row["dst"] in doomed)
        ]
        total += affected(edge, len(_delete_rows(edge, incident, touching, pending)))
    return total


def _delete_rows(
    type_: Type, found: Iterable[FoundRow], matched: Collection[str], pending: Pending
) -> list[str]:
    table = pending.table(type_)
    committed = table.delete(found)
    return [*committed, *table.delete_pending(matched, pending.committed)]
