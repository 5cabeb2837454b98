"""Ask `not { }`, `exists { }` and `count { } > 2` as soon as their variables are bound.

Such a block depends only on the variables that it shares with the rows around it. A row it drops
early would be dropped later in every copy that other steps make of it, so the bag of rows stays.
Steps that can only drop rows keep their place before it: they cost less than its own steps.
"""

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.ir import (
    Expand,
    ExpandAny,
    Measured,
    Optionally,
    Read,
    Step,
    Test,
    Where,
    Within,
    Without,
)
from omnigraph.compiler.scope import bound_by, mentioned_in


def push_negations(query: Read, catalog: Catalog) -> Read:
    del catalog
    return replace(query, steps=_push(query.steps, outer=frozenset()))


def _push(steps: Sequence[Step], *, outer: frozenset[str]) -> tuple[Step, ...]:
    binds = outer.union(bound_by(steps))
    waiting = [_push_inside(each, outer=binds) for each in steps if isinstance(each, Test)]
    placed: list[Step] = []
    bound = outer
    for step in steps:
        if isinstance(step, Test):
            continue
        if (placed or outer) and not _only_drops(step, bound):
            placed += [each for each in waiting if _shared(each, binds) <= bound]
            waiting = [each for each in waiting if not _shared(each, binds) <= bound]
        placed.append(_push_inside(step, outer=bound))
        bound = bound.union(bound_by([step]))
    return (*placed, *waiting)


def _push_inside(step: Step, *, outer: frozenset[str]) -> Step:
    match step:
        case Without(steps) | Within(steps) | Measured(steps) | Optionally(steps):
            return replace(step, steps=_push(steps, outer=outer))
        case _:
            return step


def _shared(step: Step, binds: frozenset[str]) -> frozenset[str]:
    """The variables of a block that the rows around it bind."""
    return mentioned_in([step]) & binds


def _only_drops(step: Step, bound: frozenset[str]) -> bool:
    match step:
        case Where():
            return True
        case (
            Expand(target=target, edge_variable=None) | ExpandAny(target=target, edge_variable=None)
        ):
            return target in bound
        case _:
            return False
