"""Let each step hand on only the properties that something after it reads.

Ids are always handed on: joins, ties and bare variables need no more. A condition that a step
evaluates itself does not count, nor does a rank function that is evaluated with the scan.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.ir import (
    EachPath,
    Expand,
    ExpandAny,
    Measured,
    Operand,
    Optionally,
    PropertyOf,
    Read,
    Scan,
    ScanAny,
    Stage,
    Step,
    Where,
    Within,
    Without,
)
from omnigraph.compiler.scope import (
    bound_by,
    operands_in,
    ranking_of,
    selected_by_rank,
    step_operands,
)

Needs = frozenset[tuple[str, str]]
"""Variables, each with a property of it."""


def prune_columns(query: Read, catalog: Catalog) -> Read:
    del catalog
    expressions = [each.expression for each in query.outputs]
    expressions += [each.key for each in query.order if not isinstance(each.key, int)]
    if selected_by_rank(query) is not None:
        rank = ranking_of(query)
        expressions = [each for each in expressions if each != rank]
    needs = _read_by(operand for each in expressions for operand in operands_in(each))
    return replace(query, steps=_prune(query.steps, needs, bound=frozenset()))


def _read_by(operands: Iterable[Operand]) -> Needs:
    return frozenset(
        (each.variable, each.name) for each in operands if isinstance(each, PropertyOf)
    )


def _prune(steps: Sequence[Step], needs: Needs, bound: frozenset[str]) -> tuple[Step, ...]:
    """`needs` is what is read after the block, `bound` what is bound before it."""
    before = [bound]
    for step in steps:
        before.append(before[-1].union(bound_by([step])))
    pruned: list[Step] = []
    for step, known in zip(reversed(steps), reversed(before[:-1]), strict=True):
        pruned.append(_prune_step(step, needs, known))
        needs |= _read_by(step_operands(step))
    return tuple(reversed(pruned))


def _prune_step(step: Step, needs: Needs, bound: frozenset[str]) -> Step:
    match step:
        case Scan(variable) | ScanAny(variable):
            return replace(step, columns=_columns(variable, needs))
        case (
            Expand(target=target, edge_variable=edge_variable)
            | ExpandAny(target=target, edge_variable=edge_variable)
        ):
            # A target that is bound already has its properties from where it was bound.
            return replace(
                step,
                columns=() if target in bound else _columns(target, needs),
                edge_columns=() if edge_variable is None else _columns(edge_variable, needs),
            )
        case Stage(_, carried):
            pruned = (replace(each, columns=_columns(each.variable, needs)) for each in carried)
            return replace(step, variables=tuple(pruned))
        case Where() | EachPath():
            return step
        case Without(steps) | Within(steps):
            return replace(step, steps=_prune(steps, frozenset(), bound))
        case Measured(steps, aggregate):
            read = _read_by(operands_in(aggregate))
            return replace(step, steps=_prune(steps, read, bound))
        case Optionally(steps):
            return Optionally(_prune(steps, needs, bound))
        case _:
            assert_never(step)


def _columns(variable: str, needs: Needs) -> tuple[str, ...]:
    return tuple(sorted(name for owner, name in needs if owner == variable))
