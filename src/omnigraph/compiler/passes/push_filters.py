"""Evaluate every condition as early as its variables allow.

A condition on one variable moves into the scan or expand that binds it. A condition on several
stands right after the step that binds the last of them. What an `optional` block binds is known
only behind the block: a condition on it removes rows, where inside the block it would leave them
with nothing bound.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.ir import (
    Binder,
    Condition,
    Expand,
    ExpandAny,
    Measured,
    Optionally,
    Read,
    Scan,
    ScanAny,
    Stage,
    Step,
    Where,
    Within,
    Without,
)
from omnigraph.compiler.scope import bound_by, conjuncts_of, variables_of


def push_filters(query: Read, catalog: Catalog) -> Read:
    del catalog
    return replace(query, steps=_push(query.steps, outer=frozenset()))


@dataclass(slots=True)
class _Place:
    """A step that is not a filter, with the conditions it takes in and those that follow it."""

    step: Step | None
    taken: list[Condition] = field(default_factory=list)
    after: list[Condition] = field(default_factory=list)

    def steps(self) -> Iterable[Step]:
        match self.step:
            case Scan() | ScanAny() | Expand() | ExpandAny() if self.taken:
                yield replace(self.step, filters=(*self.step.filters, *self.taken))
            case None:
                pass
            case _:
                yield self.step
        yield from map(Where, self.after)


def _push(steps: Sequence[Step], *, outer: frozenset[str]) -> tuple[Step, ...]:
    places = [_Place(None)]  # before the first step, only the variables of outer blocks are known
    binder: dict[str, int] = {}
    conditions: list[Condition] = []
    for step in steps:
        if isinstance(step, Where):
            conditions += conjuncts_of(step.condition)
            continue
        for variable in bound_by([step]):
            if variable not in outer:
                binder.setdefault(variable, len(places))
        places.append(_Place(_push_inside(step, outer=outer.union(binder))))
    # A stage replaces the rows before it, so nothing that follows it may move above it.
    first = next((at for at, each in enumerate(places) if isinstance(each.step, Stage)), 0)
    for condition in conditions:
        _attach(condition, places, binder, first)
    return tuple(step for place in places for step in place.steps())


def _push_inside(step: Step, *, outer: frozenset[str]) -> Step:
    match step:
        case Without(steps) | Within(steps) | Measured(steps):
            return replace(step, steps=_push(steps, outer=outer))
        case Optionally(steps):
            # The variables this block binds are in `outer` already, but are not yet bound inside.
            return Optionally(_push(steps, outer=outer.difference(bound_by(steps))))
        case _:
            return step


def _attach(condition: Condition, places: list[_Place], binder: dict[str, int], first: int) -> None:
    variables = variables_of(condition)
    place = places[max((binder.get(each, first) for each in variables), default=first)]
    if len(variables) == 1 and isinstance(place.step, Binder):
        place.taken.append(condition)
    else:
        place.after.append(condition)
