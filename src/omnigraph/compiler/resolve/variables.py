"""How variables get into a scope, and what keeps them out.

Rows are made by bindings and traversals first, and the blocks run on finished rows. A name that a
block used for a variable of its own must therefore not be bound around that block later: the block
would then mean that other variable (U17).
"""

from dataclasses import replace

from omnigraph.compiler.resolve.context import BlockScope, BoundVariable, Context
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span


def declare(
    name: str, bound: BoundVariable, span: Span, scope: BlockScope, context: Context
) -> None:
    """Bind a name that is free in this scope and around it."""
    if name in scope.sealed:
        message = f"`${name}` is bound here, and above is a variable of a block"
        hint = "bind it above that block, or use another name"
        context.report(TypeProblem(QueryRule.U17, message, hint), span)
    if scope.find_path(name) is not None:
        message = f"`${name}` is a path and cannot stand for anything else"
        context.report(TypeProblem(QueryRule.U21, message, "use another name"), span)
    scope.variables[name] = bound


def is_usable_node(variable: ast.Variable, scope: BlockScope, context: Context) -> bool:
    """May this variable be bound, or walked from or to, as a node? Reports why not."""
    bound = scope.find(variable.name)
    if bound is None:
        return True
    if bound.kind == "edge":
        message = f"`${variable.name}` is an edge and cannot stand for a node"
        context.report(TypeProblem(QueryRule.T23, message), variable.span)
        return False
    if bound.optional and variable.name in scope.variables:
        message = f"`${variable.name}` comes from an `optional` block and cannot be bound outside"
        hint = "move this clause into that block, or into another `optional`"
        context.report(TypeProblem(QueryRule.U17, message, hint), variable.span)
        return False
    return True


def close_test(inner: BlockScope, scope: BlockScope) -> None:
    """The variables of a block that only keeps or drops rows are local to it."""
    scope.sealed |= inner.variables.keys() | inner.paths.keys() | inner.sealed


def close_optional(inner: BlockScope, span: Span, scope: BlockScope, context: Context) -> None:
    """The variables of an `optional` block are handed out, as ones that may be unbound."""
    for name, bound in inner.variables.items():
        declare(name, replace(bound, optional=True), span, scope, context)
    scope.paths |= inner.paths
    scope.sealed |= inner.sealed
