"""Traversals: which edge, which way, and what that says about the two ends."""

from dataclasses import dataclass

from omnigraph.catalog.model import EdgeType
from omnigraph.compiler.ir import Direction
from omnigraph.compiler.resolve.context import Bound, Context, Scope
from omnigraph.compiler.resolve.variables import declare, is_usable_node
from omnigraph.compiler.rules import Rule
from omnigraph.compiler.spelling import closest
from omnigraph.compiler.typecheck import Problem
from omnigraph.lang.query import ast


@dataclass(frozen=True, slots=True)
class Walk:
    """A traversal, as written from `source` to `target`; `edge` is None when it is wrong."""

    source: str
    target: str
    edge: EdgeType | None
    direction: Direction
    hops: tuple[int, int]
    edge_variable: str | None
    clause: ast.Traversal


def resolve_walk(clause: ast.Traversal, scope: Scope, context: Context) -> Walk:
    """The walk, with both ends bound in the scope. One that is wrong still connects its ends."""
    edge = _find_edge(clause, context)
    hops = _resolve_hops(clause, context)
    ends = (clause.source, clause.target)
    usable = [is_usable_node(each, scope, context) for each in ends]
    if edge is not None and clause.undirected and edge.source != edge.target:
        message = f"{edge} cannot be walked undirected: its ends have different types"
        hint = f"write `{clause.edge.text}` without the angle brackets"
        context.report(Problem(Rule.T22, _name(edge, message), hint), clause.edge.span)
        edge = None
    direction = None if edge is None or not all(usable) else _infer(clause, edge, scope, context)
    if edge is None or direction is None:
        source, target = (_bind_end(each, None, scope, context) for each in ends)
        _bind_edge(clause, edge, scope, context)
        return Walk(source, target, None, Direction.OUT, hops, None, clause)
    near, far = _end_types(edge, direction)
    source = _bind_end(clause.source, near, scope, context)
    target = _bind_end(clause.target, far, scope, context)
    edge_variable = _bind_edge(clause, edge, scope, context)
    return Walk(source, target, edge, direction, hops, edge_variable, clause)
