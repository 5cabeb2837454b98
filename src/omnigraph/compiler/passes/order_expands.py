"""Choose where to start, and in which order and direction to walk.

Scans, expands and filters that stand together form a pattern: variables with their own
conditions, joined by walks. Any order that binds every variable once gives the same bag of rows.
The pattern starts at the variable that is cheapest to reach, and goes on with whatever is expected
to leave the fewest rows: a walk between two bound variables first, for it can only drop rows. A
second variable is scanned only when nothing can be walked, for that multiplies. If the sizes of the
tables are known, another order replaces this one where it is expected to be far cheaper (`costs`).

A walk may be turned round. The pairs it relates are the same seen from either end: with an edge
variable, one row per edge; without one, all pairs at distance `hops_low` to `hops_high`, and
distance along reversed edges is the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.access import Access
from omnigraph.compiler.costs import (
    HOPS_MAX,
    SELECTIVITY,
    Choice,
    Costs,
    PatternNode,
    WalkPattern,
    counted_variables,
)
from omnigraph.compiler.ir import (
    Binder,
    Condition,
    Direction,
    EachPath,
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
from omnigraph.compiler.scope import (
    bound_by,
    mentioned_in,
    ranked_variable,
    ranking_of,
    selected_by_rank,
    variables_of,
)
from omnigraph.compiler.sizes import Sizes, edges_of, reached_types

Block = Without | Within | Measured | Optionally

ORDERED_STEPS_MIN = 3
"""A scan and a walk have their best order already."""

FAN_OUT = 10.0
"""How many edges of a type a node has, for want of knowledge."""


def order_expands(query: Read, catalog: Catalog, sizes: Sizes | None = None) -> Read:
    rank = ranking_of(query)
    ranked = None if rank is None else ranked_variable(rank)
    blocks = [each for each in query.steps if isinstance(each, Block | EachPath)]
    rules = _Rules(
        catalog,
        sizes if rank is None else None,
        counted_variables(query) - mentioned_in(blocks),
        selected=selected_by_rank(query),
        ranked=ranked,
    )
    return replace(query, steps=_order_block(query.steps, rules, outer=frozenset()))


@dataclass(frozen=True, slots=True)
class _Rules:
    catalog: Catalog
    sizes: Sizes | None
    counted: frozenset[str] = frozenset()
    """What nothing behind the pattern reads but a count."""
    selected: str | None = None
    """Scanned and ranked: must stay scanned."""
    ranked: str | None = None
    """If it is ranked but reached, it must stay reached."""

    def may_scan(self, node: PatternNode) -> bool:
        return self.ranked is None or self.ranked == self.selected or node.was_scanned


def _order_block(
    steps: Sequence[Step], rules: _Rules, *, outer: frozenset[str]
) -> tuple[Step, ...]:
    ordered: list[Step] = []
    together: list[Binder | Where] = []
    bound = outer

    def flush() -> None:
        nonlocal bound
        ordered.extend(_order(_pattern_of(together, bound), rules, bound))
        bound = bound.union(bound_by(together))
        together.clear()

    inner_rules = _Rules(rules.catalog, rules.sizes)
    for step in steps:
        match step:
            case Scan() | ScanAny() | Expand() | ExpandAny() | Where():
                together.append(step)
            case Stage() | EachPath():
                flush()
                ordered.append(step)
                bound = bound.union(bound_by([step]))
            case Without(inner) | Within(inner) | Measured(inner):
                flush()
                ordered.append(replace(step, steps=_order_block(inner, inner_rules, outer=bound)))
            case Optionally(inner):
                flush()
                ordered.append(Optionally(_order_block(inner, inner_rules, outer=bound)))
                bound = bound.union(bound_by(inner))
            case _:
                assert_never(step)
    flush()
    return tuple(ordered)


def _pattern_of(steps: Iterable[Binder | Where], outer: frozenset[str]) -> WalkPattern:
    pattern = WalkPattern()
    for step in steps:
        match step:
            case Scan() | ScanAny():
                node = pattern.nodes.setdefault(
                    step.variable, PatternNode(_scanned_types(step), step.columns, was_scanned=True)
                )
                node.filters += step.filters
            case Expand() | ExpandAny():
                _add_walk(pattern, step, outer)
            case Where(condition):
                pattern.conditions.append(condition)
            case _:
                assert_never(step)
    return pattern


def _scanned_types(step: Scan | ScanAny) -> tuple[str, ...]:
    return (step.type_name,) if isinstance(step, Scan) else step.types


def _add_walk(pattern: WalkPattern, step: Expand | ExpandAny, outer: frozenset[str]) -> None:
    of_edge: list[Condition] = []
    reached = reached_types(step)
    for condition in step.filters:
        variables = variables_of(condition)
        if variables <= {step.edge_variable}:
            of_edge.append(condition)
        elif variables == {step.target} and step.target not in outer:
            node = pattern.nodes.setdefault(
                step.target, PatternNode(reached, step.columns, was_scanned=False)
            )
            node.filters += (condition,)
        else:
            pattern.conditions.append(condition)
    if step.target not in outer:
        pattern.nodes.setdefault(step.target, PatternNode(reached, step.columns, was_scanned=False))
    pattern.walks.append(replace(step, filters=tuple(of_edge)))


def _order(pattern: WalkPattern, rules: _Rules, outer: frozenset[str]) -> tuple[Step, ...]:
    usual = _Ordering(pattern, rules, outer)
    steps = tuple(usual.steps())
    if rules.sizes is None or len(steps) < ORDERED_STEPS_MIN:
        return steps
    costs = Costs(pattern, outer, rules.sizes, rules.catalog, rules.counted)
    better = costs.better_than(usual.choices)
    if better == usual.choices:
        return steps
    return tuple(_Ordering(pattern, rules, outer, better).steps())


class _Ordering:
    """A pattern on its way to being steps again."""

    def __init__(
        self,
        pattern: WalkPattern,
        rules: _Rules,
        outer: frozenset[str],
        planned: Sequence[Choice] | None = None,
    ) -> None:
        self.choices: list[Choice] = []
        """What was scanned and walked."""
        self._planned = planned
        self.nodes = pattern.nodes
        self.walks = list(pattern.walks)
        self.conditions = list(pattern.conditions)
        self.rules = rules
        self.bound = set(outer)
        self._accesses: dict[str, Access] = {}

    def steps(self) -> Iterator[Step]:
        yield from self._ready_conditions()
        selected = self.rules.selected
        if selected is not None and selected in self.nodes and selected not in self.bound:
            # Even where what was bound before would reach it.
            yield self._scan(selected)
            yield from self._ready_conditions()
        while self.walks or not self.bound.issuperset(self.nodes):
            choice = self._next() if self._planned is None else self._planned[len(self.choices)]
            self.choices.append(choice)
            yield self._scan(choice) if isinstance(choice, str) else self._walk(choice)
            yield from self._ready_conditions()

    def _next(self) -> Choice:
        ready = [each for each in self.walks if {each.source, each.target} & self.bound]
        return min(ready, key=self._cost) if ready else self._start()

    def _ready_conditions(self) -> Iterator[Where]:
        """The conditions that can be evaluated by now."""
        waiting = []
        for condition in self.conditions:
            if variables_of(condition) <= self.bound:
                yield Where(condition)
            else:
                waiting.append(condition)
        self.conditions = waiting

    # scans

    def _start(self) -> str:
        """The cheapest variable; the first one among equals."""
        unbound = [each for each in self.nodes if each not in self.bound]
        allowed = [each for each in unbound if self.rules.may_scan(self.nodes[each])] or unbound
        return min(allowed, key=self._access)

    def _access(self, variable: str) -> Access:
        if variable not in self._accesses:
            self._accesses[variable] = self.nodes[variable].access(self.rules.catalog)
        return self._accesses[variable]

    def _scan(self, variable: str) -> Scan | ScanAny:
        node = self.nodes[variable]
        self.bound.add(variable)
        if len(node.types) == 1:
            return Scan(variable, node.types[0], node.filters, node.columns)
        return ScanAny(variable, node.types, node.filters, node.columns)

    # walks

    def _cost(self, walk: Expand | ExpandAny) -> float:
        """The factor by which the number of rows is expected to grow."""
        if {walk.source, walk.target} <= self.bound:
            return 0.0
        is_forward = walk.source in self.bound
        arrival = walk.target if is_forward else walk.source
        fan_out = sum(
            self._fan_out(edge, direction if is_forward else direction.reversed())
            for edge, direction in edges_of(walk)
        )
        return (
            fan_out ** min(walk.hops_high or HOPS_MAX, HOPS_MAX)
            * SELECTIVITY[self._access(arrival)]
        )

    def _fan_out(self, name: str, direction: Direction) -> float:
        edge = self.rules.catalog.edge(name)
        is_single = edge is not None and edge.cardinality.high == 1
        match direction:
            case Direction.OUT:
                return 1.0 if is_single else FAN_OUT
            case Direction.IN:
                return FAN_OUT
            case Direction.BOTH:
                return 2 * FAN_OUT
            case _:
                assert_never(direction)

    def _walk(self, walk: Expand | ExpandAny) -> Expand | ExpandAny:
        self.walks.remove(walk)
        if walk.source not in self.bound:
            walk = self._reversed(walk)
        if walk.target not in self.bound:
            node = self.nodes[walk.target]
            walk = replace(walk, filters=node.filters + walk.filters, columns=node.columns)
        self.bound.add(walk.target)
        if walk.edge_variable is not None:
            self.bound.add(walk.edge_variable)
        return walk

    def _reversed(self, walk: Expand | ExpandAny) -> Expand | ExpandAny:
        types = self.nodes[walk.source].types
        if isinstance(walk, ExpandAny):
            ways = tuple(sorted(each.reversed() for each in walk.ways))
            return replace(
                walk, source=walk.target, ways=ways, target=walk.source, target_types=types
            )
        return replace(
            walk,
            source=walk.target,
            direction=walk.direction.reversed(),
            target=walk.source,
            target_type=types[0],
        )
