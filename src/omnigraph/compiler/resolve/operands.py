"""What expressions are made of: literals, parameters, `$x.p`, `$x`, `now()`."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, assert_never

from omnigraph.catalog.model import ENDS, EdgeType, NodeType, family_of
from omnigraph.catalog.types import Struct, ValueType
from omnigraph.compiler import ir
from omnigraph.compiler.ir import (
    STRING,
    Constant,
    IdOf,
    Now,
    ObjectOf,
    Operand,
    ParameterRef,
    PropertyOf,
)
from omnigraph.compiler.resolve.context import BlockScope, BoundVariable, Context, share
from omnigraph.compiler.resolve.literals import resolve_literal
from omnigraph.compiler.resolve.mentions import bound_names
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import closest, rank_candidates, suggest
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast
from omnigraph.lang.source import NOWHERE, Span

SYSTEM: Final = "@"
"""The names of what is not a property begin with it."""


def resolve_leaf(expression: ast.Expression, scope: BlockScope, context: Context) -> Operand | None:
    """The operand, or None when what is wrong with it has been reported."""
    match expression:
        case (
            ast.Literal()
            | ast.Null()
            | ast.DateLiteral()
            | ast.DateTimeLiteral()
            | ast.ListLiteral()
        ):
            return resolve_literal(expression, context)
        case ast.Variable():
            return resolve_variable(expression, scope, context)
        case ast.PropertyRef(name=ast.Name(ir.TYPE_COLUMN)):
            return _resolve_type_name(expression, scope, context)
        case ast.PropertyRef():
            return resolve_property(expression, scope, context)
        case ast.Now(span):
            return Now(span=span)
        case ast.Word(text, span) if text in context.aliases:
            found = context.aliases[text]
            return None if found is None else replace(found, span=span)
        case ast.Word("null", span):
            return Constant(None, None, span)
        case (
            ast.Word() | ast.Aggregate() | ast.Nearest() | ast.Bm25() | ast.Rrf() | ast.TextMatch()
        ):
            context.report(misplaced(expression, context.carried), expression.span)
            return None
        case _:
            message = "only a literal, a parameter or a property can stand here"
            context.report(TypeProblem(QueryRule.E2, message), expression.span)
            return None


def misplaced(
    expression: ast.Word | ast.Aggregate | ast.Nearest | ast.Bm25 | ast.Rrf | ast.TextMatch,
    carried: Collection[str] = (),
) -> TypeProblem:
    """Why this expression has no value for a single row; `carried` are the words that have one."""
    match expression:
        case ast.Word(text):
            hint = "aliases are for `order`; a property is written `$x.name`, a String in quotes"
            return TypeProblem(
                QueryRule.U8,
                f"'{text}' has no meaning here",
                suggest(text, carried) or hint,
                candidates=rank_candidates(text, carried),
            )
        case ast.Aggregate(function):
            message = f"`{function}` can only be returned: there is no group here"
            hint = f"write `{function}(…)` in `return`, and ask about it in `having`"
            return TypeProblem(QueryRule.U12, message, hint)
        case ast.TextMatch(function):
            hint = f"write `{function}(…)` by itself, as a clause of `match`"
            return TypeProblem(QueryRule.U10, f"`{function}` filters rows; it is not a value", hint)
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            name = rank_name(expression)
            hint = "it stands first in `order`, and may then be returned as well"
            return TypeProblem(QueryRule.U9, f"`{name}` ranks rows; it is not a value here", hint)
        case _:
            assert_never(expression)


def rank_name(rank: ast.Nearest | ast.Bm25 | ast.Rrf) -> str:
    return type(rank).__name__.lower()


# ── variables and parameters ─────────────────────────────────────────────────────────────────────


def resolve_variable(
    variable: ast.Variable, scope: BlockScope, context: Context
) -> ParameterRef | IdOf | None:
    """`$x`: a declared parameter if there is one, else the node bound to it."""
    parameter = context.parameters.get(variable.name)
    if parameter is not None:
        return ParameterRef(parameter.name, parameter.type, variable.span)
    if variable.name in context.mistyped:
        return None
    bound = scope.find(variable.name)
    if bound is None:
        context.report(_unknown_variable(variable, scope, context), variable.span)
        return None
    if bound.kind == "edge":
        message = f"`${variable.name}` is an edge; only its properties can be used"
        context.report(TypeProblem(QueryRule.T23, message), variable.span)
        return None
    return id_of(variable.name, bound, variable.span)


def id_of(name: str, bound: BoundVariable, span: Span = NOWHERE) -> IdOf:
    return IdOf(name, STRING.optional() if bound.optional else STRING, span)


def find_edge_id(
    expression: ast.Expression, scope: BlockScope, context: Context
) -> PropertyOf | None:
    """The id of an edge, which tells whether its variable is bound; None for anything else."""
    if not isinstance(expression, ast.Variable) or expression.name in context.parameters:
        return None
    bound = scope.find(expression.name)
    if bound is None or bound.kind != "edge":
        return None
    kind = STRING.optional() if bound.optional else STRING
    return PropertyOf(expression.name, "id", kind, expression.span)


def type_name_of(name: str, bound: BoundVariable, span: Span = NOWHERE) -> Operand:
    """The name of the type of what a variable is bound to; null if it is unbound."""
    kind = STRING.optional() if bound.optional else STRING
    if bound.is_several:
        return PropertyOf(name, ir.TYPE_COLUMN, kind, span)
    is_bound = ir.NullTest(id_of(name, bound), negated=True)
    arm = ir.ChoiceArm(is_bound, Constant(bound.type_name, STRING))
    return ir.Choice((arm,), Constant(None, None), kind, span)


def identity_of(name: str, bound: BoundVariable, span: Span = NOWHERE) -> Operand:
    """One value for each node or edge: of several types, the type and the id."""
    if not bound.is_several:
        return id_of(name, bound, span)
    kind = STRING.optional() if bound.optional else STRING
    parts = (type_name_of(name, bound), Constant("/", STRING), PropertyOf(name, "id", kind))
    return ir.Computed(ir.Function.CONCAT, parts, kind, span)


def find_object(variable: ast.Variable, scope: BlockScope, context: Context) -> ObjectOf | None:
    """`$x` as a column: the node or edge bound to it; None for a parameter, or if it is unknown."""
    bound = scope.find(variable.name)
    if bound is None or variable.name in context.parameters or variable.name in context.mistyped:
        return None
    owner = context.type_of(bound)
    if owner is None:
        return None
    ends = ("@src", "@dst") if isinstance(owner, EdgeType) else ()
    names = ("@id", ir.TYPE_COLUMN, *ends) if bound.is_several else ("@id", *ends)
    shown = [
        (each.spelling, each.type)
        for each in owner.properties
        if not each.type.is_blob and not each.type.is_vector
    ]
    record = Struct(tuple([(name, STRING) for name in names] + shown))
    return ObjectOf(variable.name, ValueType(record, nullable=bound.optional), variable.span)


def resolve_parameter(
    variable: ast.Variable, context: Context, *, rule: QueryRule
) -> ParameterRef | None:
    """`$x` where only a parameter can stand."""
    parameter = context.parameters.get(variable.name)
    if parameter is not None:
        return ParameterRef(parameter.name, parameter.type, variable.span)
    if variable.name in context.mistyped:
        return None
    message = f"`${variable.name}` is not a declared parameter"
    best = closest(variable.name, context.parameters)
    if best is not None:
        hint = f"did you mean `${best}`?"
    elif variable.name in set(bound_names(context.pattern)):
        hint = "it is a variable of `match`, and only parameters can stand here"
    else:
        hint = "declare it after the name of the query"
    problem = TypeProblem(
        rule,
        message,
        hint,
        expected=("a parameter",),
        candidates=_spelled(rank_candidates(variable.name, context.parameters)),
    )
    context.report(problem, variable.span)
    return None


def _spelled(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"${each}" for each in names)


def _unknown_variable(variable: ast.Variable, scope: BlockScope, context: Context) -> TypeProblem:
    name = variable.name
    if name == ast.WILDCARD:
        return TypeProblem(
            QueryRule.U4, "`$_` stands for any node and cannot be read", "give it a name"
        )
    if scope.find_path(name) is not None:
        hint = f"write `length(${name})` or `nodes(${name})`"
        return TypeProblem(QueryRule.U21, f"`${name}` is a path and no value itself", hint)
    message = f"`${name}` is neither a declared parameter nor bound above"
    return TypeProblem(
        QueryRule.U4,
        message,
        _hint_for_variable(name, scope, context),
        candidates=_candidates_for(name, scope, context),
    )


def _candidates_for(name: str, scope: BlockScope, context: Context) -> tuple[str, ...]:
    return _spelled(rank_candidates(name, {*scope.names(), *context.parameters}))


def _hint_for_variable(name: str, scope: BlockScope, context: Context) -> str | None:
    if name in set(bound_names(context.pattern)):
        return "it is bound further down, or inside a block; bind it above"
    best = closest(name, {*scope.names(), *context.parameters})
    return None if best is None else f"did you mean `${best}`?"


# ── properties ───────────────────────────────────────────────────────────────────────────────────


def resolve_property(
    reference: ast.PropertyRef,
    scope: BlockScope,
    context: Context,
    *,
    rule: QueryRule = QueryRule.T6,
) -> PropertyOf | None:
    """`$x.p`, of a node or of an edge."""
    variable = reference.variable.name
    bound = scope.find(variable)
    if bound is None:
        problem = _unbound(variable, scope, context, rule)
        context.report(problem, reference.variable.span)
        return None
    return property_of(variable, bound, reference.name, reference.span, context, rule=rule)


def _resolve_type_name(
    reference: ast.PropertyRef, scope: BlockScope, context: Context
) -> Operand | None:
    variable = reference.variable.name
    bound = scope.find(variable)
    if bound is None:
        problem = _unbound(variable, scope, context, QueryRule.T6)
        context.report(problem, reference.variable.span)
        return None
    return _family_name_of(variable, bound, reference.span) if bound.types else None


def _family_name_of(name: str, bound: BoundVariable, span: Span) -> Operand:
    """The name of the type, as the schema declares it: a pair has the name of its edge."""
    families = {each: family_of(each) for each in bound.types}
    held = type_name_of(name, bound, span)
    if all(each == family for each, family in families.items()):
        return held
    kind = STRING.optional() if bound.optional else STRING
    if len(set(families.values())) == 1:
        is_bound = ir.NullTest(id_of(name, bound), negated=True)
        arms = [ir.ChoiceArm(is_bound, Constant(family_of(bound.types[0]), STRING))]
    else:
        arms = [
            ir.ChoiceArm(
                ir.Compare(held, ir.Comparator.EQ, Constant(each, STRING)), Constant(family, STRING)
            )
            for each, family in families.items()
        ]
    return ir.Choice(tuple(arms), Constant(None, None), kind, span)


def property_of(
    variable: str,
    bound: BoundVariable,
    name: ast.Name,
    span: Span,
    context: Context,
    *,
    rule: QueryRule,
) -> PropertyOf | None:
    """A property of what a variable is bound to; `rule` is the one an unknown name breaks."""
    owner = context.type_of(bound)
    if owner is None:
        return None
    if name.text in _system_names(owner):
        of = STRING.optional() if bound.optional else STRING
        return PropertyOf(variable, name.text.removeprefix(SYSTEM), of, span)
    found = owner.named(name.text)
    if found is None:
        problem = _find_unshared(variable, name.text, context.types_of(bound))
        context.report(problem or unknown_property(owner, name.text, rule), name.span)
        return None
    value_type = found.type.optional() if bound.optional else found.type
    return PropertyOf(variable, found.name, value_type, span)


def _find_unshared(
    variable: str, name: str, types: Sequence[NodeType | EdgeType]
) -> TypeProblem | None:
    """V1: some of the types have such a property, but not all, or not with one type."""
    held = [(each.name, found.type) for each in types if (found := each.named(name)) is not None]
    if not held or len(types) < 2:
        return None
    lacking = [each.name for each in types if each.named(name) is None]
    if lacking:
        message = f"`${variable}` may be of {' or '.join(lacking)}, which has no property '{name}'"
    else:
        kinds = ", ".join(f"{owner}.{name} is {kind}" for owner, kind in held)
        message = f"the types of `${variable}` hold '{name}' differently: {kinds}"
    hint = f"bind `${variable}` to {' or '.join(dict(held))} alone"
    shared = [each.spelling for each in share(types).properties]
    return TypeProblem(
        QueryRule.V1,
        message,
        hint,
        expected=(f"a property of {' and '.join(each.name for each in types)}",),
        candidates=rank_candidates(name, shared),
    )


def _system_names(owner: NodeType | EdgeType) -> tuple[str, ...]:
    """What a row has besides its properties: its id, and the ids of the ends of an edge."""
    ends = ENDS if isinstance(owner, EdgeType) else ()
    return tuple(f"{SYSTEM}{name}" for name in ("id", *ends))


def _unbound(variable: str, scope: BlockScope, context: Context, rule: QueryRule) -> TypeProblem:
    if variable == ast.WILDCARD:
        return TypeProblem(rule, "`$_` stands for any node and has no properties", "give it a name")
    if variable in context.parameters:
        message = f"`${variable}` is a parameter, and parameters have no properties"
        return TypeProblem(rule, message)
    message = f"`${variable}` is not bound above"
    return TypeProblem(
        rule,
        message,
        _hint_for_variable(variable, scope, context),
        candidates=_candidates_for(variable, scope, context),
    )


def unknown_property(owner: NodeType | EdgeType, name: str, rule: QueryRule) -> TypeProblem:
    """An unknown property of a type, with the one that may have been meant."""
    message = f"{owner.name} has no property '{name}'"
    hint = suggest(name, (each.spelling for each in owner.properties))
    if f"{SYSTEM}{name}" in _system_names(owner):
        hint = f"'{name}' is not a property; write `@{name}`"
    elif name.startswith(SYSTEM):
        hint = f"a node has {SYSTEM}id and {SYSTEM}type, an edge also {SYSTEM}src and {SYSTEM}dst"
    return TypeProblem(
        rule,
        message,
        hint,
        expected=(f"a property of {owner.name}",),
        candidates=rank_candidates(name, (each.spelling for each in owner.properties)),
    )
