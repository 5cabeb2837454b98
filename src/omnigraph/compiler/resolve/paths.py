"""Shortest paths: `shortest { $a knows{1,6} $b } as $path`, and what is read of one.

The traversal relates the two ends as any other does. A part of the path is an operand of the two
ends: the path is looked for where it is read, for the rows that are left there.
"""

from typing import Final

from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.ir import I64, PathOf, PathPart
from omnigraph.compiler.resolve.context import BlockScope, Context, ShortestWalk
from omnigraph.compiler.resolve.operands import id_of
from omnigraph.compiler.resolve.walks import Walk
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast

PARTS: Final = {each.value: each for each in PathPart}

IDS: Final = ValueType(Scalar.STRING, is_list=True)


def bind_path(walk: Walk, path: ast.Variable, scope: BlockScope, context: Context) -> None:
    """Give a shortest path its name. Reports why a traversal has none."""
    name = path.name
    is_taken = scope.find(name) is not None or scope.find_path(name) is not None
    if name == ast.WILDCARD or is_taken or name in context.parameters or name in scope.sealed:
        context.report(
            _refuse(f"`${name}` cannot name a path", "use a name that is free"), path.span
        )
        return
    misfit = _find_problem(walk, scope)
    if misfit is not None:
        context.report(misfit, walk.clause.span)
    edge = None if misfit is not None or walk.edge is None else walk.edge.name
    scope.paths[name] = ShortestWalk(walk.source, walk.target, edge, walk.direction, walk.hops)


def _find_problem(walk: Walk, scope: BlockScope) -> TypeProblem | None:
    if walk.edge is None:
        return None  # reported already
    if walk.ways or walk.edge.source != walk.edge.target:
        message = "a shortest path follows edges of one type between nodes of one type"
        return _refuse(message, "leave `shortest` out, and read the ends only")
    if walk.edge_variable is not None:
        return _refuse("the edges of a shortest path have no variable", "leave it out")
    if ast.WILDCARD in (walk.clause.source.name, walk.clause.target.name):
        return _refuse("both ends of a shortest path have a name", "write `$b` instead of `$_`")
    if walk.source == walk.target:
        return _refuse("a shortest path leads from one variable to another")
    is_block = scope.outer is not None and not scope.outer.is_stage
    ends = (walk.source, walk.target)
    if is_block and all(scope.find_outer(each) is not None for each in ends):
        message = "both ends of this path are bound outside of its block"
        return _refuse(message, "bind the path outside of the block")
    return None


def _refuse(message: str, hint: str | None = None) -> TypeProblem:
    return TypeProblem(QueryRule.U21, message, hint)


def find_path(call: ast.Call, scope: BlockScope) -> ShortestWalk | None:
    """The path in `length($path)` or `nodes($path)`; None for any other call."""
    if call.function.text not in PARTS or len(call.arguments) != 1:
        return None
    (argument,) = call.arguments
    return scope.find_path(argument.name) if isinstance(argument, ast.Variable) else None


def part_of(path: ShortestWalk, call: ast.Call, scope: BlockScope) -> PathOf | None:
    """What is read of a path; None if the path was wrong and has been reported."""
    if path.edge is None:
        return None
    source, target = scope.find(path.source), scope.find(path.target)
    assert source is not None, "its ends are bound where it is"
    assert target is not None, "its ends are bound where it is"
    part = PARTS[call.function.text]
    kind = I64 if part is PathPart.LENGTH else IDS
    return PathOf(
        part,
        id_of(path.source, source),
        id_of(path.target, target),
        path.edge,
        path.direction,
        *path.hops,
        kind.optional() if source.optional or target.optional else kind,
        call.span,
    )
