"""`insert` of an edge: which pair of ends is meant, where the edge has ends of several types.

An end says its type: `insert IsLocatedIn { from: { Person: $p }, to: { City: $c } }`. An end at
which the edge has one type needs none. The types never follow from the ids.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from omnigraph.catalog.model import EdgeType, NodeType, spell_ends
from omnigraph.compiler.resolve.context import Context
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import rank_candidates, suggest
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast

ENDS: Final[Mapping[str, str]] = {"from": "src", "to": "dst"}
"""What statements call the ends of an edge, and their columns."""


def pick_pair(
    statement: ast.Insert, pairs: Sequence[EdgeType], context: Context
) -> EdgeType | None:
    """The one pair that the ends leave; none when what is wrong has been reported."""
    faults = context.fault_count
    left = list(pairs)
    for each in statement.assignments:
        if each.name.text in ENDS and isinstance(each.value, ast.TypedEnd):
            named = each.value.type_name
            _check_end(pairs, each.name.text, named, context)
            left = [one for one in left if _end_of(one, each.name.text) == named.text]
    if context.fault_count > faults:
        return None
    if len(left) == 1:
        return left[0]
    name, names = statement.type_name, tuple(each.name for each in left)
    told = ", ".join(filter(None, (_say_end(left, end) for end in ENDS)))
    problem = TypeProblem(
        QueryRule.T10,
        f"{name.text} has ends of several types, {spell_ends(left)}",
        f"say the type of an end: {told}",
        expected=names,
        candidates=names,
    )
    context.report(problem, name.span)
    return None


def read_end(
    assignment: ast.Assignment, target: NodeType | EdgeType | None, context: Context
) -> ast.Value:
    """What is assigned, without the type of an end, which is checked."""
    end = assignment.value
    if not isinstance(end, ast.TypedEnd):
        return end
    name = assignment.name.text
    if target is not None and (isinstance(target, NodeType) or name not in ENDS):
        message = f"{target.name}.{name} is not an end of an edge, and takes a value without a type"
        context.report(TypeProblem(QueryRule.T7, message), end.span)
    elif target is not None:
        assert isinstance(target, EdgeType)
        _check_end((target,), name, end.type_name, context)
    return end.value


def _check_end(pairs: Sequence[EdgeType], end: str, named: ast.Name, context: Context) -> None:
    known = sorted({_end_of(each, end) for each in pairs})
    if named.text in known:
        return
    problem = TypeProblem(
        QueryRule.T10,
        f"'{end}' of {pairs[0].family} is a node of type {' | '.join(known)}, not {named.text}",
        suggest(named.text, known),
        expected=tuple(known),
        candidates=rank_candidates(named.text, known),
    )
    context.report(problem, named.span)


def _end_of(edge: EdgeType, end: str) -> str:
    return edge.source if end == "from" else edge.target


def _say_end(left: Sequence[EdgeType], end: str) -> str | None:
    types = sorted({_end_of(each, end) for each in left})
    return f"{end}: {{ {types[0]}: … }}" if len(types) > 1 else None
