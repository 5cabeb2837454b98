"""Tables of an edge over several ends: which pair of ends each row belongs to.

The type of an end is fixed for the whole table by a constant (`from_type: Person`) or by a lookup
(`from: {Person.email: col}`), or a column says it row by row: `from_type` and `to_type`. An end at
which the edge has one type needs neither.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from omnigraph.catalog.model import EdgeType, spell_ends
from omnigraph.engine.write.base_rows import Type
from omnigraph.engine.write.violations import Violation, ViolationKind, clip

END_TYPES: Final[Mapping[str, str]] = {"from_type": "from", "to_type": "to"}
"""What feeds the type of an end, and which end."""


def type_targets(type_: Type) -> tuple[str, ...]:
    """What may feed the types of the ends. A property of that name keeps it."""
    if not isinstance(type_, EdgeType) or not type_.is_pair:
        return ()
    return tuple(each for each in END_TYPES if type_.named(each) is None)


def end_of(edge: EdgeType, target: str) -> str:
    """The node type at an end, which `from`, or what feeds its type, names."""
    return edge.source if END_TYPES.get(target, target) == "from" else edge.target


def types_at(pairs: Iterable[EdgeType], target: str) -> list[str]:
    return sorted({end_of(each, target) for each in pairs})


def find_wrong_end(pairs: Sequence[EdgeType], target: str, name: str) -> str | None:
    """Why no pair has such a node at this end."""
    known = types_at(pairs, target)
    if name in known:
        return None
    end, what = END_TYPES[target], f"a node of type {' | '.join(known)}"
    return f"'{end}' of {pairs[0].family} is {what}, not {clip(name)}"


def narrow(pairs: Sequence[EdgeType], fixed: Iterable[tuple[str, str]]) -> list[EdgeType]:
    """The pairs whose ends have the types that are fixed."""
    wanted = list(fixed)
    return [each for each in pairs if all(end_of(each, end) == name for end, name in wanted)]


def pair_of_row(
    pairs: Sequence[EdgeType], given: Mapping[str, object]
) -> tuple[EdgeType, Mapping[str, object]] | Violation:
    """The pair that a row tells, and the row without the types of its ends."""
    told = {target: given[target] for target in type_targets(pairs[0]) if target in given}
    left = [each for each in pairs if all(end_of(each, one) == told[one] for one in told)]
    if len(left) == 1:
        return left[0], {name: value for name, value in given.items() if name not in told}
    family = pairs[0].family
    said = ", ".join(f"'{target}' is {clip(value)}" for target, value in told.items())
    message = f"edge {family} ({spell_ends(pairs)}) has no such pair of ends: {said}"
    return Violation(ViolationKind.VALUE, family, next(iter(told)), (), None, message)


def ambiguous_ends(pairs: Sequence[EdgeType], columns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What has to say the type of an end, and does not; with the reason."""
    fed = set(columns)
    known = type_targets(pairs[0])
    for target, end in END_TYPES.items():
        types = types_at(pairs, end)
        if len(types) > 1 and (target not in fed or target not in known):
            reason = (
                f"nothing says the type of '{end}' of {pairs[0].family}, which is "
                f"{' or '.join(types)}: it takes a column or a constant '{target}', or the name of "
                f"one pair, such as {pairs[0].name}"
            )
            yield target, reason
