"""The tables whose sizes an order of steps depends on, and the edge types that a walk follows."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.ir import (
    Direction,
    Expand,
    ExpandAny,
    Measured,
    Optionally,
    Read,
    Step,
    Within,
    Without,
)
from omnigraph.compiler.statistics import UNKNOWN, Departure, Statistics
from omnigraph.ids import TableKey, table_key

ORDERED_WALKS_MIN: Final = 2
"""With fewer walks, the usual order is the best."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows the tables of a read have, each rounded: a plan serves graphs of like sizes."""

    bits: tuple[tuple[TableKey, int], ...]
    """For each table, the number of binary digits of its row count."""
    statistics: Statistics = UNKNOWN

    @classmethod
    def of(
        cls,
        tables: Collection[TableKey],
        row_count: Callable[[TableKey], int],
        statistics: Statistics = UNKNOWN,
    ) -> "Sizes":
        return cls(tuple((each, row_count(each).bit_length()) for each in tables), statistics)

    def rows(self) -> dict[TableKey, float]:
        return {key: 0.75 * 2**bits if bits else 0.0 for key, bits in self.bits}


def tables_of(query: Read, catalog: Catalog) -> tuple[TableKey, ...]:
    """The tables whose sizes an order of this query depends on; none if it has no other order."""
    found: set[TableKey] = set()
    for part in query.parts:
        walks = list(_walks_in(part.steps))
        if len(walks) < ORDERED_WALKS_MIN:
            continue
        found |= {table_key("node", each) for walk in walks for each in reached_types(walk)}
        for name in {name for walk in walks for name, _ in edges_of(walk)}:
            edge = catalog.edge(name)
            assert edge is not None, name
            ends = [table_key("node", each) for each in (edge.source, edge.target)]
            found |= {edge.table_key, *ends}
    return tuple(sorted(found))


def reached_types(walk: Expand | ExpandAny) -> tuple[str, ...]:
    return (walk.target_type,) if isinstance(walk, Expand) else walk.target_types


def _walks_in(steps: Sequence[Step]) -> Iterator[Expand | ExpandAny]:
    for step in steps:
        if isinstance(step, Expand | ExpandAny):
            yield step
        elif isinstance(step, Without | Within | Measured | Optionally):
            yield from _walks_in(step.steps)


def departures_of(walk: Expand | ExpandAny, *, is_forward: bool) -> list[Departure]:
    """The ways in which a walk leaves its source, or its target."""
    return [
        Departure(edge, direction if is_forward else direction.reversed())
        for edge, direction in edges_of(walk)
    ]


def edges_of(walk: Expand | ExpandAny) -> list[tuple[str, Direction]]:
    if isinstance(walk, ExpandAny):
        return [(each.edge, each.direction) for each in walk.ways]
    return [(walk.edge, walk.direction)]
