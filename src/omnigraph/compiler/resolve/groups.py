"""Values that are computed of aggregates: `max($x.p) - min($x.p)`, `round(avg($x.p))`.

Such a read is two stages: the first makes the groups, with their keys and aggregates, the second
computes what is returned. Here one is rewritten as the other. A condition of `having` may ask about
what is computed, so it becomes a condition of the second stage.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeGuard

from omnigraph.compiler.resolve.context import Context
from omnigraph.compiler.resolve.outputs import name_of
from omnigraph.compiler.resolve.parts import leaves, rewrite
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast


def split_groups(read: ast.Read, bound: Collection[str], context: Context) -> tuple[ast.Read, ...]:
    """The stages of a stage: itself, or its groups and what is computed of them.

    `bound` has the variables of the whole read. Reports what is read of a group that has no one
    value of it.
    """
    if not any(_is_computed(each.expression) for each in read.returns):
        return (read,)
    keys = [each for each in read.returns if not _has_aggregate(each.expression)]
    asked = (
        *(each.expression for each in read.returns),
        *(() if read.having is None else (read.having,)),
        *(each.expression for each in read.order),
    )
    variables = dict.fromkeys(
        each.expression for each in keys if _is_variable(each.expression, context)
    )
    names = _names(keys, asked, context)
    kept = {_variable_of(each) for each in variables}
    for leaf in _find_lost(asked, names, context):
        if (variable := _variable_of(leaf)) in bound and variable not in kept:
            _report_lost(leaf, context)
            kept.add(variable)
            variables.setdefault(ast.Variable(variable, leaf.span))
    handed_on = (
        *(ast.Projection(each, None, each.span) for each in variables),
        *(ast.Projection(each, ast.Name(name), each.span) for each, name in names.items()),
    )
    groups = replace(read, returns=handed_on, having=None, order=(), limit=None, offset=None)
    words: dict[ast.Expression, ast.Expression] = {
        each: ast.Word(name) for each, name in names.items()
    }
    return groups, _computed(read, words)


def _names(
    keys: Iterable[ast.Projection], asked: Iterable[ast.Expression], context: Context
) -> dict[ast.Expression, str]:
    """What the groups are made of, besides nodes and edges, and what the second stage calls it."""
    names: dict[ast.Expression, str] = {}
    for each in keys:
        if not _is_variable(each.expression, context) and _is_read(each.expression, context):
            names.setdefault(each.expression, _fresh(name_of(each), names))
    for aggregate in (each for expression in asked for each in _aggregates(expression)):
        plain = name_of(ast.Projection(aggregate, None))
        names.setdefault(aggregate, _fresh(f"{aggregate.function}({plain})", names))
    return names


def _find_lost(
    asked: Iterable[ast.Expression], names: Mapping[ast.Expression, str], context: Context
) -> list[ast.Variable | ast.PropertyRef]:
    """What is read of the row and is no part of the groups."""
    words: dict[ast.Expression, ast.Expression] = {
        each: ast.Word(name) for each, name in names.items()
    }
    return [leaf for expression in asked for leaf in _read_in(rewrite(expression, words), context)]


def _computed(read: ast.Read, words: dict[ast.Expression, ast.Expression]) -> ast.Read:
    """The second stage, made of what the first one hands on."""
    returns = tuple(
        replace(each, expression=rewrite(each.expression, words), alias=_alias(each))
        for each in read.returns
    )
    match: tuple[ast.Clause, ...] = ()
    if read.having is not None:
        aliases: dict[ast.Expression, ast.Expression] = {
            ast.Word(old.alias.text): new.expression
            for old, new in zip(read.returns, returns, strict=True)
            if old.alias is not None
        }
        condition = rewrite(rewrite(read.having, words), aliases)
        match = (ast.Filter(condition, read.having.span),)
    order = tuple(replace(each, expression=rewrite(each.expression, words)) for each in read.order)
    return replace(read, match=match, returns=returns, having=None, order=order)


def _alias(projection: ast.Projection) -> ast.Name | None:
    """A column keeps its name; a variable needs none, and a computed value no other."""
    if isinstance(projection.expression, ast.Variable) or _is_computed(projection.expression):
        return projection.alias
    return projection.alias or ast.Name(name_of(projection), projection.span)


def _report_lost(leaf: ast.Variable | ast.PropertyRef, context: Context) -> None:
    """T9: beside an aggregate, only what is returned of the group can be read."""
    text = name_of(ast.Projection(leaf, None))
    message = f"`${text}` is no group key, so a group has no one value of it"
    hint = "return it beside the aggregates, or aggregate it"
    context.report(TypeProblem(QueryRule.T9, message, hint), leaf.span)


def _variable_of(leaf: ast.Variable | ast.PropertyRef) -> str:
    return leaf.variable.name if isinstance(leaf, ast.PropertyRef) else leaf.name


def _fresh(name: str, names: dict[ast.Expression, str]) -> str:
    taken = set(names.values())
    return next(each for at in range(len(taken) + 1) if (each := name + "'" * at) not in taken)


# ── expressions ──────────────────────────────────────────────────────────────────────────────────


def _is_computed(expression: ast.Expression) -> bool:
    return not isinstance(expression, ast.Aggregate) and _has_aggregate(expression)


def _has_aggregate(expression: ast.Expression) -> bool:
    return any(True for _ in _aggregates(expression))


def _aggregates(expression: ast.Expression) -> Iterator[ast.Aggregate]:
    return (each for each in leaves(expression) if isinstance(each, ast.Aggregate))


def _read_in(
    expression: ast.Expression, context: Context
) -> Iterator[ast.Variable | ast.PropertyRef]:
    """The variables and properties that an expression reads outside of aggregates."""
    for each in leaves(expression):
        if isinstance(each, ast.PropertyRef) or _is_variable(each, context):
            yield each


def _is_read(expression: ast.Expression, context: Context) -> bool:
    """Does it read the row, or what an earlier stage handed on? Else it needs no group."""
    words = (each for each in leaves(expression) if isinstance(each, ast.Word))
    return any(True for _ in _read_in(expression, context)) or any(
        each.text != "null" for each in words
    )


def _is_variable(expression: ast.Expression, context: Context) -> TypeGuard[ast.Variable]:
    return isinstance(expression, ast.Variable) and not (
        expression.name in context.parameters or expression.name in context.mistyped
    )
