"""Traversals: which edge, which way, and what that says about the two ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from omnigraph.catalog.model import EdgeType, spell_ends
from omnigraph.compiler.ir import Direction, Way
from omnigraph.compiler.resolve.context import BlockScope, BoundVariable, Context
from omnigraph.compiler.resolve.variables import declare, is_usable_node
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import closest, rank_candidates
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast

Family = tuple[EdgeType, ...]
"""What the name of an edge stands for: one edge type, or a pair of ends for each of several."""

Types = tuple[str, ...] | None
"""What an end may be, or None if that is open."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A traversal, as written from `source` to `target`; `edge` is None when it is wrong."""

    source: str
    target: str
    edge: EdgeType | None
    direction: Direction
    hops: tuple[int, int | None]
    edge_variable: str | None
    clause: ast.Traversal
    ways: tuple[Way, ...] = ()
    """When there are several edges, or an end has several types: how each edge is walked."""


def resolve_walk(clause: ast.Traversal, scope: BlockScope, context: Context) -> Walk:
    """The walk, with both ends bound in the scope. One that is wrong still connects its ends."""
    found = [_find_edges(each, context) for each in clause.edges]
    ends = (clause.source, clause.target)
    edges = found[0] if len(found) > 1 else _narrow(found[0], clause, scope)
    if len(found) > 1 or len(edges) > 1 or any(map(partial(_is_several, scope), ends)):
        return _resolve_ways(clause, found, scope, context)
    edge = next(iter(edges), None)
    hops = _resolve_hops(clause, edge, context)
    usable = [is_usable_node(each, scope, context) for each in (clause.source, clause.target)]
    direction = _infer(clause, edge, scope, context) if edge is not None and all(usable) else None
    near, far = _end_types(edge, direction)
    source = _bind_end(clause.source, _one(near), scope, context)
    target = _bind_end(clause.target, _one(far), scope, context)
    edge_variable = _bind_edge(clause, _one(None if edge is None else edge.name), scope, context)
    if direction is None:
        return Walk(source, target, None, Direction.OUT, hops, edge_variable, clause)
    return Walk(source, target, edge, direction, hops, edge_variable, clause)


def _is_several(scope: BlockScope, variable: ast.Variable) -> bool:
    bound = scope.find(variable.name)
    return bound is not None and bound.is_several


def _find_edges(written: ast.Name, context: Context) -> Family:
    name = written.text
    edges = context.catalog.edges_named(name)
    if not edges:
        names = [f"{each[0].lower()}{each[1:]}" for each in context.catalog.edge_names]
        best = closest(name, names)
        hint = None if best is None else f"did you mean '{best}'?"
        problem = TypeProblem(
            QueryRule.T4,
            f"there is no edge type '{name}'",
            hint,
            expected=("an edge type",),
            candidates=rank_candidates(name, names),
        )
        context.report(problem, written.span)
    return edges


def _narrow(family: Family, clause: ast.Traversal, scope: BlockScope) -> Family:
    """The pairs of ends that one hop between types that are known can take; all if none can."""
    if len(family) == 1 or clause.hops is not None:
        return family
    left, right = _known_types(clause.source, scope), _known_types(clause.target, scope)
    names = {each.edge for each in _fitting(family, left, right)}
    return tuple(each for each in family if each.name in names) or family


# ── several ways ─────────────────────────────────────────────────────────────────────────────────


def _resolve_ways(
    clause: ast.Traversal,
    found: Sequence[Family],
    scope: BlockScope,
    context: Context,
) -> Walk:
    """A traversal of several edges, or between variables of several types."""
    families = list(dict.fromkeys(each for each in found if each))
    edges = [each for family in families for each in family]
    usable = [is_usable_node(each, scope, context) for each in (clause.source, clause.target)]
    hops = _resolve_hops(clause, None, context)
    ways: tuple[Way, ...] = ()
    if all(found) and all(usable):
        ways = _find_ways(clause, families, scope, context)
    near = tuple(sorted({each.source_type for each in ways}))
    far = tuple(sorted({each.target_type for each in ways}))
    if hops[0] == 0 and not _can_stay(clause, near, far, scope):
        message = f"{_spell_all(families)} leads to other types, and after no hop one is still here"
        hint = "begin with one hop, or put the traversal into `optional { }`"
        assert clause.hops is not None
        context.report(TypeProblem(QueryRule.T15, message, hint), clause.hops.span)
    source = _bind_end(clause.source, near, scope, context)
    target = _bind_end(clause.target, far, scope, context)
    walked = tuple(sorted({each.edge for each in ways}))
    edge_variable = _bind_edge(clause, walked, scope, context)
    edge = edges[0] if ways else None
    return Walk(source, target, edge, Direction.OUT, hops, edge_variable, clause, ways)


def _can_stay(
    clause: ast.Traversal, near: tuple[str, ...], far: tuple[str, ...], scope: BlockScope
) -> bool:
    """After no hop: may a node be at the far end? An end that the walk binds takes every node."""
    here, there = _types_of(clause.source, near, scope), _types_of(clause.target, far, scope)
    are_bound = all(_known_types(each, scope) for each in (clause.source, clause.target))
    return bool(here & there) if are_bound else here <= there


def _types_of(
    variable: ast.Variable, otherwise: tuple[str, ...], scope: BlockScope
) -> frozenset[str]:
    bound = scope.find(variable.name)
    return frozenset(otherwise if bound is None else bound.types)


def _find_ways(
    clause: ast.Traversal, families: Sequence[Family], scope: BlockScope, context: Context
) -> tuple[Way, ...]:
    """How each edge is walked from the left end; those that join nothing are left out.

    Of one edge with both ends in reach, the way it points is meant. Several hops may pass types
    that neither end has.
    """
    edges = [each for family in families for each in family]
    if clause.undirected:
        for name in clause.edges:
            family = context.catalog.edges_named(name.text)
            if {each.source for each in family} != {each.target for each in family}:
                _refuse_undirected(name, family, context)
                return ()
    left, right = _known_types(clause.source, scope), _known_types(clause.target, scope)
    is_loop = clause.source.name == clause.target.name != ast.WILDCARD
    if clause.undirected:
        ways = _either_way(edges, *((left, right) if clause.hops is None else (None, None)))
    elif clause.hops is not None:
        ways = _chain(families, left, right)
    else:
        ways = tuple(way for each in families for way in _fitting(each, left, right))
    if is_loop and clause.hops is None:
        ways = tuple(each for each in ways if each.source_type == each.target_type)
    arrives = right is None or any(each.target_type in right for each in ways)
    if ways and arrives:
        return tuple(sorted(set(ways)))
    ends = {name for each in edges for name in (each.source, each.target)}
    if not ways and is_loop and (left is None or ends & set(left)):
        message = f"{_spell_all(families)} cannot lead from `${clause.source.name}` back to itself"
        misfit = clause.target
    else:
        misfit = clause.source if left and not ends & set(left) else clause.target
        known = " | ".join(_known_types(misfit, scope) or ())
        verb = "does" if len(families) == 1 else "do"
        told = f"which {_spell_all(families)} {verb} not join"
        message = f"`${misfit.name}` is bound to {known}, {told}"
    problem = TypeProblem(QueryRule.T5, message, expected=tuple(sorted(ends)))
    context.report(problem, misfit.span)
    return ()


def _fitting(
    family: Family, left: Types, right: Types, only: Direction | None = None
) -> tuple[Way, ...]:
    """One hop: the edge as it points if that fits both ends, else against it.

    All pairs of a family go one way: where both would do for one of them, the way it points is
    meant for all.
    """
    for direction in (Direction.OUT, Direction.IN) if only is None else (only,):
        ways = tuple(
            Way(near, each.name, direction, far)
            for each in family
            for near, far in (_end_types(each, direction),)
            if near is not None and far is not None
            if (left is None or near in left) and (right is None or far in right)
        )
        if ways:
            return ways
    return ()


def _either_way(edges: Sequence[EdgeType], left: Types, right: Types) -> tuple[Way, ...]:
    """Undirected: an edge within one type both ways at once, a pair of two types each way."""
    within = (each for each in edges if each.source == each.target)
    ways = [Way(each.source, each.name, Direction.BOTH, each.target) for each in within]
    for each in edges:
        if each.source != each.target:
            out = Way(each.source, each.name, Direction.OUT, each.target)
            ways += [out, out.reversed()]
    return tuple(
        each
        for each in ways
        if (left is None or each.source_type in left)
        and (right is None or each.target_type in right)
    )


def _chain(families: Sequence[Family], left: Types, right: Types) -> tuple[Way, ...]:
    """Several hops: from the types of the known end, every edge that a hop can take."""
    reached = set(left or right or (each.source for family in families for each in family))
    is_forward = left is not None or right is None
    directions: dict[Family, Direction] = {}
    ways: dict[Way, None] = {}
    while True:
        open_types = tuple(reached)
        near, far = (open_types, None) if is_forward else (None, open_types)
        count = len(ways)
        for family in families:
            found = _fitting(family, near, far, directions.get(family))
            if found:
                directions[family] = found[0].direction
            ways |= dict.fromkeys(found)
        if len(ways) == count:
            return tuple(ways)
        reached |= {each.target_type if is_forward else each.source_type for each in ways}


def _known_types(variable: ast.Variable, scope: BlockScope) -> Types:
    bound = scope.find(variable.name)
    return None if bound is None or not bound.types else bound.types


def _spell_all(families: Sequence[Family]) -> str:
    return ", ".join(map(_spell, families))


# ── hops ─────────────────────────────────────────────────────────────────────────────────────────


def _resolve_hops(
    clause: ast.Traversal, edge: EdgeType | None, context: Context
) -> tuple[int, int | None]:
    hops = clause.hops
    if hops is None:
        return 1, 1
    low, high = hops.low, hops.high
    if high is not None and high < low:
        message = f"hops {{{low},{high}}} are out of order: low ≤ high"
        context.report(TypeProblem(QueryRule.T15, message), hops.span)
    elif high == 0:
        message = "hops {0,0} lead nowhere"
        context.report(TypeProblem(QueryRule.T15, message, "write {0,1}"), hops.span)
    elif low == 0 and edge is not None and edge.source != edge.target:
        message = (
            f"{_spell((edge,))} leads to another type, and after no hop one is still at the first"
        )
        hint = "begin with one hop, or put the traversal into `optional { }`"
        context.report(TypeProblem(QueryRule.T15, message, hint), hops.span)
    return low, high


# ── direction ────────────────────────────────────────────────────────────────────────────────────


def _infer(
    clause: ast.Traversal, edge: EdgeType, scope: BlockScope, context: Context
) -> Direction | None:
    """Which way the edge is walked from the left end, by the types known so far."""
    if clause.undirected and edge.source != edge.target:
        _refuse_undirected(clause.edge, (edge,), context)
        return None
    left, right = _known_type(clause.source, scope), _known_type(clause.target, scope)
    if clause.undirected:
        direction: Direction | None = Direction.BOTH
    elif left is not None:
        direction = _leaving(left, edge)
    elif right is not None:
        direction = _arriving(right, edge)
    else:
        direction = Direction.OUT
    misfit = _find_misfit(clause, edge, direction, scope)
    if misfit is None:
        return direction
    known = _known_type(misfit, scope)
    if known is None:
        message = f"{_spell((edge,))} cannot lead from `${misfit.name}` back to itself"
    else:
        message = (
            f"`${misfit.name}` is bound to {known}, which {_spell((edge,))} does not have there"
        )
    ends = (edge.source, edge.target)
    context.report(TypeProblem(QueryRule.T5, message, expected=ends), misfit.span)
    return None


def _refuse_undirected(name: ast.Name, family: Family, context: Context) -> None:
    message = f"{_spell(family)} has ends of two types and cannot be walked undirected"
    hint = f"write `{name.text}` without the angle brackets"
    context.report(TypeProblem(QueryRule.T22, message, hint), name.span)


def _leaving(type_name: str, edge: EdgeType) -> Direction | None:
    """The way that starts at this type. An edge within one type is walked as it is written."""
    if type_name == edge.source:
        return Direction.OUT
    return Direction.IN if type_name == edge.target else None


def _arriving(type_name: str, edge: EdgeType) -> Direction | None:
    """The way that ends at this type."""
    if type_name == edge.target:
        return Direction.OUT
    return Direction.IN if type_name == edge.source else None


def _find_misfit(
    clause: ast.Traversal, edge: EdgeType, direction: Direction | None, scope: BlockScope
) -> ast.Variable | None:
    """The end whose type the edge does not have there."""
    left, right = _known_type(clause.source, scope), _known_type(clause.target, scope)
    if direction is None:
        return clause.source if left is not None else clause.target
    near, far = _end_types(edge, direction)
    if left is not None and left != near:
        return clause.source
    if right is not None and right != far:
        return clause.target
    is_loop = clause.source.name == clause.target.name != ast.WILDCARD
    return clause.target if is_loop and near != far else None


def _known_type(variable: ast.Variable, scope: BlockScope) -> str | None:
    """What is known of an end so far; nothing of a wildcard, which is never bound."""
    bound = scope.find(variable.name)
    return None if bound is None else bound.type_name


def _end_types(
    edge: EdgeType | None, direction: Direction | None
) -> tuple[str, str] | tuple[None, None]:
    if edge is None or direction is None:
        return None, None
    if direction is Direction.IN:
        return edge.target, edge.source
    return edge.source, edge.target


def _spell(family: Family) -> str:
    return f"{family[0].family}: {spell_ends(family)}"


# ── binding ──────────────────────────────────────────────────────────────────────────────────────


def _one(type_name: str | None) -> tuple[str, ...]:
    return () if type_name is None else (type_name,)


def _bind_end(
    variable: ast.Variable, types: tuple[str, ...], scope: BlockScope, context: Context
) -> str:
    if variable.name == ast.WILDCARD:
        return context.fresh_variable()
    if scope.find(variable.name) is None:
        declare(variable.name, BoundVariable("node", types), variable.span, scope, context)
    return variable.name


def _bind_edge(
    clause: ast.Traversal, types: tuple[str, ...], scope: BlockScope, context: Context
) -> str | None:
    variable = clause.edge_variable
    if variable is None or variable.name == ast.WILDCARD:
        return None
    if clause.hops is not None:
        message = f"`${variable.name}` stands for one edge, so the walk cannot have hop bounds"
        context.report(TypeProblem(QueryRule.T23, message), clause.hops.span)
    if scope.find(variable.name) is not None:
        message = f"`${variable.name}` is bound already and cannot stand for an edge as well"
        context.report(TypeProblem(QueryRule.T23, message), variable.span)
        return None
    declare(variable.name, BoundVariable("edge", types), variable.span, scope, context)
    return variable.name
