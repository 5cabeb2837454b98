"""What is known of the edges and values of a graph beyond the row counts of its tables.

`optimize` collects statistics and keeps them in a file (ADR 66). They may be older than the rows
that a read sees, so all of them are shares and ratios: a factor from here is multiplied with a row
count of now. They decide which order is taken and never what is found.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from omnigraph.catalog.names import spelling_of
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import (
    Comparator,
    Compare,
    Condition,
    Constant,
    Direction,
    Member,
    NullTest,
    Operand,
    PropertyOf,
    StringMatch,
    StringTest,
)

RANGE_SHARE: Final = 0.3
"""What passes a comparison with a value that is not known yet."""

LEAST: Final = 1e-6
"""No condition is taken to let nothing through: statistics may be old."""

TEXT_MAX: Final = 64
"""Bounds of texts are cut to so many characters."""


@dataclass(frozen=True, slots=True, order=True)
class Departure:
    """A way to leave a node: an edge type, and whether it is followed or gone back."""

    edge: str
    direction: Direction

    def reversed(self) -> "Departure":
        """The departure at the other end of the same walk."""
        return Departure(self.edge, self.direction.reversed())


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many edges the nodes of one type have in one departure."""

    mean: float
    most: int


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one property."""

    distinct: int
    nulls: float
    """The share of rows without a value."""
    bounds: tuple[str | int | float, ...] = ()
    """The least value, the greatest, and between any two neighbours as many rows."""

    def share_of(self, comparator: Comparator, value: object) -> float:
        """The share of rows that compare so with a value; None is a value not known yet."""
        some = 1.0 - self.nulls
        match comparator:
            case Comparator.EQ:
                return some * self._equal(value)
            case Comparator.NE:
                return some * (1.0 - self._equal(value))
            case Comparator.LT | Comparator.LE:
                return some * self._below(value, is_closed=comparator is Comparator.LE)
            case Comparator.GT | Comparator.GE:
                below = self._below(value, is_closed=comparator is Comparator.GT)
                return some * (RANGE_SHARE if self._comparable(value) is None else 1.0 - below)

    def _equal(self, value: object) -> float:
        """A value that fills whole parts between bounds is frequent."""
        usual = 1.0 / max(1, self.distinct)
        known = self._comparable(value)
        if known is None:
            return usual
        times = bisect_right(self.bounds, known) - bisect_left(self.bounds, known)
        return max(usual, (times - 1) / max(1, len(self.bounds) - 1))

    def _below(self, value: object, *, is_closed: bool) -> float:
        known = self._comparable(value)
        if known is None:
            return RANGE_SHARE
        find = bisect_right if is_closed else bisect_left
        return find(self.bounds, known) / len(self.bounds)

    def _comparable(self, value: object) -> "str | int | float | None":
        """The value, if it can be found among the bounds."""
        if not self.bounds or isinstance(value, bool):
            return None
        if isinstance(self.bounds[0], str):
            return value[:TEXT_MAX] if isinstance(value, str) else None
        return value if isinstance(value, int | float) else None


ValueOf = Callable[[Operand], object]
"""The value of a fixed operand; None if it is not known."""


def constant_value(operand: Operand) -> object:
    """All that is known before a query has its parameters."""
    return operand.value if isinstance(operand, Constant) else None


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Of one graph at one time. Two of them are never equal: plans are kept by identity."""

    degrees: Mapping[Departure, Degrees] = field(default_factory=dict)
    pulls: Mapping[tuple[Departure, Departure], float] = field(default_factory=dict)
    """How many times more edges of one departure a node has if it is found by an edge of another
    one. 1 if the two know nothing of each other; far more if both meet at the same hubs."""
    values: Mapping[tuple[str, str], Values] = field(default_factory=dict)
    """By type and property."""

    def degree(self, departure: Departure, mean: float, met: Iterable[Departure]) -> float:
        """The edges by which a node is left, on average, over the rows that bind it.

        `mean` is that over all nodes. There is a row for each combination of edges that the node
        was `met` by, so nodes with many of these count more often.
        """
        pulled = mean
        for each in met:
            first, second = sorted((departure, each))
            pulled *= self.pulls.get((first, second), 1.0)
        known = self.degrees.get(departure)
        if known is None or not known.mean:
            return pulled
        return min(pulled, max(mean, known.most * mean / known.mean))

    def share(
        self, type_name: str, condition: Condition, value_of: ValueOf = constant_value
    ) -> float | None:
        """The share of the rows of a type that pass a condition; None if nothing is known."""
        found = self._share(type_name, condition, value_of)
        return None if found is None else max(LEAST, found)

    def _share(self, type_name: str, condition: Condition, value_of: ValueOf) -> float | None:
        match condition:
            case Compare(PropertyOf(name=name), comparator, value) if is_fixed(value):
                known = self.values.get((type_name, name))
                return None if known is None else known.share_of(comparator, value_of(value))
            case Member(PropertyOf(name=name), tuple() as haystack) if all(map(is_fixed, haystack)):
                known = self.values.get((type_name, name))
                if known is None:
                    return None
                each = (known.share_of(Comparator.EQ, value_of(one)) for one in haystack)
                return min(1.0, sum(each))
            case NullTest(PropertyOf(name=name), negated):
                known = self.values.get((type_name, name))
                return None if known is None else abs(negated - known.nulls)
            case StringMatch(PropertyOf(name=name), StringTest.STARTS_WITH, pattern):
                known, prefix = self.values.get((type_name, name)), value_of(pattern)
                if known is None or not isinstance(prefix, str):
                    return None
                end = prefix + chr(0x10FFFF)
                above = known.share_of(Comparator.GE, prefix)
                return above - known.share_of(Comparator.GE, end)
            case _:
                return None

    def known_of(self, edges: Collection[str], properties: Collection[tuple[str, str]]) -> str:
        """What of these edge types and properties is known, for people."""
        known = {each.edge for each in self.degrees}
        walked = sorted(known.intersection(edges))
        tested = sorted(
            f"{kind}.{spelling_of(name)}" for kind, name in self.values.keys() & set(properties)
        )
        parts = [("degrees of", walked), ("values of", tested)]
        return "; ".join(
            ["row counts", *(f"{noun} {', '.join(names)}" for noun, names in parts if names)]
        )


UNKNOWN: Final = Statistics()
"""Of a graph without statistics: means are means, and conditions are guessed."""
