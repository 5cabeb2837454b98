"""What a read returns: its columns, their names and types.

A column without an alias is called by what it shows: `x.p`, `x`, the parameter, `literal`, `now`,
the function, `case`, and `value` for what an operator computes; an aggregate and a cast by what
they apply to; a rank function by itself.
"""

from typing import assert_never

from omnigraph.catalog.types import ValueType
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import (
    F64,
    STRING,
    Aggregate,
    AggregateFunction,
    Bm25,
    IdOf,
    Nearest,
    ObjectOf,
    Operand,
    Output,
    ParameterRef,
    Rank,
    Rrf,
)
from omnigraph.compiler.resolve.context import BlockScope, Context
from omnigraph.compiler.resolve.expressions import resolve_operand
from omnigraph.compiler.resolve.operands import find_object, id_of, identity_of, rank_name
from omnigraph.compiler.resolve.search import resolve_rank
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import (
    TypeProblem,
    aggregate_type,
    describe,
    find_aggregate_problem,
    find_fraction_problem,
)
from omnigraph.lang.query import ast

Column = Output | None
"""None keeps the place of a projection that is wrong."""


def resolve_outputs(
    projections: tuple[ast.Projection, ...], scope: BlockScope, context: Context
) -> list[Column]:
    is_aggregate = any(isinstance(each.expression, ast.Aggregate) for each in projections)
    columns: list[Column] = []
    names: set[str] = set()
    for projection in projections:
        expression = _resolve_projection(projection.expression, scope, context)
        if is_aggregate and expression is not None:
            expression = _check_group_key(expression, projection, context)
        name = name_of(projection)
        if expression is None:
            columns.append(None)
            continue
        if name in names:
            message = f"two columns are called '{name}'"
            hint = "give one of them another name with `as`"
            context.report(TypeProblem(QueryRule.U7, message, hint), projection.span)
        names.add(name)
        columns.append(Output(name, expression, type_of(expression), projection.span))
    return columns


def _resolve_projection(
    expression: ast.Expression, scope: BlockScope, context: Context
) -> Operand | ObjectOf | Aggregate | Rank | None:
    match expression:
        case ast.Variable() if (found := find_object(expression, scope, context)) is not None:
            return found
        case ast.Aggregate():
            return resolve_aggregate(expression, scope, context)
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            return resolve_rank(expression, scope, context)
        case _:
            operand = resolve_operand(expression, scope, context)
    if operand is not None and operand.type is not None and operand.type.is_blob:
        message = f"{describe(operand)} cannot be returned"
        context.report(TypeProblem(QueryRule.T24, message), expression.span)
        return None
    return operand


def resolve_aggregate(
    expression: ast.Aggregate, scope: BlockScope, context: Context
) -> Aggregate | None:
    function = AggregateFunction(expression.function.value)
    argument = _resolve_argument(expression.argument, function, scope, context)
    fraction = None
    if expression.fraction is not None:
        fraction = resolve_operand(expression.fraction, scope, context)
        if fraction is None:
            return None
    if argument is None:
        return None
    problem = find_fraction_problem(function, fraction)
    if problem is not None:
        context.report(problem, expression.span)
        return None
    problem = find_aggregate_problem(function, argument, distinct=expression.distinct)
    if problem is not None:
        context.report(problem, expression.span)
        return None
    value_type = aggregate_type(function, argument)
    if expression.distinct and isinstance(argument, IdOf):
        bound = scope.find(argument.variable)
        assert bound is not None, "the id was resolved through it"
        argument = identity_of(argument.variable, bound, argument.span)
    context.fractions |= {fraction.name} if isinstance(fraction, ParameterRef) else set()
    return Aggregate(function, argument, expression.distinct, value_type, expression.span, fraction)


def _resolve_argument(
    argument: ast.Expression, function: AggregateFunction, scope: BlockScope, context: Context
) -> Operand | None:
    """An edge has no value of its own, but edges can be counted."""
    if function is AggregateFunction.COUNT and isinstance(argument, ast.Variable):
        bound = scope.find(argument.name)
        if bound is not None and bound.kind == "edge" and argument.name not in context.parameters:
            return id_of(argument.name, bound, argument.span)
    return resolve_operand(argument, scope, context)


def _check_group_key(
    expression: Operand | ObjectOf | Aggregate | Rank,
    projection: ast.Projection,
    context: Context,
) -> Operand | ObjectOf | Aggregate | None:
    """T9: whatever stands beside an aggregate is what its groups have in common."""
    if isinstance(expression, Aggregate | ObjectOf):
        return expression
    if not isinstance(expression, Nearest | Bm25 | Rrf) and not is_fixed(expression):
        return expression
    message = f"beside an aggregate, '{name_of(projection)}' must be `$x.p` or `$x`: a group key"
    context.report(TypeProblem(QueryRule.T9, message), projection.span)
    return None


def type_of(expression: Operand | ObjectOf | Aggregate | Rank) -> ValueType:
    match expression:
        case Nearest() | Bm25() | Rrf():
            return F64.optional()
        case _:
            # A bare null has no type; as a column it is a String that is never there.
            return STRING.optional() if expression.type is None else expression.type


def name_of(projection: ast.Projection) -> str:
    """The alias, else the name of what is shown."""
    if projection.alias is not None:
        return projection.alias.text
    return _default_name(projection.expression)


def _default_name(expression: ast.Expression) -> str:
    match expression:
        case ast.PropertyRef(variable, name):
            return f"{variable.name}.{name.text}"
        case ast.Variable(name):
            return name
        case ast.Aggregate(argument=argument):
            return _default_name(argument)
        case ast.Now():
            return "now"
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            return rank_name(expression)
        case ast.TextMatch(function):
            return function.value
        case ast.Word("null"):
            return "literal"
        case ast.Word(text):
            return text
        case (
            ast.Literal()
            | ast.Null()
            | ast.DateLiteral()
            | ast.DateTimeLiteral()
            | ast.ListLiteral()
        ):
            return "literal"
        case ast.Call(function):
            return function.text
        case ast.Cast(operand=operand):
            return _default_name(operand)
        case ast.CaseWhen():
            return "case"
        case (
            ast.Arithmetic()
            | ast.Negative()
            | ast.Comparison()
            | ast.NullTest()
            | ast.Inversion()
            | ast.AnyOf()
            | ast.AllOf()
        ):
            return "value"
        case _:
            assert_never(expression)
