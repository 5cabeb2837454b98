"""A slow, obvious interpreter of reads over dicts: the second opinion on the engine.

It follows the language rule by rule and step by step, keeps whole rows in memory, visits every node
and every edge each time, and is never optimised. Conditions have three outcomes: True, False, and
None for unknown. A dangling edge, one of whose ends is missing, counts as absent.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from omnigraph.catalog.types import Vector
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Comparator, Direction, Value
from omnigraph.compiler.scope import (
    bound_by,
    conjuncts_of,
    is_named,
    ranked_variable,
    ranking_of,
    selected_by_rank,
    variables_of,
)
from support.scalars import compute, convert
from support.search import (
    Ranking,
    fuse,
    is_text_match,
    only,
    rank_by_distance,
    rank_by_text,
)
from support.values import (
    NullsFirst,
    aggregate,
    all_true,
    any_true,
    compare,
    number,
    sort_by,
    sort_key,
)


@dataclass(frozen=True, slots=True)
class Edge:
    id: str
    source: str
    target: str
    properties: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: Mapping[str, Mapping[str, Mapping[str, Value]]]
    """Type, then id, then property."""
    edges: Mapping[str, Sequence[Edge]]


@dataclass(frozen=True, slots=True)
class Element:
    """A node or an edge that a row binds. Ids are unique within a type only."""

    type_name: str
    id: str
    properties: Mapping[str, Value] = field(compare=False, repr=False)

    def only(self, columns: tuple[str, ...] | None) -> "Element":
        """As a step hands it on: with these properties, or all when none were chosen yet."""
        if columns is None:
            return self
        kept = {name: self.properties.get(name) for name in columns}
        return Element(self.type_name, self.id, kept)


Row = Mapping[str, Element | None]
"""A variable that is there without a value was left unbound by an optional block."""

HOPS_MAX = 100
"""How far a walk without an upper bound goes: farther than any of these graphs is wide."""

Embedder = Callable[[str, int], Sequence[float]]
"""Text and dimension to vector."""


def refuse(text: str, dimension: int) -> Sequence[float]:
    """The embedder of who expects to need none."""
    raise AssertionError(f"no embedder was given for {text!r} in {dimension} dimensions")


def run(
    query: ir.Read,
    graph: Graph,
    parameters: Mapping[str, Value],
    now_ms: int,
    embed: Embedder = refuse,
) -> list[tuple[Value, ...]]:
    """The rows of the result, in order if the query has one."""
    return Execution(graph, parameters, now_ms, embed).read(query)


def matching_ids(
    where: ir.Predicate,
    records: Mapping[str, Mapping[str, Value]],
    parameters: Mapping[str, Value],
    now_ms: int,
) -> list[str]:
    """The ids of the records that the predicate of a mutation finds."""
    execution = Execution(Graph({}, {}), parameters, now_ms)
    value = execution.value(where.value, {})
    return [
        each
        for each, record in records.items()
        if compare(record.get(where.column), where.comparator, value) is True
    ]


# ── execution ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Execution:
    """One run: everything that stays the same while rows come and go."""

    graph: Graph
    parameters: Mapping[str, Value]
    now_ms: int
    embed: Embedder = refuse

    # operands and conditions

    def value(self, operand: ir.Operand, row: Row) -> Value:
        match operand:
            case ir.Constant(value):
                return value
            case ir.ParameterRef(name):
                return self.parameters.get(name)
            case ir.Now():
                return self.now_ms
            case ir.IdOf(variable):
                element = row[variable]
                return None if element is None else element.id
            case ir.PathOf(part, source, target):
                start, end = row[source.variable], row[target.variable]
                paths = [] if start is None or end is None else self.paths(operand, start, end)
                return path_record(*paths[0])[part] if paths else None
            case ir.PropertyOf(variable, "id"):
                element = row[variable]
                return None if element is None else element.id
            case ir.PropertyOf(variable, ir.TYPE_COLUMN):
                element = row[variable]
                return None if element is None else element.type_name
            case ir.PropertyOf(variable, name):
                element = row[variable]
                return None if element is None else element.properties.get(name)
            case ir.Computed(function, arguments, kind):
                given = [(self.value(each, row), each.type) for each in arguments]
                return compute(function, given, kind)
            case ir.Choice(branches, otherwise, kind):
                chosen = next(
                    (b.value for b in branches if self.truth(b.condition, row)), otherwise
                )
                return convert(self.value(chosen, row), chosen.type, kind)
            case ir.Truth(condition):
                return self.truth(condition, row)
            case _:
                assert_never(operand)

    def paths(
        self, path: ir.PathOf, start: Element, end: Element
    ) -> list[tuple[tuple[str, ...], float]]:
        """The ids and the cost of each shortest path, the smallest ones seen from its end first.

        The definition, without a search: all ways from one end to the other that pass no node
        twice, and of these the cheapest, and of these the ones with the fewest edges.
        """
        high = HOPS_MAX if path.hops_high is None else path.hops_high
        hop = ir.Expand("", path.edge, path.direction, "", start.type_name, edge_variable="e")
        ways: list[tuple[tuple[Element, ...], float]] = [((start,), 0.0)]
        found: list[tuple[float, int, tuple[str, ...]]] = []
        for length in range(high + 1):
            found += [
                (cost, length, tuple(each.id for each in reversed(way)))
                for way, cost in ways
                if way[-1] == end and length >= path.hops_low
            ]
            ways = [
                ((*way, other), cost + weight)
                for way, cost in ways
                for other, weight in self.weighed(hop, way[-1], path.weight)
                if other not in way or (length == 0 and other == start == end)
            ]
        best = min(found, default=(0.0, 0, ()))[:2]
        paths = sorted({ids for *each, ids in found if tuple(each) == best})
        return [(ids[::-1], best[0]) for ids in paths]

    def weighed(
        self, hop: ir.Expand, node: Element, weight: str | None
    ) -> Iterator[tuple[Element, float]]:
        """The neighbours of a node along each edge that is not closed, with its weight."""
        for other, _, edge in self.neighbours(hop, node):
            value = 1 if weight is None else edge.properties[weight]
            if value is not None:
                yield other, number(value)

    def object(self, shown: ir.ObjectOf, row: Row) -> Value:
        """The values of an object, in the order of its fields."""
        element = row[shown.variable]
        if element is None:
            return None
        record = {**element.properties, "id": element.id, ir.TYPE_COLUMN: element.type_name}
        return tuple(record.get(name) for name, _ in shown.fields)  # type: ignore[misc]

    def truth(self, condition: ir.Condition, row: Row) -> bool | None:
        match condition:
            case ir.Compare(left, comparator, right):
                return compare(self.value(left, row), comparator, self.value(right, row))
            case ir.Member(needle, haystack):
                return self.membership(self.value(needle, row), haystack, row)
            case ir.StringMatch(subject, test, pattern):
                text, part = self.value(subject, row), self.value(pattern, row)
                if not isinstance(text, str) or not isinstance(part, str):
                    return None
                return part in text if test is ir.StringTest.CONTAINS else text.startswith(part)
            case ir.NullTest(operand, negated):
                return (self.value(operand, row) is None) != negated
            case ir.TextMatch(function, target, query, max_edits):
                text, wanted = self.value(target, row), self.value(query, row)
                if not isinstance(text, str) or not isinstance(wanted, str):
                    return None
                edits = None if max_edits is None else self.value(max_edits, row)
                assert edits is None or isinstance(edits, int)
                return is_text_match(function, text, wanted, edits)
            case ir.Not(test):
                found = self.truth(test, row)
                return None if found is None else not found
            case ir.AllOf(conditions):
                return all_true(self.truth(each, row) for each in conditions)
            case ir.AnyOf(conditions):
                return any_true(self.truth(each, row) for each in conditions)
            case _:
                assert_never(condition)

    def membership(
        self, needle: Value, haystack: ir.Operand | tuple[ir.Operand, ...], row: Row
    ) -> bool | None:
        if isinstance(haystack, tuple):
            elements: Value = tuple(self.scalar(each, row) for each in haystack)
        else:
            elements = self.value(haystack, row)
        if elements is None:
            return None
        assert isinstance(elements, tuple)
        return any_true(compare(each, Comparator.EQ, needle) for each in elements)

    def scalar(self, operand: ir.Operand, row: Row) -> ir.Scalarish:
        value = self.value(operand, row)
        assert not isinstance(value, tuple)
        return value

    def holds(self, conditions: Iterable[ir.Condition], row: Row) -> bool:
        return all(self.truth(each, row) is True for each in conditions)

    # steps

    def rows(self, steps: Sequence[ir.Step], rows: list[Row]) -> list[Row]:
        for step in steps:
            rows = [after for row in rows for after in self.step(step, row)]
        return rows

    def step(self, step: ir.Step, row: Row) -> Iterator[Row]:
        match step:
            case ir.Scan(variable, type_name, filters, columns):
                for node in self.nodes(type_name):
                    if self.holds(filters, {**row, variable: node}):
                        yield {**row, variable: node.only(columns)}
            case ir.ScanAny(variable, types, filters, columns):
                for node in [each for name in types for each in self.nodes(name)]:
                    if self.holds(filters, {**row, variable: node}):
                        yield {**row, variable: node.only(columns)}
            case ir.Stage(read, carried):
                names = [each.name for each in read.outputs]
                yield from self.handed_on(carried, names, self.read(read))
            case ir.Expand() | ir.ExpandAny():
                yield from self.expand(step, row)
            case ir.EachPath(variable, path):
                start, end = row[path.source.variable], row[path.target.variable]
                found = self.paths(path, start, end) if start and end else []
                for ids, cost in found:
                    name = json.dumps(ids[::-1])
                    yield {**row, variable: Element("", name, path_record(ids, cost))}
            case ir.Where(condition):
                if self.holds([condition], row):
                    yield row
            case ir.Without(steps):
                if not self.rows(steps, [row]):
                    yield row
            case ir.Within(steps):
                if self.rows(steps, [row]):
                    yield row
            case ir.Measured(steps, over, comparator, bound):
                values = [self.value(over.argument, each) for each in self.rows(steps, [row])]
                measured = self.aggregated(over, values)
                if compare(measured, comparator, self.value(bound, row)) is True:
                    yield row
            case ir.Optionally(steps):
                unbound: Row = dict.fromkeys(bound_by(steps))
                yield from self.rows(steps, [row]) or [{**unbound, **row}]
            case _:
                assert_never(step)

    def handed_on(
        self,
        carried: Sequence[ir.CarriedVariable],
        names: Sequence[str],
        table: Iterable[tuple[Value, ...]],
    ) -> Iterator[Row]:
        """The rows that go on from a finished table; each is told apart by its number."""
        for number_, cells in enumerate(table):
            record = dict(zip(names, cells, strict=True))
            row: dict[str, Element | None] = {ir.CARRIED: Element(ir.CARRIED, str(number_), record)}
            for each in carried:
                name = str(record.get(each.type_column, each.types[0]))
                every = self.edges(name) if each.kind == "edge" else self.nodes(name)
                found = [one for one in every if one.id == record[each.id_column]]
                row[each.variable] = found[0].only(each.columns) if found else None
            yield row

    def edges(self, type_name: str) -> list[Element]:
        found = self.graph.edges.get(type_name, ())
        return [Element(type_name, each.id, edge_record(each)) for each in found]

    def nodes(self, type_name: str) -> list[Element]:
        found = self.graph.nodes.get(type_name, {})
        return [Element(type_name, each, record) for each, record in found.items()]

    def expand(self, step: ir.Expand | ir.ExpandAny, row: Row) -> Iterator[Row]:
        source = row[step.source]
        if source is None:
            return
        for target, edge in self.ends(step, source):
            if step.target in row and row[step.target] != target:
                continue
            found = {step.target: target}
            handed_on = {} if step.target in row else {step.target: target.only(step.columns)}
            if step.edge_variable is not None and edge is not None:
                found[step.edge_variable] = edge
                handed_on[step.edge_variable] = edge.only(step.edge_columns)
            if self.holds(step.filters, {**row, **found}):
                yield {**row, **handed_on}

    def ends(
        self, step: ir.Expand | ir.ExpandAny, source: Element
    ) -> list[tuple[Element, Element | None]]:
        """Where a walk arrives; once per edge when the edge is bound, once per node otherwise."""
        if step.edge_variable is not None:
            return [
                (target, Element(name, edge.id, edge_record(edge)))
                for target, name, edge in self.neighbours(step, source)
                if target.type_name in target_types(step)
            ]
        visited, frontier = {source}, [source]
        whole = Element(source.type_name, source.id, self.graph.nodes[source.type_name][source.id])
        found: dict[Element, None] = {whole: None} if step.hops_low == 0 else {}
        for hop in range(1, (HOPS_MAX if step.hops_high is None else step.hops_high) + 1):
            reached: list[Element] = []
            for node in frontier:
                for other, _, _ in self.neighbours(step, node):
                    # A self-loop of the start is one hop; every other one is a detour.
                    is_loop, is_new = other == source == node, other not in visited
                    if (is_loop or is_new) and hop >= step.hops_low:
                        found[other] = None
                    if is_new:
                        visited.add(other)
                        reached.append(other)
            if isinstance(step, ir.Expand) and source.type_name != step.target_type:
                break  # an edge between two types cannot be chained
            frontier = reached
        return [(each, None) for each in found if each.type_name in target_types(step)]

    def neighbours(
        self, step: ir.Expand | ir.ExpandAny, node: Element
    ) -> list[tuple[Element, str, Edge]]:
        """One hop, edge by edge; a self-loop counts once, whichever way it is walked."""
        found: list[tuple[Element, str, Edge]] = []
        for way in ways_of(step, node):
            targets = self.graph.nodes.get(way.target_type, {})
            for edge in self.graph.edges.get(way.edge, ()):
                ends: list[str] = []
                if way.direction is not Direction.IN and edge.source == node.id:
                    ends.append(edge.target)
                if way.direction is not Direction.OUT and edge.target == node.id:
                    ends.append(edge.source)
                found += [
                    (Element(way.target_type, each, targets[each]), way.edge, edge)
                    for each in dict.fromkeys(ends)
                    if each in targets
                ]
        return found

    # ranking

    def ranking(
        self, rank: ir.Rank, type_name: str, among: Iterable[str], most: int | None
    ) -> Ranking:
        """The candidates that `rank` keeps, best first. Text is scored against the whole table."""
        match rank:
            case ir.Nearest(target, query):
                vectors = self.column(type_name, target.name)
                known = {each: v for each, v in vectors.items() if isinstance(v, tuple)}
                wanted = self.vector(query, target)
                if wanted is None:
                    return []
                ranking = rank_by_distance({e: _floats(v) for e, v in known.items()}, wanted)
                return only(ranking, among)[:most]
            case ir.Bm25(target, query):
                texts = self.column(type_name, target.name)
                words = self.value(query, {})
                if not isinstance(words, str):
                    return []
                known_texts = {each: t for each, t in texts.items() if isinstance(t, str)}
                return only(rank_by_text(known_texts, words), among)
            case ir.Rrf(first, second, k):
                among = list(among)
                arms = [self.ranking(arm, type_name, among, most) for arm in (first, second)]
                constant = self.value(k, {})
                assert isinstance(constant, int)
                return fuse(arms[0], arms[1], constant)[:most]
            case _:
                assert_never(rank)

    def column(self, type_name: str, name: str) -> dict[str, Value]:
        return {each.id: each.properties.get(name) for each in self.nodes(type_name)}

    def vector(self, query: ir.Operand, target: ir.PropertyOf) -> Sequence[float] | None:
        value = self.value(query, {})
        if isinstance(value, str):
            base = target.type.base
            assert isinstance(base, Vector)
            return self.embed(value, base.dimension)
        return _floats(value) if isinstance(value, tuple) else None

    # the whole read

    def read(self, query: ir.Read) -> list[tuple[Value, ...]]:
        if query.unions:
            return self.united(query)
        limit, offset = self.bound(query.limit), self.bound(query.offset) or 0
        most = None if limit is None else limit + offset
        rank = ranking_of(query)
        if rank is None:
            rows = self.rows(query.steps, [{}])
            table = self.grouped(query, rows) if query.is_aggregate else self.ordered(query, rows)
        else:
            table = self.ranked(query, rank, most)
        return table[offset:most]

    def united(self, query: ir.Read) -> list[tuple[Value, ...]]:
        """The parts one after another; what is distinct so far; then the order of the whole."""
        table = self.read(replace(query, order=(), limit=None, offset=None, unions=()))
        for each in query.unions:
            table = table + self.read(each.read)
            table = list(dict.fromkeys(table)) if each.distinct else table
        if query.order:
            table.sort(key=lambda cells: [sort_key(cell) for cell in cells])
            for ordering in reversed(query.order):
                assert isinstance(ordering.key, int)
                column = [cells[ordering.key] for cells in table]
                table = sort_by(table, column, descending=ordering.descending)
        limit, offset = self.bound(query.limit), self.bound(query.offset) or 0
        return table[offset : None if limit is None else limit + offset]

    def bound(self, count: int | ir.ParameterRef | None) -> int | None:
        if isinstance(count, ir.ParameterRef):
            value = self.value(count, {})
            assert value is None or isinstance(value, int)
            return value
        return count

    def ordered(self, query: ir.Read, rows: list[Row]) -> list[tuple[Value, ...]]:
        if query.order:
            rows = sorted(rows, key=lambda row: identity(query, row))
            for ordering in reversed(query.order):
                key = ordering.key
                expression = query.outputs[key].expression if isinstance(key, int) else key
                if isinstance(expression, ir.ObjectOf):
                    expression = ir.IdOf(expression.variable)
                cells = [self.cell(expression, row, {}) for row in rows]
                rows = sort_by(rows, cells, descending=ordering.descending)
        return [self.project(query, row, {}) for row in rows]

    def ranked(self, query: ir.Read, rank: ir.Rank, most: int | None) -> list[tuple[Value, ...]]:
        """A ranked scan is narrowed before anything is joined; a ranked walk, after everything."""
        variable = ranked_variable(rank)
        selected = selected_by_rank(query)
        if selected is not None:
            own = own_conditions(query.steps, selected)
            scan = next(s for s in query.steps if isinstance(s, ir.Scan) and s.variable == selected)
            among = [n for n in self.nodes(scan.type_name) if self.holds(own, {selected: n})]
            rows = self.rows(query.steps, [{}])
        else:
            rows = self.rows(query.steps, [{}])
            among = [n for n in dict.fromkeys(row[variable] for row in rows) if n is not None]
        if not among:
            return []
        ranking = self.ranking(rank, among[0].type_name, [each.id for each in among], most)
        place = {each: position for position, (each, _) in enumerate(ranking)}
        kept = [(node.id, row) for row in rows if (node := row[variable]) and node.id in place]
        kept.sort(key=lambda item: (place[item[0]], identity(query, item[1])))
        return [self.project(query, row, dict(ranking)) for _, row in kept]

    def project(self, query: ir.Read, row: Row, scores: Mapping[str, float]) -> tuple[Value, ...]:
        return tuple(self.cell(each.expression, row, scores) for each in query.outputs)

    def cell(
        self,
        expression: ir.Operand | ir.ObjectOf | ir.Aggregate | ir.Rank,
        row: Row,
        scores: Mapping[str, float],
    ) -> Value:
        match expression:
            case ir.ObjectOf():
                return self.object(expression, row)
            case ir.Nearest() | ir.Bm25() | ir.Rrf():
                node = row[ranked_variable(expression)]
                return None if node is None else scores.get(node.id)
            case ir.Aggregate():
                raise AssertionError("an aggregate has no value for one row")
            case _:
                return self.value(expression, row)

    def grouped(self, query: ir.Read, rows: list[Row]) -> list[tuple[Value, ...]]:
        keys = [o.expression for o in query.outputs if not isinstance(o.expression, ir.Aggregate)]
        groups: dict[tuple[Value, ...], list[Row]] = {} if keys else {(): []}
        for row in rows:
            groups.setdefault(tuple(self.cell(key, row, {}) for key in keys), []).append(row)
        table = [self.summarise(query, key, members) for key, members in groups.items()]
        if query.having is not None:
            table = [cells for cells in table if self.is_kept(query, query.having, cells)]
        if query.order:
            places = [o.expression for o in query.outputs]
            plain = [at for at, each in enumerate(places) if not isinstance(each, ir.Aggregate)]
            table.sort(key=lambda cells: [sort_key(cells[at]) for at in plain])
            for ordering in reversed(query.order):
                key = ordering.key
                at = key if isinstance(key, int) else places.index(key)
                column = [cells[at] for cells in table]
                table = sort_by(table, column, descending=ordering.descending)
        return table

    def aggregated(self, over: ir.Aggregate, values: Sequence[Value]) -> Value:
        fraction = None if over.fraction is None else self.value(over.fraction, {})
        return aggregate(over.function, values, distinct=over.distinct, fraction=fraction)

    def is_kept(self, query: ir.Read, having: ir.Condition, cells: tuple[Value, ...]) -> bool:
        """The columns of a group are the properties of one element."""
        record = {each.name: cell for each, cell in zip(query.outputs, cells, strict=True)}
        return self.truth(having, {ir.RESULT: Element(ir.RESULT, "", record)}) is True

    def summarise(
        self, query: ir.Read, key: tuple[Value, ...], rows: list[Row]
    ) -> tuple[Value, ...]:
        remaining = iter(key)
        return tuple(
            self.aggregated(
                each.expression, [self.value(each.expression.argument, row) for row in rows]
            )
            if isinstance(each.expression, ir.Aggregate)
            else next(remaining)
            for each in query.outputs
        )


def path_record(nodes: tuple[str, ...], cost: float) -> Mapping[str, Value]:
    return {"length": len(nodes) - 1, "nodes": nodes, "cost": cost}


def target_types(step: ir.Expand | ir.ExpandAny) -> tuple[str, ...]:
    return step.target_types if isinstance(step, ir.ExpandAny) else (step.target_type,)


def ways_of(step: ir.Expand | ir.ExpandAny, node: Element) -> list[ir.Way]:
    """The ways that a walk may go from a node."""
    if isinstance(step, ir.ExpandAny):
        return [each for each in step.ways if each.source_type == node.type_name]
    return [ir.Way(node.type_name, step.edge, step.direction, step.target_type)]


def edge_record(edge: Edge) -> Mapping[str, Value]:
    """What can be read of an edge: its properties and its ends."""
    return {**edge.properties, "src": edge.source, "dst": edge.target}


def identity(query: ir.Read, row: Row) -> list[NullsFirst]:
    """What breaks ties: carried values, the ids of named variables in name order, their types."""
    names = sorted(each for each in bound_by(query.steps) if is_named(each))
    found = [row[name] for name in names]
    ids = [sort_key(value) for value in carried_values(query, row)]
    ids += [sort_key(None if each is None else each.id) for each in found]
    return ids + [sort_key(None if each is None else each.type_name) for each in found]


def carried_values(query: ir.Read, row: Row) -> Iterator[Value]:
    stage = query.stage
    carried = row.get(ir.CARRIED)
    if stage is None or carried is None:
        return
    columns = {name for each in stage.variables for name in (each.id_column, each.type_column)}
    for each in stage.read.outputs:
        if each.name not in columns:
            yield carried.properties[each.name]


def own_conditions(steps: Sequence[ir.Step], variable: str) -> list[ir.Condition]:
    """The conditions, of the outermost block, that read this variable and no other."""
    found: list[ir.Condition] = []
    for step in steps:
        match step:
            case ir.Scan() | ir.ScanAny() | ir.Expand() | ir.ExpandAny():
                found += step.filters
            case ir.Where(condition):
                found.append(condition)
            case _:
                pass
    parts = [part for each in found for part in conjuncts_of(each)]
    return [each for each in parts if variables_of(each) == {variable}]


def _floats(vector: Sequence[ir.Scalarish]) -> tuple[float, ...]:
    return tuple(number(each) for each in vector)
