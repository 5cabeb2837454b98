"""What an order of a pattern is expected to cost, by row counts and, where there are, statistics.

Row counts stand in the manifest: they are exact, and reading them costs nothing. The mean number of
edges of a node in each direction follows from them. Statistics say how far the nodes that a walk
meets differ from the mean, and how many rows a condition lets through. The cost of an order is the
number of rows that its steps make. Orders are built step by step, and the cheapest few of each
length are continued.

A cost decides which order is taken and never what is found. It is rough, so another order must be
expected to cost a fraction of the usual one, and the usual one must be worth the search.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.access import Access, access_of
from omnigraph.compiler.ir import (
    Aggregate,
    AggregateFunction,
    Comparator,
    Compare,
    Condition,
    Direction,
    Expand,
    ExpandAny,
    IdOf,
    Read,
)
from omnigraph.compiler.scope import bound_by, operands_in, variables_in, variables_of
from omnigraph.compiler.sizes import Sizes, departures_of
from omnigraph.compiler.statistics import Departure
from omnigraph.ids import table_key

WORTH_ROWS: Final = 20_000
"""An order that makes fewer rows is left as it is: any plan for it takes a moment."""

GAIN_MIN: Final = 3.0
"""So many times cheaper must another order be."""

HOPS_MAX: Final = 6
"""Beyond a few hops everything is reached, and larger powers say nothing more."""

BREADTH: Final = 12
"""So many orders of each length are continued."""

SCANNED: Final = 0.1
"""A row that a scan tests, in rows that a walk makes."""

SELECTIVITY: Final = {
    Access.KEY: 0.0001,
    Access.EQUALITY: 0.05,
    Access.TEXT: 0.1,
    Access.RANGE: 0.3,
    Access.CONDITION: 0.5,
    Access.EVERYTHING: 1.0,
}
"""The share of nodes that conditions let through, where no statistics say."""

COUNTED: Final = 0.25
"""A row whose walks are counted and not walked."""

Choice = str | Expand | ExpandAny
"""A variable to scan, or a walk."""


@dataclass(slots=True)
class PatternNode:
    """A variable that a pattern binds, and the conditions on it alone."""

    types: tuple[str, ...]
    columns: tuple[str, ...] | None
    was_scanned: bool
    filters: tuple[Condition, ...] = ()

    def access(self, catalog: Catalog) -> Access:
        return max(self._access(catalog, each) for each in self.types)

    def _access(self, catalog: Catalog, type_name: str) -> Access:
        node_type = catalog.node(type_name)
        assert node_type is not None, type_name
        return access_of(self.filters, node_type)


@dataclass(slots=True)
class WalkPattern:
    nodes: dict[str, PatternNode] = field(default_factory=dict)
    walks: list[Expand | ExpandAny] = field(default_factory=list)
    """With the conditions on their edge variable only."""
    conditions: list[Condition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Order:
    """The first steps of an order, and what they are expected to make."""

    choices: tuple[Choice, ...]
    rows: float
    cost: float
    bound: frozenset[str]
    left: frozenset[int]
    waiting: tuple[Condition, ...]
    met: tuple[tuple[str, Departure], ...] = ()
    """The variables at the ends of its walks, with the departure there."""

    def met_by(self, variable: str) -> Iterator[Departure]:
        return (departure for each, departure in self.met if each == variable)


class Costs:
    """Compares the orders of one pattern."""

    def __init__(
        self,
        pattern: WalkPattern,
        outer: frozenset[str],
        sizes: Sizes,
        catalog: Catalog,
        counted: frozenset[str] = frozenset(),
    ) -> None:
        """`counted` variables are read by nothing behind the pattern but a count."""
        self._pattern = pattern
        self._outer = outer
        self._rows = sizes.rows()
        self._statistics = sizes.statistics
        self._catalog = catalog
        self._shares = {name: self._share(node) for name, node in pattern.nodes.items()}
        walks = [variable for each in pattern.walks for variable in (each.source, each.target)]
        tested = [each for condition in pattern.conditions for each in variables_of(condition)]
        self._ends = {
            each
            for each in counted.intersection(pattern.nodes).difference(tested)
            if walks.count(each) == 1 and not pattern.nodes[each].filters
        }

    def better_than(self, usual: Sequence[Choice]) -> Sequence[Choice]:
        """The usual order, or one that is expected to be far cheaper."""
        cost = self.cost(usual)
        if cost < WORTH_ROWS:
            return usual
        found = min(self._complete(), key=lambda each: self.cost(each.choices))
        return found.choices if GAIN_MIN * self.cost(found.choices) < cost else usual

    def cost(self, choices: Sequence[Choice]) -> float:
        order = self._empty()
        for at, each in enumerate(choices):
            if self._are_only_counted(choices[at:], order.bound):
                return order.cost + COUNTED * order.rows * (len(choices) - at)
            order = self._continued(order, each)
        return order.cost

    # the search

    def _empty(self) -> _Order:
        left = frozenset(range(len(self._pattern.walks)))
        return _Order((), 1.0, 0.0, self._outer, left, tuple(self._pattern.conditions))

    def _complete(self) -> list[_Order]:
        orders = [self._empty()]
        nodes = self._pattern.nodes
        while any(each.left or not each.bound.issuperset(nodes) for each in orders):
            longer = [
                self._continued(order, choice)
                for order in orders
                for choice in self._choices(order)
            ]
            best: dict[tuple[frozenset[str], frozenset[int]], _Order] = {}
            for each in longer:
                reached = each.bound, each.left
                if reached not in best or each.cost < best[reached].cost:
                    best[reached] = each
            orders = sorted(best.values(), key=lambda each: each.cost)[:BREADTH]
        return orders

    def _choices(self, order: _Order) -> Iterator[Choice]:
        """The walks from what is bound; a scan if there is none."""
        walks = [self._pattern.walks[each] for each in sorted(order.left)]
        ready = [each for each in walks if {each.source, each.target} & order.bound]
        if ready:
            yield from ready
            return
        yield from (each for each in self._pattern.nodes if each not in order.bound)

    # one step

    def _continued(self, order: _Order, choice: Choice) -> _Order:
        if isinstance(choice, str):
            count = self._count(choice)
            made = order.rows * count * self._shares[choice]
            after = replace(
                order,
                rows=made,
                cost=order.cost + made + SCANNED * count,
                bound=order.bound | {choice},
            )
        else:
            after = self._walked(order, choice)
        ready = [each for each in after.waiting if variables_of(each) <= after.bound]
        rows = after.rows
        for each in ready:
            rows *= _share_of(each)
        waiting = tuple(each for each in after.waiting if each not in ready)
        return replace(after, choices=(*order.choices, choice), rows=rows, waiting=waiting)

    def _walked(self, order: _Order, walk: Expand | ExpandAny) -> _Order:
        is_forward = walk.source in order.bound
        near, far = (walk.source, walk.target) if is_forward else (walk.target, walk.source)
        degree = self._reached(order, walk, near, far, is_forward=is_forward)
        share = 1.0
        for each in walk.filters:
            share *= _share_of(each)
        if far in order.bound:
            is_search = (walk.hops_low, walk.hops_high) != (1, 1)
            made = order.rows * (degree if is_search else 1.0)
            degree *= self._pulled_back(order, walk, far, is_forward=is_forward)
            rows = order.rows * min(1.0, degree / max(1.0, self._count(far))) * share
        else:
            made = order.rows * degree
            rows = made * self._shares.get(far, 1.0) * share
        at = next(each for each in order.left if self._pattern.walks[each] == walk)
        more = {far} if walk.edge_variable is None else {far, walk.edge_variable}
        met = order.met + self._meetings(walk, near, far, is_forward=is_forward)
        left, bound = order.left - {at}, order.bound | more
        return replace(order, rows=rows, cost=order.cost + made, bound=bound, left=left, met=met)

    def _meetings(
        self, walk: Expand | ExpandAny, near: str, far: str, *, is_forward: bool
    ) -> tuple[tuple[str, Departure], ...]:
        """What one edge says of its ends; a walk over several types or hops says too little."""
        departures = departures_of(walk, is_forward=is_forward)
        if len(departures) > 1 or (walk.hops_low, walk.hops_high) != (1, 1):
            return ()
        return (near, departures[0]), (far, departures[0].reversed())

    def _are_only_counted(self, choices: Sequence[Choice], bound: frozenset[str]) -> bool:
        """Does the engine multiply by the degrees of these walks instead of walking them?"""
        return all(
            not isinstance(each, str)
            and not each.filters
            and (each.hops_low, each.hops_high) == (1, 1)
            and {each.source, each.target} - bound <= self._ends
            and not {each.source, each.target} <= bound
            for each in choices
        )

    # what is known

    def _count(self, variable: str) -> float:
        """The nodes that a variable may be; of one that is bound outside, more than there are."""
        node = self._pattern.nodes.get(variable)
        return max(self._rows.values(), default=1.0) if node is None else self._nodes(node.types)

    def _nodes(self, types: Sequence[str]) -> float:
        return sum(self._rows.get(table_key("node", each), 0.0) for each in types)

    def _share(self, node: PatternNode) -> float:
        access = node.access(self._catalog)
        count = max(1.0, self._nodes(node.types))
        if access is Access.KEY:
            return 1.0 / count
        known = [self._share_known(node, each) for each in node.filters]
        share = 1.0
        for each in known:
            share *= 1.0 if each is None else each
        guessed = SELECTIVITY[access] if None in known else 1.0
        return max(min(share, guessed), 1.0 / count)

    def _share_known(self, node: PatternNode, condition: Condition) -> float | None:
        shares = [self._statistics.share(each, condition) for each in node.types]
        return None if None in shares else max(each for each in shares if each is not None)

    def _reached(
        self, order: _Order, walk: Expand | ExpandAny, near: str, far: str, *, is_forward: bool
    ) -> float:
        """How many nodes a walk from one node arrives at, on average."""
        degree = sum(
            self._statistics.degree(each, self._mean(each), order.met_by(near))
            for each in departures_of(walk, is_forward=is_forward)
        )
        if walk.hops_high == 1:
            return degree
        hops = min(walk.hops_high or HOPS_MAX, HOPS_MAX)
        found = sum(degree**hop for hop in range(walk.hops_low, hops + 1))
        return min(found, max(1.0, self._count(far)))

    def _pulled_back(
        self, order: _Order, walk: Expand | ExpandAny, far: str, *, is_forward: bool
    ) -> float:
        """How many times more often than any node the bound far end is at the end of an edge."""
        departures = departures_of(walk, is_forward=not is_forward)
        usual = sum(map(self._mean, departures))
        met = list(order.met_by(far))
        found = sum(self._statistics.degree(each, self._mean(each), met) for each in departures)
        return found / usual if usual else 1.0

    def _mean(self, departure: Departure) -> float:
        edge = self._catalog.edge(departure.edge)
        assert edge is not None, departure
        count = self._rows.get(edge.table_key, 0.0)
        out, into = (count / max(1.0, self._nodes([each])) for each in (edge.source, edge.target))
        match departure.direction:
            case Direction.OUT:
                return out
            case Direction.IN:
                return into
            case Direction.BOTH:
                return out + into
            case _:
                assert_never(departure.direction)


def _share_of(condition: Condition) -> float:
    """Of a condition on an edge, or on several variables."""
    match condition:
        case Compare(IdOf(), Comparator.NE, _):
            return 1.0
        case Compare(_, Comparator.EQ, _):
            return SELECTIVITY[Access.EQUALITY]
        case _:
            return SELECTIVITY[Access.CONDITION]


def counted_variables(query: Read) -> frozenset[str]:
    """The variables that the result of a query only counts, or does not read."""
    bound = bound_by(query.steps)
    if not query.is_aggregate:
        return frozenset()
    read: set[str] = set()
    for each in query.outputs:
        match each.expression:
            case Aggregate(AggregateFunction.COUNT, IdOf(), distinct=False):
                pass
            case expression:
                read |= variables_in(operands_in(expression))
    return frozenset(bound) - read
