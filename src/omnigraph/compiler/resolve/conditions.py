"""Comparisons of operands, and the inline matches of a binding."""

from dataclasses import replace

from omnigraph.catalog.precision import to_single
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Condition,
    Constant,
    IdOf,
    Member,
    Now,
    Operand,
    PropertyOf,
    StringMatch,
    StringTest,
)
from omnigraph.compiler.resolve.context import BlockScope, BoundVariable, Context
from omnigraph.compiler.resolve.literals import Use, as_list, fit, resolve_literal
from omnigraph.compiler.resolve.operands import (
    id_of,
    property_of,
    resolve_parameter,
    type_name_of,
)
from omnigraph.compiler.resolve.search import resolve_text_match
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import (
    TypeProblem,
    find_comparison_problem,
    find_identity_problem,
    find_member_problem,
    find_string_problem,
)
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span

# ── comparisons ──────────────────────────────────────────────────────────────────────────────────


_Named = tuple[str, BoundVariable]


def find_bound(expression: ast.Expression, scope: BlockScope, context: Context) -> _Named | None:
    """The node or edge that a bare variable stands for; None for every other expression."""
    if not isinstance(expression, ast.Variable) or expression.name in context.parameters:
        return None
    bound = scope.find(expression.name)
    return None if bound is None else (expression.name, bound)


def resolve_identity(
    left: _Named, right: _Named, comparison: ast.Comparison, context: Context
) -> Condition | None:
    """`$a = $b`: do both stand for the same node or edge?"""
    types = (set(left[1].types), set(right[1].types))
    if set() in types:
        return None
    operands: tuple[IdOf, IdOf] = (id_of(*left), id_of(*right))
    is_alike = left[1].kind == right[1].kind and bool(types[0] & types[1])
    problem = find_identity_problem(*operands, comparison.operator.value, is_alike=is_alike)
    if problem is not None:
        context.report(problem, comparison.span)
        return None
    comparator = Comparator(comparison.operator.value)
    same = Compare(operands[0], comparator, operands[1], comparison.span)
    if not left[1].is_several and not right[1].is_several:
        return same
    # Ids are unique within a type only.
    alike = Compare(type_name_of(*left), comparator, type_name_of(*right), comparison.span)
    return AllOf((same, alike)) if comparator is Comparator.EQ else AnyOf((same, alike))


def resolve_text_comparison(
    text: ast.TextMatch,
    other: ast.Expression,
    comparison: ast.Comparison,
    scope: BlockScope,
    context: Context,
) -> Condition | None:
    """`search(f, q) = true` is the clause itself; nothing else can be asked of it."""
    resolved = resolve_text_match(text, scope, context)
    if comparison.operator is ast.Operator.EQ and other == ast.Literal(True):
        return resolved
    message = f"`{text.function}` is either a clause by itself or compared with `= true`"
    context.report(
        TypeProblem(
            QueryRule.U10, message, "to exclude what matches, put the clause into `not { }`"
        ),
        comparison.span,
    )
    return None


def build_comparison(
    left: Operand, operator: ast.Operator, right: Operand, span: Span
) -> Condition | TypeProblem:
    match operator:
        case ast.Operator.CONTAINS if left.type is not None and left.type.is_list:
            return find_member_problem(right, left) or Member(right, left, span)
        case ast.Operator.CONTAINS | ast.Operator.STARTS_WITH:
            test = StringTest(operator.value)
            problem = find_string_problem(left, right, test)
            return problem or StringMatch(left, test, right, span)
        case ast.Operator.IN:
            problem = find_member_problem(left, right)
            return problem or Member(left, _typed_like(right, left), span)
        case _:
            problem = find_comparison_problem(left, right)
            if problem is not None:
                return problem
            comparator = Comparator(operator.value)
            return Compare(
                _at_precision_of(left, right), comparator, _at_precision_of(right, left), span
            )


def _typed_like(haystack: Operand, needle: Operand) -> Operand:
    """The empty list literal takes the type of what is looked for in it."""
    if isinstance(haystack, Constant) and haystack.value == () and needle.type is not None:
        return replace(haystack, type=as_list(needle.type))
    return haystack


def _at_precision_of(operand: Operand, other: Operand) -> Operand:
    """A FLOAT literal beside an F32 means the F32 it would be stored as: 0.1 finds 0.1."""
    if not isinstance(operand, Constant) or not isinstance(operand.value, float):
        return operand
    if other.type is None or other.type.base is not Scalar.F32:
        return operand
    single = to_single(operand.value)
    if single is None:
        return operand
    return replace(operand, value=single, type=ValueType(Scalar.F32))


# ── inline matches ───────────────────────────────────────────────────────────────────────────────


def resolve_match(
    variable: str, bound: BoundVariable, match_: ast.Match, context: Context
) -> Condition | None:
    """`property: value` in a binding: equality, or membership for a list property."""
    target = property_of(variable, bound, match_.name, match_.name.span, context, rule=QueryRule.T2)
    if target is None:
        return None
    value = _resolve_match_value(
        match_.value, target, f"{bound.type_name}.{target.spelling}", context
    )
    if value is None:
        return None
    if target.type.is_list:
        return Member(value, target, match_.span)
    return Compare(target, Comparator.EQ, value, match_.span)


def _resolve_match_value(
    value: ast.Value, target: PropertyOf, label: str, context: Context
) -> Operand | None:
    match value:
        case ast.Variable():
            operand: Operand | None = resolve_parameter(value, context, rule=QueryRule.U4)
        case ast.Now(span):
            operand = Now(span=span)
        case _:
            return _resolve_match_literal(value, target, label, context)
    if operand is None:
        return None
    if target.type.is_list:
        problem = find_member_problem(operand, target)
    else:
        problem = find_comparison_problem(target, operand)
    if problem is None:
        return operand
    context.report(problem, value.span)
    return None


def _resolve_match_literal(
    literal: ast.LiteralValue, target: PropertyOf, label: str, context: Context
) -> Constant | None:
    constant = resolve_literal(literal, context)
    if constant is None:
        return None
    fitted = fit_matched(constant, target.type, label)
    if isinstance(fitted, Constant):
        return fitted
    context.report(fitted, literal.span)
    return None


def fit_matched(constant: Constant, wanted: ValueType, label: str) -> Constant | TypeProblem:
    """The value that the property, or an element of it, is compared with."""
    problem = _find_unmatchable(constant, wanted, label)
    if problem is not None:
        return problem
    if wanted.is_list:
        return fit(constant, wanted.item, target=f"an element of {label}", use=Use.MATCH)
    return fit(constant, wanted, target=label, use=Use.MATCH)


def _find_unmatchable(constant: Constant, wanted: ValueType, label: str) -> TypeProblem | None:
    """T3: properties that no literal can be matched with, whatever its value."""
    if wanted.is_vector:
        message = f"{label} is {wanted}: vectors are not matched, only ranked"
        return TypeProblem(QueryRule.T3, message, "order by `nearest`")
    if wanted.is_blob:
        return TypeProblem(QueryRule.T3, f"{label} is {wanted}: a Blob cannot be matched")
    if wanted.is_list and constant.type is not None and constant.type.is_list:
        message = f"{label} is {wanted}: a match on a list names one element"
        return TypeProblem(QueryRule.T3, message, "write the element without brackets")
    return None
