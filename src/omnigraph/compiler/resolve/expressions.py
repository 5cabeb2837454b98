"""Expressions and conditions: what is computed from operands.

A condition is a value, and a Bool is a condition, so both are resolved here. `not` moves inwards
through `and` and `or`: it then stands before a single test only, and a condition that is unknown
never decides anything.
"""

from dataclasses import replace
from typing import assert_never

from omnigraph.catalog.temporal import DAY_MS
from omnigraph.catalog.types import Scalar
from omnigraph.compiler import functions
from omnigraph.compiler.functions import DURATION, DURATIONS
from omnigraph.compiler.ir import (
    BOOL,
    I64,
    AllOf,
    AnyOf,
    Choice,
    ChoiceArm,
    Comparator,
    Compare,
    Computed,
    Condition,
    Constant,
    Function,
    Member,
    Not,
    NullTest,
    Operand,
    ParameterRef,
    PathPart,
    StringMatch,
    TextMatch,
    Truth,
)
from omnigraph.compiler.resolve.conditions import (
    build_comparison,
    find_bound,
    resolve_identity,
    resolve_text_comparison,
)
from omnigraph.compiler.resolve.context import BlockScope, Context
from omnigraph.compiler.resolve.operands import find_edge_id, misplaced, resolve_leaf
from omnigraph.compiler.resolve.paths import find_path, part_of
from omnigraph.compiler.resolve.search import resolve_text_match
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import TypeProblem, describe
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span

# ── values ───────────────────────────────────────────────────────────────────────────────────────


def resolve_operand(
    expression: ast.Expression, scope: BlockScope, context: Context
) -> Operand | None:
    """The operand, or None when what is wrong with it has been reported."""
    match expression:
        case ast.Arithmetic():
            return _resolve_arithmetic(expression, scope, context)
        case ast.Negative(operand, span):
            value = resolve_operand(operand, scope, context)
            return None if value is None else _made(functions.negate(value, span), span, context)
        case ast.Call():
            return _resolve_call(expression, scope, context)
        case ast.Cast():
            return _resolve_cast(expression, scope, context)
        case ast.CaseWhen():
            return _resolve_case(expression, scope, context)
        case ast.Comparison() | ast.NullTest() | ast.Inversion() | ast.AnyOf() | ast.AllOf():
            condition = _resolve_condition(expression, scope, context, is_value=True)
            return None if condition is None else Truth(condition, span=expression.span)
        case _:
            return resolve_leaf(expression, scope, context)


def _made(outcome: Operand | TypeProblem, span: Span, context: Context) -> Operand | None:
    """The operand, if nothing is wrong with it. A constant without a value is reported."""
    if isinstance(outcome, TypeProblem):
        context.report(outcome, span)
        return None
    if isinstance(outcome, Computed) and _has_no_value(outcome):
        message = f"{describe(outcome)} has no value: it is null for every row"
        hint = "write `null`, or correct the numbers"
        context.report(TypeProblem(QueryRule.E4, message, hint), span)
        return None
    return outcome


def _has_no_value(computed: Computed) -> bool:
    constants = [each for each in computed.arguments if isinstance(each, Constant)]
    if len(constants) < len(computed.arguments) or any(each.value is None for each in constants):
        return False
    # Arrow is loaded only by queries that compute something.
    from omnigraph.compiler.scalars import Argument, Fixed, evaluate  # noqa: PLC0415

    arguments = [Argument(Fixed(each.value), each.type) for each in constants]
    return evaluate(computed.function, arguments, computed.type) is None


def _resolve_all(
    expressions: tuple[ast.Expression, ...], scope: BlockScope, context: Context
) -> tuple[Operand, ...] | None:
    resolved = [resolve_operand(each, scope, context) for each in expressions]
    known = tuple(each for each in resolved if each is not None)
    return known if len(known) == len(resolved) else None


def _resolve_call(call: ast.Call, scope: BlockScope, context: Context) -> Operand | None:
    name, span = call.function.text, call.span
    path = find_path(call, scope)
    if path is not None:
        return part_of(path, call, scope, context)
    if name in (PathPart.NODES, PathPart.COST):
        by = " by property" if name == PathPart.COST else ""
        hint = f"bind one: `shortest {{ $a edge{{1,6}} $b }}{by} as $path`"
        context.report(TypeProblem(QueryRule.E1, f"`{name}` takes a path", hint), call.span)
        return None
    problem = functions.find_arity_problem(name, len(call.arguments))
    if problem is not None:
        context.report(problem, call.function.span)
        return None
    if _is_duration(call):
        message = f"`{name}` is a duration, and is only added to a Date or a DateTime"
        context.report(TypeProblem(QueryRule.E2, message, "write `$x.day + days(7)`"), span)
        return None
    if name == functions.CAST:
        message = "`cast` names the type that it gives"
        context.report(TypeProblem(QueryRule.E1, message, "write `cast($x.n as String)`"), span)
        return None
    arguments = _resolve_all(call.arguments, scope, context)
    if arguments is None:
        return None
    made = _made(functions.call(name, arguments, span), span, context)
    if isinstance(made, Computed) and made.function is Function.MATCHES:
        pattern = made.arguments[1]
        context.patterns |= {pattern.name} if isinstance(pattern, ParameterRef) else set()
    return made


def _resolve_cast(cast: ast.Cast, scope: BlockScope, context: Context) -> Operand | None:
    operand = resolve_operand(cast.operand, scope, context)
    if cast.function.text != functions.CAST:
        message = f"`{cast.function.text}` does not take a type; `cast` does"
        context.report(TypeProblem(QueryRule.E1, message), cast.function.span)
        return None
    if operand is None:
        return None
    return _made(functions.cast(operand, cast.type_name.text, cast.span), cast.span, context)


def _resolve_case(case: ast.CaseWhen, scope: BlockScope, context: Context) -> Operand | None:
    conditions: list[Condition | None] = []
    values: list[Operand | None] = []
    for branch in case.branches:
        test = branch.condition
        if case.subject is not None:
            span = branch.condition.span
            test = ast.Comparison(case.subject, ast.Operator.EQ, branch.condition, span)
        conditions.append(_resolve_condition(test, scope, context, is_value=True))
        values.append(resolve_operand(branch.value, scope, context))
    otherwise: Operand | None = Constant(None, None)
    if case.otherwise is not None:
        otherwise = resolve_operand(case.otherwise, scope, context)
    whole = [(c, v) for c, v in zip(conditions, values, strict=True) if c is not None and v]
    if len(whole) < len(case.branches) or otherwise is None:
        return None
    kind = functions.common_type([*(value for _, value in whole), otherwise], "the `case`")
    if isinstance(kind, TypeProblem):
        context.report(kind, case.span)
        return None
    branches = tuple(ChoiceArm(condition, value) for condition, value in whole)
    return Choice(branches, otherwise, kind.optional(), case.span)


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────

_FUNCTIONS = {each: Function(each.value) for each in ast.ArithmeticOperator}


def _resolve_arithmetic(
    expression: ast.Arithmetic, scope: BlockScope, context: Context
) -> Operand | None:
    left, operator, right, span = (
        expression.left,
        expression.operator,
        expression.right,
        expression.span,
    )
    is_sum = operator in (ast.ArithmeticOperator.ADD, ast.ArithmeticOperator.SUBTRACT)
    if is_sum and isinstance(right, ast.Call) and _is_duration(right):
        is_later = operator is ast.ArithmeticOperator.ADD
        return _resolve_shift(left, right, span, scope, context, is_later=is_later)
    if operator is ast.ArithmeticOperator.ADD and isinstance(left, ast.Call) and _is_duration(left):
        return _resolve_shift(right, left, span, scope, context, is_later=True)
    operands = _resolve_all((left, right), scope, context)
    if operands is None:
        return None
    one, other = operands
    return _made(functions.arithmetic(_FUNCTIONS[operator], one, other, span), span, context)


def _is_duration(call: ast.Call) -> bool:
    return call.function.text in DURATIONS or call.function.text == DURATION


def _resolve_shift(
    moved: ast.Expression,
    duration: ast.Call,
    span: Span,
    scope: BlockScope,
    context: Context,
    *,
    is_later: bool,
) -> Operand | None:
    """A Date or DateTime plus or minus a duration."""
    base = resolve_operand(moved, scope, context)
    length = _resolve_duration(duration, scope, context)
    if base is None or length is None:
        return None
    months, milliseconds = (
        part if part is None or is_later else _opposite(part) for part in length
    )
    is_date = base.type is not None and base.type.base is Scalar.DATE
    if is_date and milliseconds is not None:
        milliseconds = _in_days(milliseconds)
        if milliseconds is None:
            message = f"{describe(base)} has no time of day to add this to"
            hint = "write `cast(… as DateTime)`"
            context.report(TypeProblem(QueryRule.E2, message, hint), duration.span)
            return None
    return _made(functions.shift(base, months, milliseconds, span), span, context)


_Length = tuple[Operand | None, Operand | None]
"""The months and the milliseconds of a duration."""


def _resolve_duration(call: ast.Call, scope: BlockScope, context: Context) -> _Length | None:
    name = call.function.text
    problem = functions.find_arity_problem(name, len(call.arguments))
    if problem is not None:
        context.report(problem, call.function.span)
        return None
    if name == DURATION:
        return _resolve_literal_duration(call.arguments[0], context)
    amount = resolve_operand(call.arguments[0], scope, context)
    if amount is None:
        return None
    if amount.type is not None and not amount.type.is_integer:
        message = f"`{name}` counts with an integer, not with {describe(amount)}"
        context.report(TypeProblem(QueryRule.E2, message), call.span)
        return None
    months, milliseconds = DURATIONS[name]
    return (
        _times(amount, months) if months else None,
        _times(amount, milliseconds) if milliseconds else None,
    )


def _resolve_literal_duration(text: ast.Expression, context: Context) -> _Length | None:
    length = None
    if isinstance(text, ast.Literal) and isinstance(text.value, str):
        length = functions.parse_duration(text.value)
    if length is None:
        message = '`duration` takes a text such as "P1M2DT3H"'
        hint = "with a number of units that varies, write `days($n)`"
        context.report(TypeProblem(QueryRule.E2, message, hint), text.span)
        return None
    months, milliseconds = length
    return (
        Constant(months, I64) if months else None,
        Constant(milliseconds, I64) if milliseconds or not months else None,
    )


def _times(amount: Operand, factor: int) -> Operand:
    if factor == 1:
        return amount
    if isinstance(amount, Constant) and isinstance(amount.value, int):
        return replace(amount, value=amount.value * factor, type=I64)
    return Computed(Function.MULTIPLY, (amount, Constant(factor, I64)), I64.optional(), amount.span)


def _opposite(amount: Operand) -> Operand:
    if isinstance(amount, Constant) and isinstance(amount.value, int):
        return replace(amount, value=-amount.value)
    return Computed(Function.NEGATE, (amount,), I64.optional(), amount.span)


def _in_days(milliseconds: Operand) -> Operand | None:
    """The same in days; None if it is not made of whole days."""
    match milliseconds:
        case Constant(int() as value):
            return replace(milliseconds, value=value // DAY_MS) if value % DAY_MS == 0 else None
        case Computed(Function.MULTIPLY, (amount, Constant(int() as factor))):
            return _times(amount, factor // DAY_MS) if factor % DAY_MS == 0 else None
        case Computed(Function.NEGATE, (amount,)):
            days = _in_days(amount)
            return None if days is None else _opposite(days)
        case _:
            return None


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def resolve_condition(
    condition: ast.Condition, scope: BlockScope, context: Context, *, is_value: bool = False
) -> Condition | None:
    """The condition of a filter, or None when a part of it is wrong; every part is looked at.

    As a value, a condition has no full-text clauses: those find rows.
    """
    return _resolve_condition(condition, scope, context, is_value=is_value)


def _resolve_condition(
    condition: ast.Condition, scope: BlockScope, context: Context, *, is_value: bool
) -> Condition | None:
    match condition:
        case ast.Comparison():
            return _resolve_comparison(condition, scope, context, is_value=is_value)
        case ast.NullTest(operand, negated, span):
            edge = find_edge_id(operand, scope, context)
            resolved = edge or resolve_operand(operand, scope, context)
            return None if resolved is None else NullTest(resolved, negated, span)
        case ast.TextMatch() if not is_value:
            return resolve_text_match(condition, scope, context)
        case ast.Inversion(inner, span):
            resolved_inner = _resolve_condition(inner, scope, context, is_value=is_value)
            return None if resolved_inner is None else _invert(resolved_inner, span, context)
        case ast.AnyOf(conditions):
            parts = _resolve_parts(conditions, scope, context, is_value=is_value)
            return None if parts is None else AnyOf(parts)
        case ast.AllOf(conditions):
            parts = _resolve_parts(conditions, scope, context, is_value=is_value)
            return None if parts is None else AllOf(parts)
        case _:
            value = resolve_operand(condition, scope, context)
            return None if value is None else _as_condition(value, condition.span, context)


def _resolve_parts(
    conditions: tuple[ast.Condition, ...], scope: BlockScope, context: Context, *, is_value: bool
) -> tuple[Condition, ...] | None:
    resolved = [_resolve_condition(each, scope, context, is_value=is_value) for each in conditions]
    parts = tuple(each for each in resolved if each is not None)
    return parts if len(parts) == len(resolved) else None


def _as_condition(value: Operand, span: Span, context: Context) -> Condition | None:
    """A Bool, asked whether it is true."""
    if isinstance(value, Truth):
        return value.condition
    if value.type is not None and not value.type.is_list and value.type.base is Scalar.BOOL:
        return Compare(value, Comparator.EQ, Constant(True, BOOL), span)
    message = f"a condition is true or false, and {describe(value)} is neither"
    context.report(TypeProblem(QueryRule.E2, message, "compare it with something"), span)
    return None


def _invert(condition: Condition, span: Span, context: Context) -> Condition | None:
    match condition:
        case Compare() | Member() | StringMatch():
            return Not(condition)
        case Not(test):
            return test
        case NullTest(_, negated):
            return replace(condition, negated=not negated)
        case TextMatch(function):
            message = f"`{function}` finds rows and cannot be inverted"
            hint = "to exclude what matches, put the clause into `not { }`"
            context.report(TypeProblem(QueryRule.U10, message, hint), span)
            return None
        case AllOf(conditions) | AnyOf(conditions):
            inverted = [_invert(each, span, context) for each in conditions]
            parts = tuple(each for each in inverted if each is not None)
            if len(parts) < len(inverted):
                return None
            return AnyOf(parts) if isinstance(condition, AllOf) else AllOf(parts)
        case _:
            assert_never(condition)


def _resolve_comparison(
    comparison: ast.Comparison, scope: BlockScope, context: Context, *, is_value: bool
) -> Condition | None:
    for text, other in (
        (comparison.left, comparison.right),
        (comparison.right, comparison.left),
    ):
        if isinstance(text, ast.TextMatch):
            if not is_value:
                return resolve_text_comparison(text, other, comparison, scope, context)
            context.report(misplaced(text), text.span)
            return None
    left_bound = find_bound(comparison.left, scope, context)
    right_bound = find_bound(comparison.right, scope, context)
    if left_bound is not None and right_bound is not None:
        return resolve_identity(left_bound, right_bound, comparison, context)
    left = resolve_operand(comparison.left, scope, context)
    right = resolve_operand(comparison.right, scope, context)
    if left is None or right is None:
        return None
    built = build_comparison(left, comparison.operator, right, comparison.span)
    if isinstance(built, TypeProblem):
        context.report(built, comparison.span)
        return None
    return built
