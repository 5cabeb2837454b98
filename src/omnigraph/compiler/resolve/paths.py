"""Shortest paths: `shortest { $a knows{1,6} $b } as $path`, and what is read of one.

The traversal relates the two ends as any other does. A part of the path is an operand of the two
ends: the path is looked for where it is read, for the rows that are left there. With `all`, a step
makes a row for each path, and a part is a property of what the step binds.
"""

from typing import Final

from omnigraph.catalog.model import Property
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.ir import F64, I64, EachPath, PathOf, PathPart, PropertyOf
from omnigraph.compiler.resolve.context import BlockScope, Context, ShortestWalk
from omnigraph.compiler.resolve.operands import id_of, unknown_property
from omnigraph.compiler.resolve.walks import Walk
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span

PARTS: Final = {each.value: each for each in PathPart}

IDS: Final = ValueType(Scalar.STRING, is_list=True)

TYPES: Final = {PathPart.LENGTH: I64, PathPart.NODES: IDS, PathPart.COST: F64}


def bind_path(
    walk: Walk, binding: ast.PathBinding, scope: BlockScope, context: Context
) -> EachPath | None:
    """Give a shortest path its name; with `all`, by a step. Reports why a traversal has none."""
    path = binding.variable
    name = path.name
    is_taken = scope.find(name) is not None or scope.find_path(name) is not None
    if name == ast.WILDCARD or is_taken or name in context.parameters or name in scope.sealed:
        context.report(
            _refuse(f"`${name}` cannot name a path", "use a name that is free"), path.span
        )
        return None
    misfit = _find_problem(walk, scope)
    if misfit is not None:
        context.report(misfit, walk.clause.span)
    edge = None if misfit is not None or walk.edge is None else walk.edge.name
    weight = None
    if edge is not None and binding.weight is not None:
        weight = _find_weight(walk, binding.weight, context)
        edge = None if weight is None else edge
    found = ShortestWalk(
        name, walk.source, walk.target, edge, walk.direction, walk.hops, binding.is_all, weight
    )
    scope.paths[name] = found
    if edge is None or not binding.is_all:
        return None
    return EachPath(name, _path_of(found, edge, PathPart.NODES, scope, path.span), path.span)


def _find_weight(walk: Walk, name: ast.Name, context: Context) -> Property | None:
    assert walk.edge is not None, "the edge is known"
    found = walk.edge.named(name.text)
    if found is None:
        context.report(unknown_property(walk.edge, name.text, QueryRule.T6), name.span)
    elif not found.type.is_number:
        message = f"`by` takes a number, and {walk.edge.name}.{name.text} is {found.type}"
        numbers = tuple(each.spelling for each in walk.edge.properties if each.type.is_number)
        hint = f"write {' or '.join(f'`{each}`' for each in numbers)}" if numbers else None
        problem = TypeProblem(
            QueryRule.U23, message, hint, expected=("a number of the edge",), candidates=numbers
        )
        context.report(problem, name.span)
        return None
    return found


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
    """The path in `length($path)`, `nodes($path)` or `cost($path)`; None for any other call."""
    if call.function.text not in PARTS or len(call.arguments) != 1:
        return None
    (argument,) = call.arguments
    return scope.find_path(argument.name) if isinstance(argument, ast.Variable) else None


def part_of(
    path: ShortestWalk, call: ast.Call, scope: BlockScope, context: Context
) -> PathOf | PropertyOf | None:
    """What is read of a path; None if the path was wrong and has been reported."""
    if path.edge is None:
        return None
    part = PARTS[call.function.text]
    if part is PathPart.COST and path.weight is None:
        message = f"`${path.name}` has no weight, and so no cost"
        hint = f"write `shortest {{ … }} by property as ${path.name}`, or `length(${path.name})`"
        context.report(TypeProblem(QueryRule.U23, message, hint), call.span)
        return None
    read = _path_of(path, path.edge, part, scope, call.span)
    if not path.is_all:
        return read
    ends_optional = read.source.type.nullable or read.target.type.nullable
    kind = TYPES[part].optional() if ends_optional else TYPES[part]
    return PropertyOf(path.name, part, kind, call.span)


def _path_of(
    path: ShortestWalk, edge: str, part: PathPart, scope: BlockScope, span: Span
) -> PathOf:
    """It is null where an end is unbound, or where every path has an edge without a weight."""
    source, target = scope.find(path.source), scope.find(path.target)
    assert source is not None, "its ends are bound where it is"
    assert target is not None, "its ends are bound where it is"
    may_be_closed = path.weight is not None and path.weight.type.nullable
    kind = TYPES[part]
    return PathOf(
        part,
        id_of(path.source, source),
        id_of(path.target, target),
        edge,
        path.direction,
        *path.hops,
        kind.optional() if source.optional or target.optional or may_be_closed else kind,
        span,
        None if path.weight is None else path.weight.name,
    )
