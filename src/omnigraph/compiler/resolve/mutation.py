"""Mutations: which type, which columns, which values.

A mutation looks a type up by its exact name, node types first. The ends of an edge are assigned and
tested as `from` and `to`; their columns are `src` and `dst`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from omnigraph.catalog.model import EdgeType, NodeType, Property
from omnigraph.catalog.names import column_of, spelling_of
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, ValueType, are_compatible
from omnigraph.compiler.ir import (
    STRING,
    Assignment,
    Comparator,
    Constant,
    Delete,
    Insert,
    Now,
    Operand,
    ParameterRef,
    Predicate,
    Statement,
    Update,
)
from omnigraph.compiler.resolve.conditions import fit_matched
from omnigraph.compiler.resolve.context import Context
from omnigraph.compiler.resolve.ends import ENDS, pick_pair, read_end
from omnigraph.compiler.resolve.literals import Use, fit, is_number, resolve_literal
from omnigraph.compiler.resolve.operands import resolve_parameter, unknown_property
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import rank_candidates, suggest
from omnigraph.compiler.typecheck import TypeProblem, describe
from omnigraph.ids import TypeKind
from omnigraph.lang.query import ast

_IMPLICIT_HINTS: Mapping[str, str] = {
    "id": "ids are derived; they are neither assigned nor tested",
    "src": "the source of an edge is called `from`",
    "dst": "the target of an edge is called `to`",
}
_COMPARATORS = frozenset(each.value for each in Comparator)


@dataclass(frozen=True, slots=True)
class _Column:
    """Where a name of a statement leads."""

    name: str
    type: ValueType
    label: str
    """As messages call it: `Artwork.title`."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The type a statement is about."""

    type: NodeType | EdgeType

    @property
    def kind(self) -> TypeKind:
        return "node" if isinstance(self.type, NodeType) else "edge"

    @property
    def name(self) -> str:
        """As the schema declares it."""
        return self.type.name if isinstance(self.type, NodeType) else self.type.family

    def column(self, name: str) -> _Column | None:
        label = f"{self.name}.{name}"
        if isinstance(self.type, EdgeType) and name in ENDS:
            return _Column(ENDS[name], STRING, label)
        found = self.type.named(name)
        return None if found is None else _Column(found.name, found.type, label)


def resolve_statement(statement: ast.Statement, context: Context) -> Iterator[Statement]:
    """The statement; none when what is wrong with it has been reported.

    To delete from an edge that is declared over several pairs of ends is to delete from each.
    """
    match statement:
        case ast.Insert():
            target = _find_inserted(statement, context)
            inserted = _resolve_insert(statement, target, context)
            yield from () if inserted is None else (inserted,)
        case ast.Update():
            target = _find_target(statement.type_name, context)
            updated = _resolve_update(statement, target, context)
            yield from () if updated is None else (updated,)
        case ast.Delete():
            target = _find_target(statement.type_name, context)
            where = _resolve_predicate(statement.where, target, context)
            if target is None or where is None:
                return
            for each in context.catalog.pairs(statement.type_name.text) or (target.type,):
                yield Delete(target.kind, each.name, where, statement.span)
        case _:
            assert_never(statement)


def _find_inserted(statement: ast.Insert, context: Context) -> _Target | None:
    pairs = context.catalog.pairs(statement.type_name.text)
    if not pairs:
        return _find_target(statement.type_name, context)
    pair = pick_pair(statement, pairs, context)
    return None if pair is None else _Target(pair)


def _find_target(name: ast.Name, context: Context) -> _Target | None:
    catalog = context.catalog
    found = catalog.node(name.text) or catalog.edge(name.text)
    if found is not None:
        return _Target(found)
    if pairs := catalog.pairs(name.text):
        return _Target(pairs[0])  # all have the same properties
    names = [*(each.name for each in catalog.nodes), *catalog.edge_names]
    problem = TypeProblem(
        QueryRule.T10,
        f"there is no type '{name.text}'",
        suggest(name.text, names),
        expected=("a node type", "an edge type"),
        candidates=rank_candidates(name.text, names),
    )
    context.report(problem, name.span)
    return None


# ── insert and update ────────────────────────────────────────────────────────────────────────────


def _resolve_insert(
    statement: ast.Insert, target: _Target | None, context: Context
) -> Insert | None:
    faults = context.fault_count
    assignments = _resolve_assignments(statement.assignments, statement.type_name, target, context)
    if target is None:
        return None
    assigned = {each.name.text for each in statement.assignments}
    for name in _find_missing(target.type, assigned):
        message = f"missing required property '{name}' of {target.name}"
        context.report(TypeProblem(QueryRule.T12, message), statement.type_name.span)
    if context.fault_count > faults:
        return None
    return Insert(target.kind, target.type.name, assignments, statement.span)


def _find_missing(target: NodeType | EdgeType, assigned: set[str]) -> list[str]:
    ends = [] if isinstance(target, NodeType) else list(ENDS)
    required = [each.spelling for each in target.properties if _is_required(each, assigned)]
    return [name for name in (*ends, *required) if name not in assigned]


def _is_required(candidate: Property, assigned: set[str]) -> bool:
    """Null is not allowed, and no `@embed` promises to make the vector from what is assigned."""
    embed = candidate.embed
    return not candidate.type.nullable and not (
        embed is not None and spelling_of(embed.source) in assigned
    )


def _resolve_update(
    statement: ast.Update, target: _Target | None, context: Context
) -> Update | None:
    if target is not None and target.kind == "edge":
        message = f"{target.name} is an edge type, and edges cannot be updated"
        hint = "delete the edge and insert another"
        context.report(TypeProblem(QueryRule.T16, message, hint), statement.type_name.span)
        target = None
    faults = context.fault_count
    assignments = _resolve_assignments(statement.assignments, statement.type_name, target, context)
    where = _resolve_predicate(statement.where, target, context)
    if target is None or where is None:
        return None
    assert isinstance(target.type, NodeType)
    for each in statement.assignments:
        if column_of(each.name.text) in target.type.key:
            message = f"cannot update @key property '{each.name.text}' of {target.type.name}"
            hint = "insert the node under its new key and delete the old one"
            context.report(TypeProblem(QueryRule.U18, message, hint), each.name.span)
    if context.fault_count > faults:
        return None
    return Update(target.type.name, assignments, where, statement.span)


def _resolve_assignments(
    assignments: tuple[ast.Assignment, ...],
    type_name: ast.Name,
    target: _Target | None,
    context: Context,
) -> tuple[Assignment, ...]:
    """Every assignment that is right. Without a target only the parameters can be checked."""
    if not assignments:
        context.report(
            TypeProblem(QueryRule.T10, f"{type_name.text} is assigned nothing"), type_name.span
        )
    resolved: dict[str, Assignment | None] = {}
    for each in assignments:
        if each.name.text in resolved:
            message = f"'{each.name.text}' is assigned twice"
            context.report(TypeProblem(QueryRule.T13, message), each.name.span)
        resolved[each.name.text] = _resolve_assignment(each, target, context)
    return tuple(each for each in resolved.values() if each is not None)


def _resolve_assignment(
    assignment: ast.Assignment, target: _Target | None, context: Context
) -> Assignment | None:
    column = _find_column(assignment.name, target, context)
    given = read_end(assignment, None if column is None or target is None else target.type, context)
    value = _resolve_value(given, context)
    if column is None or value is None:
        return None
    fitted = _assign(value, column)
    if isinstance(fitted, TypeProblem):
        context.report(fitted, given.span)
        return None
    return Assignment(column.name, column.type, fitted, assignment.span)


def _find_column(name: ast.Name, target: _Target | None, context: Context) -> _Column | None:
    if target is None:
        return None
    column = target.column(name.text)
    if column is None:
        problem = unknown_property(target.type, name.text, QueryRule.T11)
        hint = _IMPLICIT_HINTS.get(name.text, problem.hint)
        context.report(replace(problem, hint=hint), name.span)
    return column


def _resolve_value(value: ast.Value, context: Context) -> Operand | None:
    match value:
        case ast.Variable():
            return resolve_parameter(value, context, rule=QueryRule.T14)
        case ast.Now(span):
            return Now(span=span)
        case _:
            return resolve_literal(value, context)


def _assign(value: Operand, column: _Column) -> Operand | TypeProblem:
    """The value as the column will store it; T3 for a literal, T7 for everything else."""
    if isinstance(value, Constant):
        return fit(value, column.type, target=column.label, use=Use.ASSIGN)
    assert value.type is not None, "only literals can be null here"
    if _is_assignable(value.type, column.type):
        return value
    message = f"{describe(value)} cannot be assigned to {column.label} ({column.type})"
    wanted = replace(column.type, enum_values=None)
    is_end = column.name == ENDS.get(column.label.rpartition(".")[2])
    hints = ["the ends of an edge are ids, which are Strings"] if is_end else []
    if isinstance(value, ParameterRef):
        hints.append(f"declare `${value.name}: {wanted}`")
    hint = "; ".join(hints) or None
    return TypeProblem(QueryRule.T7, message, hint, expected=(str(wanted),))


def _is_assignable(given: ValueType, wanted: ValueType) -> bool:
    """Integers widen to floats, floats never narrow; a String may name or hold a Blob."""
    if wanted.is_blob:
        return not given.is_list and given.base in (Scalar.BLOB, Scalar.STRING)
    narrows = given.base in FLOATS and wanted.base in INTEGERS
    return are_compatible(given, wanted) and not narrows


# ── where ────────────────────────────────────────────────────────────────────────────────────────


def _resolve_predicate(
    predicate: ast.Predicate, target: _Target | None, context: Context
) -> Predicate | None:
    column = _find_column(predicate.name, target, context)
    value = _resolve_value(predicate.value, context)
    if column is None or value is None:
        return None
    compared = _find_column_problem(column, predicate.operator) or _compare(
        value, predicate.operator, column
    )
    if isinstance(compared, TypeProblem):
        context.report(compared, predicate.span)
        return None
    comparator = Comparator(predicate.operator.value)
    return Predicate(column.name, column.type, comparator, compared, predicate.span)


def _find_column_problem(column: _Column, operator: ast.Operator) -> TypeProblem | None:
    if column.type.is_blob:
        return TypeProblem(QueryRule.T11, f"{column.label} is a Blob and cannot be tested")
    if column.type.is_list or column.type.is_vector:
        message = f"{column.label} ({column.type}) is not a single value to compare"
        return TypeProblem(QueryRule.T7, message)
    if operator.value not in _COMPARATORS:
        return TypeProblem(QueryRule.T7, f"`{operator}` cannot be used in a mutation")
    return None


def _compare(value: Operand, operator: ast.Operator, column: _Column) -> Operand | TypeProblem:
    if isinstance(value, Constant):
        is_equality = operator in (ast.Operator.EQ, ast.Operator.NE)
        is_numeric = not isinstance(value.value, tuple) and is_number(value.value)
        if not is_equality and is_numeric and column.type.is_number:
            return value
        return fit_matched(value, column.type, column.label)
    assert value.type is not None, "only literals can be null here"
    if are_compatible(value.type, column.type):
        return value
    message = f"{describe(value)} and {column.label} ({column.type}) cannot be compared"
    return TypeProblem(QueryRule.T7, message)
