"""Traversals: which edge, which way, and what that says about the two ends."""

from dataclasses import dataclass

from omnigraph.catalog.model import EdgeType
from omnigraph.compiler.ir import Direction
from omnigraph.compiler.resolve.context import BlockScope, BoundVariable, Context
from omnigraph.compiler.resolve.variables import declare, is_usable_node
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import closest, rank_candidates
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast


@dataclass(frozen=True, slots=True)
class Walk:
    """A traversal, as written from `source` to `target`; `edge` is None when it is wrong."""

    source: str
    target: str
    edge: EdgeType | None
    direction: Direction
    hops: tuple[int, int | None]
    edge_variable: str | None
    clause: ast.Traversal


def resolve_walk(clause: ast.Traversal, scope: BlockScope, context: Context) -> Walk:
    """The walk, with both ends bound in the scope. One that is wrong still connects its ends."""
    edge = _find_edge(clause, context)
    hops = _resolve_hops(clause, edge, context)
    usable = [is_usable_node(each, scope, context) for each in (clause.source, clause.target)]
    direction = _infer(clause, edge, scope, context) if edge is not None and all(usable) else None
    near, far = _end_types(edge, direction)
    source = _bind_end(clause.source, near, scope, context)
    target = _bind_end(clause.target, far, scope, context)
    edge_variable = _bind_edge(clause, edge, scope, context)
    if direction is None:
        return Walk(source, target, None, Direction.OUT, hops, edge_variable, clause)
    return Walk(source, target, edge, direction, hops, edge_variable, clause)


def _find_edge(clause: ast.Traversal, context: Context) -> EdgeType | None:
    name = clause.edge.text
    edge = context.catalog.edge_named(name)
    if edge is None:
        names = [f"{each.name[0].lower()}{each.name[1:]}" for each in context.catalog.edges]
        best = closest(name, names)
        hint = None if best is None else f"did you mean '{best}'?"
        problem = TypeProblem(
            QueryRule.T4,
            f"there is no edge type '{name}'",
            hint,
            expected=("an edge type",),
            candidates=rank_candidates(name, names),
        )
        context.report(problem, clause.edge.span)
    return edge


def _resolve_hops(
    clause: ast.Traversal, edge: EdgeType | None, context: Context
) -> tuple[int, int | None]:
    hops = clause.hops
    if hops is None:
        return 1, 1
    low, high = hops.low, hops.high
    if high is not None and high < low:
        message = f"hops {{{low},{high}}} are out of order: low ≤ high"
        context.report(TypeProblem(QueryRule.T15, message), hops.span)
    elif high == 0:
        message = "hops {0,0} lead nowhere"
        context.report(TypeProblem(QueryRule.T15, message, "write {0,1}"), hops.span)
    elif low == 0 and edge is not None and edge.source != edge.target:
        message = (
            f"{_spell(edge)} leads to another type, and after no hop one is still at the first"
        )
        hint = "begin with one hop, or put the traversal into `optional { }`"
        context.report(TypeProblem(QueryRule.T15, message, hint), hops.span)
    return low, high


# ── direction ────────────────────────────────────────────────────────────────────────────────────


def _infer(
    clause: ast.Traversal, edge: EdgeType, scope: BlockScope, context: Context
) -> Direction | None:
    """Which way the edge is walked from the left end, by the types known so far."""
    if clause.undirected and edge.source != edge.target:
        message = f"{_spell(edge)} has ends of two types and cannot be walked undirected"
        hint = f"write `{clause.edge.text}` without the angle brackets"
        context.report(TypeProblem(QueryRule.T22, message, hint), clause.edge.span)
        return None
    left, right = _known_type(clause.source, scope), _known_type(clause.target, scope)
    if clause.undirected:
        direction: Direction | None = Direction.BOTH
    elif left is not None:
        direction = _leaving(left, edge)
    elif right is not None:
        direction = _arriving(right, edge)
    else:
        direction = Direction.OUT
    misfit = _find_misfit(clause, edge, direction, scope)
    if misfit is None:
        return direction
    known = _known_type(misfit, scope)
    if known is None:
        message = f"{_spell(edge)} cannot lead from `${misfit.name}` back to itself"
    else:
        message = f"`${misfit.name}` is bound to {known}, which {_spell(edge)} does not have there"
    ends = (edge.source, edge.target)
    context.report(TypeProblem(QueryRule.T5, message, expected=ends), misfit.span)
    return None


def _leaving(type_name: str, edge: EdgeType) -> Direction | None:
    """The way that starts at this type. An edge within one type is walked as it is written."""
    if type_name == edge.source:
        return Direction.OUT
    return Direction.IN if type_name == edge.target else None


def _arriving(type_name: str, edge: EdgeType) -> Direction | None:
    """The way that ends at this type."""
    if type_name == edge.target:
        return Direction.OUT
    return Direction.IN if type_name == edge.source else None


def _find_misfit(
    clause: ast.Traversal, edge: EdgeType, direction: Direction | None, scope: BlockScope
) -> ast.Variable | None:
    """The end whose type the edge does not have there."""
    left, right = _known_type(clause.source, scope), _known_type(clause.target, scope)
    if direction is None:
        return clause.source if left is not None else clause.target
    near, far = _end_types(edge, direction)
    if left is not None and left != near:
        return clause.source
    if right is not None and right != far:
        return clause.target
    is_loop = clause.source.name == clause.target.name != ast.WILDCARD
    return clause.target if is_loop and near != far else None


def _known_type(variable: ast.Variable, scope: BlockScope) -> str | None:
    """What is known of an end so far; nothing of a wildcard, which is never bound."""
    bound = scope.find(variable.name)
    return None if bound is None else bound.type_name


def _end_types(
    edge: EdgeType | None, direction: Direction | None
) -> tuple[str, str] | tuple[None, None]:
    if edge is None or direction is None:
        return None, None
    if direction is Direction.IN:
        return edge.target, edge.source
    return edge.source, edge.target


def _spell(edge: EdgeType) -> str:
    return f"{edge.name}: {edge.source} -> {edge.target}"


# ── binding ──────────────────────────────────────────────────────────────────────────────────────


def _bind_end(
    variable: ast.Variable, type_name: str | None, scope: BlockScope, context: Context
) -> str:
    if variable.name == ast.WILDCARD:
        return context.fresh_variable()
    if scope.find(variable.name) is None:
        declare(variable.name, BoundVariable("node", type_name), variable.span, scope, context)
    return variable.name


def _bind_edge(
    clause: ast.Traversal, edge: EdgeType | None, scope: BlockScope, context: Context
) -> str | None:
    variable = clause.edge_variable
    if variable is None or variable.name == ast.WILDCARD:
        return None
    if clause.hops is not None:
        message = f"`${variable.name}` stands for one edge, so the walk cannot have hop bounds"
        context.report(TypeProblem(QueryRule.T23, message), clause.hops.span)
    if scope.find(variable.name) is not None:
        message = f"`${variable.name}` is bound already and cannot stand for an edge as well"
        context.report(TypeProblem(QueryRule.T23, message), variable.span)
        return None
    bound = BoundVariable("edge", None if edge is None else edge.name)
    declare(variable.name, bound, variable.span, scope, context)
    return variable.name
