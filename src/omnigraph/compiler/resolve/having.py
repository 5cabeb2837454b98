"""`having`: what is asked of each group.

A group is known by its columns. So the condition is made of the aliases of `return`, and of
expressions that are returned as they stand: `count($x) > 3` asks for the column that shows it.
"""

from collections.abc import Mapping

from omnigraph.compiler.ir import RESULT, Condition, ObjectOf, PropertyOf
from omnigraph.compiler.phrases import variable_text
from omnigraph.compiler.resolve.context import BlockScope, Context
from omnigraph.compiler.resolve.expressions import resolve_condition
from omnigraph.compiler.resolve.ordering import unknown_alias
from omnigraph.compiler.resolve.outputs import Column
from omnigraph.compiler.resolve.parts import leaves, rewrite
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast

_PLACE = "~"
"""Begins the word that stands for a column by its place; no program can write it."""


def resolve_having(read: ast.Read, columns: list[Column], context: Context) -> Condition | None:
    """The condition, or None when there is none or what is wrong with it has been reported."""
    if read.having is None:
        return None
    if not any(isinstance(each.expression, ast.Aggregate) for each in read.returns):
        message = "`having` asks about groups, and without an aggregate there are none"
        hint = "put the condition into `match`, or return an aggregate"
        context.report(TypeProblem(QueryRule.U19, message, hint), read.having.span)
        return None
    shown: dict[ast.Expression, ast.Expression] = {
        each.expression: ast.Word(f"{_PLACE}{at}")
        for at, each in enumerate(read.returns)
        if not isinstance(each.expression, ast.Literal | ast.Word)
    }
    condition = rewrite(read.having, shown)
    aliases = {
        each.alias.text: at for at, each in enumerate(read.returns) if each.alias is not None
    }
    known = {name: columns[at] for name, at in aliases.items()}
    known |= {f"{_PLACE}{at}": column for at, column in enumerate(columns)}
    if not _is_made_of(condition, known, context):
        return None
    context.aliases = {
        name: PropertyOf(RESULT, column.name, column.type, column.span)
        for name, column in known.items()
        if column is not None
    }
    resolved = resolve_condition(condition, BlockScope(), context, is_value=True)
    context.aliases = context.carried
    return resolved


def _is_made_of(condition: ast.Expression, columns: Mapping[str, Column], context: Context) -> bool:
    """Does it read columns only, all of which are right? Reports what else it reads."""
    is_right = True
    for leaf in leaves(condition):
        problem: TypeProblem | None = None
        match leaf:
            case ast.Word("null") if "null" not in columns:
                continue
            case ast.Word(text) if text in columns:
                column = columns[text]
                if column is None:
                    is_right = False
                elif isinstance(column.expression, ObjectOf):
                    problem = _whole_object(column.expression)
            case ast.Word(text):
                names = [each for each in columns if not each.startswith(_PLACE)]
                problem = unknown_alias(text, names)
            case ast.Variable(name) if name in context.parameters or name in context.mistyped:
                continue
            case ast.Variable(name):
                problem = _not_returned(f"${name}")
            case ast.PropertyRef(variable, name):
                problem = _not_returned(f"${variable.name}.{name.text}")
            case ast.Aggregate(function):
                problem = _not_returned(f"{function}(…)")
            case _:
                continue
        if problem is not None:
            context.report(problem, leaf.span)
            is_right = False
    return is_right


def _not_returned(text: str) -> TypeProblem:
    message = f"`having` reads `{text}`, which is not returned"
    return TypeProblem(QueryRule.U19, message, "return it beside the aggregates, with an alias")


def _whole_object(shown: ObjectOf) -> TypeProblem:
    name = variable_text(shown.variable)
    message = f"`{name}` is returned as an object, and `having` compares single values"
    return TypeProblem(QueryRule.U19, message, f"return what it asks about, as `{name}.@id`")
