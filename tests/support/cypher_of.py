"""A read in the Cypher of ladybug: what its patterns say, and no more than that.

Cypher matches edges, and the language relates nodes. So a traversal without an edge variable is a
condition on two nodes, and its distance is what a shorter walk does not reach. Left out is what
Cypher says otherwise: orders (nulls come last), numbers of two kinds compared, what is computed,
variables of several types, stages, unions.
"""

from collections.abc import Iterator, Mapping, Sequence

import ladybug
from ladybug import Connection

from omnigraph.catalog.model import Catalog, Property
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, ValueType, Vector
from omnigraph.compiler import ir
from omnigraph.compiler.ir import AggregateFunction, Direction, Value
from support.interpreter import Graph
from support.sql_values import Unsayable, base_of

HOPS_MAX = 3
"""A longer walk passes through too many edges."""


def create_graph(catalog: Catalog, graph: Graph) -> Connection:
    """Without the edges that lead nowhere, which count as absent."""
    connection = Connection(ladybug.Database(":memory:"))
    for node in catalog.nodes:
        columns = ", ".join(["id STRING PRIMARY KEY", *_columns(node.properties)])
        connection.execute(f"CREATE NODE TABLE {node.name}({columns})")
        for each, record in graph.nodes[node.name].items():
            cells = _cells({"id": each, **record}, node.properties)
            connection.execute(f"CREATE (:{node.name} {{{cells}}})")
    for edge in catalog.edges:
        columns = ", ".join(["id STRING", *_columns(edge.properties)])
        ends = f"FROM {edge.source} TO {edge.target}"
        connection.execute(f"CREATE REL TABLE {edge.name}({ends}, {columns})")
        for one in graph.edges[edge.name]:
            cells = _cells({"id": one.id, **one.properties}, edge.properties)
            connection.execute(
                f"MATCH (a:{edge.source} {{id: {literal(one.source)}}}),"
                f" (b:{edge.target} {{id: {literal(one.target)}}})"
                f" CREATE (a)-[:{edge.name} {{{cells}}}]->(b)"
            )
    return connection


def _columns(properties: Sequence[Property]) -> list[str]:
    return [f"{each.name} {_type(each.type)}" for each in properties if not each.type.is_vector]


def _cells(record: Mapping[str, Value], properties: Sequence[Property]) -> str:
    names = ["id", *(each.name for each in properties if not each.type.is_vector)]
    known = {each: record.get(each) for each in names}
    return ", ".join(f"{name}: {literal(each)}" for name, each in known.items() if each is not None)


def _type(kind: ValueType) -> str:
    base = kind.base
    assert isinstance(base, Scalar)
    name = {Scalar.STRING: "STRING", Scalar.BOOL: "BOOL"}.get(base)
    name = name or ("DOUBLE" if base in FLOATS else "INT64")
    return f"{name}[]" if kind.is_list else name


def literal(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            quoted = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{quoted}'"
        case tuple() if value:
            return f"[{', '.join(map(literal, value))}]"
        case tuple():
            return "CAST([] AS STRING[])"
        case float():
            return f"CAST({value!r} AS DOUBLE)"
        case int():
            return str(value)


def cypher_of(
    query: ir.Read, catalog: Catalog, parameters: Mapping[str, Value], now_ms: int
) -> str:
    """The rows of the read, in any order. Raises Unsayable."""
    bound = (query.limit, query.offset, query.stage, query.having)
    if query.unions or any(each is not None for each in bound):
        raise Unsayable
    speaker = _Speaker(catalog, parameters, now_ms)
    clauses = list(speaker.clauses(query.steps))
    outputs = ", ".join(speaker.output(each) for each in query.outputs)
    return f"{' '.join(clauses)} RETURN {outputs}"


class _Speaker:
    def __init__(self, catalog: Catalog, parameters: Mapping[str, Value], now_ms: int) -> None:
        self._catalog = catalog
        self._parameters = parameters
        self._now_ms = now_ms
        self._bound: set[str] = set()

    # steps

    def clauses(self, steps: Sequence[ir.Step]) -> Iterator[str]:
        for step in steps:
            if isinstance(step, ir.Optionally):
                raise Unsayable
            patterns, conditions = self._spell([step])
            start = f"MATCH {', '.join(patterns)}" if patterns else "WITH *"
            yield f"{start}{_where(conditions)}"

    def _spell(self, steps: Sequence[ir.Step]) -> tuple[list[str], list[str]]:
        """Patterns, and what is asked of them."""
        patterns: list[str] = []
        conditions: list[str] = []
        for step in steps:
            match step:
                case ir.Scan(variable, type_name, filters):
                    patterns.append(f"({_name(variable)}:{type_name})")
                    self._bound.add(variable)
                    conditions += map(self.condition, filters)
                case ir.Expand():
                    self._walk(step, patterns, conditions)
                    conditions += map(self.condition, step.filters)
                case ir.Where(condition):
                    conditions.append(self.condition(condition))
                case ir.Within(inner):
                    conditions.append(self._block("EXISTS", inner))
                case ir.Without(inner):
                    conditions.append(f"NOT {self._block('EXISTS', inner)}")
                case ir.Measured(inner, aggregate, comparator, bound):
                    is_count = isinstance(aggregate.argument, ir.Constant)
                    if aggregate.function is not AggregateFunction.COUNT or not is_count:
                        raise Unsayable
                    if aggregate.distinct or base_of(bound) in FLOATS:
                        raise Unsayable
                    found = self._block("COUNT", inner)
                    sign = comparator.value.replace("!=", "<>")
                    conditions.append(f"({found} {sign} {self.operand(bound)})")
                case _:
                    raise Unsayable
        return patterns, conditions

    def _block(self, word: str, steps: Sequence[ir.Step]) -> str:
        outside = set(self._bound)
        patterns, conditions = self._spell(steps)
        self._bound = outside
        if not patterns:
            raise Unsayable
        return f"{word} {{ MATCH {', '.join(patterns)}{_where(conditions)} }}"

    def _walk(self, step: ir.Expand, patterns: list[str], conditions: list[str]) -> None:
        source, target = _name(step.source), _name(step.target)
        if step.target not in self._bound:
            patterns.append(f"({target}:{step.target_type})")
            self._bound.add(step.target)
        if step.edge_variable is not None:
            if step.direction is Direction.BOTH:
                raise Unsayable  # a self-loop would be there twice
            edge = f"[{_name(step.edge_variable)}:{step.edge}]"
            patterns.append(_arrow(step.direction, source, edge, target))
            return
        if source == target:
            raise Unsayable
        conditions.append(self._distance(step, source, target))

    def _distance(self, step: ir.Expand, source: str, target: str) -> str:
        edge = self._catalog.edge(step.edge)
        assert edge is not None
        low, high = step.hops_low, step.hops_high
        if edge.source != edge.target:
            if low != 1:
                raise Unsayable
            return self._reaches(step, source, target, 1)
        if high is None or high > HOPS_MAX:
            raise Unsayable
        apart = self._reaches(step, source, target, high)
        if low > 1:
            apart += f" AND NOT {self._reaches(step, source, target, low - 1)}"
        is_same = f"{source}.id = {target}.id"
        here = {0: "true", 1: self._reaches(step, source, target, 1)}.get(low, "false")
        return f"(({is_same} AND {here}) OR (NOT {is_same} AND {apart}))"

    def _reaches(self, step: ir.Expand, source: str, target: str, most: int) -> str:
        edge = f"[:{step.edge}]" if most == 1 else f"[:{step.edge}*1..{most}]"
        return f"EXISTS {{ MATCH {_arrow(step.direction, source, edge, target)} }}"

    # values

    def output(self, output: ir.Output) -> str:
        expression = output.expression
        match expression:
            case ir.Aggregate(function, argument, distinct):
                word = {AggregateFunction.COUNT, AggregateFunction.MIN, AggregateFunction.MAX}
                if function not in word or base_of(argument) is Scalar.BOOL:
                    raise Unsayable
                each = self.operand(argument)
                return f"{function.value}({'DISTINCT ' if distinct else ''}{each})"
            case ir.ObjectOf() | ir.Nearest() | ir.Bm25() | ir.Rrf():
                raise Unsayable
            case _:
                return self.operand(expression)

    def operand(self, operand: ir.Operand) -> str:
        match operand:
            case ir.Constant(value, kind):
                return self._typed(value, kind)
            case ir.ParameterRef(name, kind):
                return self._typed(self._parameters.get(name), kind)
            case ir.Now():
                return str(self._now_ms)
            case ir.IdOf(variable):
                return f"{_name(variable)}.id"
            case ir.PropertyOf(variable, name, kind):
                if name in ("src", "dst", ir.TYPE_COLUMN) or isinstance(kind.base, Vector):
                    raise Unsayable
                return f"{_name(variable)}.{name}"
            case ir.Truth(condition):
                return f"({self.condition(condition)})"
            case _:
                raise Unsayable

    def _typed(self, value: Value, kind: ValueType | None) -> str:
        if kind is None or not isinstance(kind.base, Scalar):
            raise Unsayable
        return f"CAST(NULL AS {_type(kind)})" if value is None else literal(value)

    def condition(self, condition: ir.Condition) -> str:
        match condition:
            case ir.Compare(left, comparator, right):
                kinds = base_of(left), base_of(right)
                if any(a in INTEGERS and b in FLOATS for a, b in (kinds, kinds[::-1])):
                    raise Unsayable
                sign = comparator.value.replace("!=", "<>")
                return f"({self.operand(left)} {sign} {self.operand(right)})"
            case ir.Member(needle, tuple() as options) if options:
                equal = (ir.Compare(needle, ir.Comparator.EQ, each) for each in options)
                return f"({' OR '.join(map(self.condition, equal))})"
            case ir.StringMatch(subject, test, pattern):
                word = "CONTAINS" if test is ir.StringTest.CONTAINS else "STARTS WITH"
                return f"({self.operand(subject)} {word} {self.operand(pattern)})"
            case ir.NullTest(operand, negated):
                return f"({self.operand(operand)} IS {'NOT ' if negated else ''}NULL)"
            case ir.Not(test):
                return f"(NOT {self.condition(test)})"
            case ir.AllOf(conditions) if conditions:
                return f"({' AND '.join(map(self.condition, conditions))})"
            case ir.AnyOf(conditions) if conditions:
                return f"({' OR '.join(map(self.condition, conditions))})"
            case _:
                raise Unsayable


def _name(variable: str) -> str:
    return variable.replace(ir.WILDCARD_PREFIX, "any")


def _arrow(direction: Direction, source: str, edge: str, target: str) -> str:
    head, tail = (
        ("<" if direction is Direction.IN else ""),
        (">" if direction is Direction.OUT else ""),
    )
    return f"({source}){head}-{edge}-{tail}({target})"


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
