"""Full-text clauses and rank functions."""

from typing import assert_never

from omnigraph.compiler.ir import (
    I64,
    Bm25,
    Constant,
    Nearest,
    Operand,
    PropertyOf,
    Rank,
    Rrf,
    TextFunction,
    TextMatch,
)
from omnigraph.compiler.resolve.context import BlockScope, Context
from omnigraph.compiler.resolve.literals import Use, fit
from omnigraph.compiler.resolve.operands import SYSTEM, resolve_leaf, resolve_property
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import (
    TypeProblem,
    describe,
    find_fusion_problem,
    find_integer_problem,
    find_nearest_problem,
    find_query_problem,
)
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span

RRF_K_DEFAULT = 60


# ── full text ────────────────────────────────────────────────────────────────────────────────────


def resolve_text_match(
    clause: ast.TextMatch, scope: BlockScope, context: Context
) -> TextMatch | None:
    function = TextFunction(clause.function.value)
    rule = QueryRule.T20 if function is TextFunction.MATCH_TEXT else QueryRule.T19
    target = _resolve_text_target(clause.target, function.value, rule, scope, context)
    query = _resolve_query(clause.query, function.value, rule, scope, context)
    max_edits = _resolve_max_edits(clause.max_edits, scope, context)
    if target is None or query is None or (clause.max_edits is not None and max_edits is None):
        return None
    return TextMatch(function, target, query, max_edits, clause.span)


def _resolve_text_target(
    expression: ast.Expression, function: str, rule: QueryRule, scope: BlockScope, context: Context
) -> PropertyOf | None:
    target = resolve_leaf(expression, scope, context)
    if target is None:
        return None
    # An id is a String that is looked up, not a text in which words are searched.
    is_id = isinstance(expression, ast.PropertyRef) and expression.name.text.startswith(SYSTEM)
    if is_id or not isinstance(target, PropertyOf) or not target.type.is_string:
        message = f"`{function}` searches a String property, not {describe(target)}"
        context.report(TypeProblem(rule, message), expression.span)
        return None
    return _of_one_node_type(target, function, scope, context)


def _of_one_node_type(
    target: PropertyOf, function: str, scope: BlockScope, context: Context
) -> PropertyOf | None:
    bound = scope.find(target.variable)
    assert bound is not None, "the property was resolved through it"
    if bound.kind == "edge":
        message = f"`{function}` works on nodes, and `${target.variable}` is an edge"
        context.report(TypeProblem(QueryRule.T23, message), target.span)
        return None
    if bound.is_several:
        message = f"`{function}` searches one node type, and `${target.variable}` may be of several"
        hint = f"bind `${target.variable}` to one of {', '.join(bound.types)}"
        problem = TypeProblem(
            QueryRule.V2, message, hint, expected=("one node type",), candidates=bound.types
        )
        context.report(problem, target.span)
        return None
    return target


def _resolve_query(
    expression: ast.Expression, function: str, rule: QueryRule, scope: BlockScope, context: Context
) -> Operand | None:
    query = resolve_leaf(expression, scope, context)
    if query is None:
        return None
    return _checked(query, find_query_problem(rule, function, query), expression.span, context)


def _resolve_max_edits(
    expression: ast.Expression | None, scope: BlockScope, context: Context
) -> Operand | None:
    if expression is None:
        return None
    edits = resolve_leaf(expression, scope, context)
    if edits is None:
        return None
    problem = find_integer_problem(QueryRule.T19, "max_edits of `fuzzy`", edits)
    if problem is None and isinstance(edits, Constant) and _is_negative(edits):
        problem = TypeProblem(QueryRule.T19, f"max_edits of `fuzzy` is not negative: {edits.value}")
    return _checked(edits, problem, expression.span, context)


def _is_negative(constant: Constant) -> bool:
    return isinstance(constant.value, int) and constant.value < 0


def _checked(
    operand: Operand, problem: TypeProblem | None, span: Span, context: Context
) -> Operand | None:
    if problem is None:
        return operand
    context.report(problem, span)
    return None


# ── ranking ──────────────────────────────────────────────────────────────────────────────────────


def resolve_rank(
    expression: ast.Nearest | ast.Bm25 | ast.Rrf, scope: BlockScope, context: Context
) -> Rank | None:
    match expression:
        case ast.Nearest():
            return _resolve_nearest(expression, scope, context)
        case ast.Bm25(target, query, span):
            text = _resolve_text_target(target, "bm25", QueryRule.T20, scope, context)
            wanted = _resolve_query(query, "bm25", QueryRule.T20, scope, context)
            return None if text is None or wanted is None else Bm25(text, wanted, span)
        case ast.Rrf():
            return _resolve_rrf(expression, scope, context)
        case _:
            assert_never(expression)


def _resolve_nearest(
    expression: ast.Nearest, scope: BlockScope, context: Context
) -> Nearest | None:
    target = resolve_property(expression.target, scope, context, rule=QueryRule.T15)
    query = resolve_leaf(expression.query, scope, context)
    if target is not None:
        target = _of_one_node_type(target, "nearest", scope, context)
    if target is None or query is None:
        return None
    problem = find_nearest_problem(target, query)
    if problem is not None:
        context.report(problem, expression.span)
        return None
    if isinstance(query, Constant) and isinstance(query.value, tuple):
        return _nearest_literal(target, query, expression.span, context)
    return Nearest(target, query, expression.span)


def _nearest_literal(
    target: PropertyOf, query: Constant, span: Span, context: Context
) -> Nearest | None:
    """A list of numbers becomes a vector, at the precision of one."""
    vector = fit(query, target.type, target="what `nearest` looks for", use=Use.ASSIGN)
    if isinstance(vector, TypeProblem):
        context.report(vector, query.span)
        return None
    return Nearest(target, vector, span)


def _resolve_rrf(expression: ast.Rrf, scope: BlockScope, context: Context) -> Rrf | None:
    first = resolve_rank(expression.first, scope, context)
    second = resolve_rank(expression.second, scope, context)
    k: Operand | None = Constant(RRF_K_DEFAULT, I64)
    if expression.k is not None:
        k = resolve_leaf(expression.k, scope, context)
    if first is None or second is None or k is None:
        return None
    assert not isinstance(first, Rrf)
    assert not isinstance(second, Rrf)
    fused = Rrf(first, second, k, expression.span)
    problem = find_fusion_problem(fused)
    if problem is not None:
        context.report(problem, expression.span)
        return None
    return fused
