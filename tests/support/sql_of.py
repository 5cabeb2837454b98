"""A read as one statement of SQL: every step is a table that the next one reads from.

A block starts from its rows, numbered; what it keeps or drops is told by these numbers. So nothing
is correlated, and each table is what the language says of that step. Walks of several hops are
recursive tables of distances. `create_tables` makes the tables of a graph.

Nulls are smallest (SQL leaves that open), and rows that are equal by `order` are told apart by the
identity of what they bind, as the language does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.compiler import ir
from omnigraph.compiler.ir import TYPE_COLUMN, AggregateFunction, Direction, Value
from omnigraph.compiler.resolve.context import share
from omnigraph.compiler.scope import bound_by, is_named
from support.interpreter import Graph
from support.sql_values import SETUP, Unsayable, Values, column, literal, sql_type

FAR = 20
"""Hops, for a walk without an upper bound: more than any of these graphs has nodes."""


def create_tables(database: duckdb.DuckDBPyConnection, catalog: Catalog, graph: Graph) -> None:
    """Without the edges that lead nowhere, which count as absent."""
    database.execute(SETUP)
    for node in catalog.nodes:
        rows: list[Mapping[str, Value]] = [
            {"id": each, **record} for each, record in graph.nodes[node.name].items()
        ]
        _create(database, f"node {node.name}", ("id",), node, rows)
    for edge in catalog.edges:
        sources, targets = graph.nodes[edge.source], graph.nodes[edge.target]
        rows = [
            {"id": each.id, "src": each.source, "dst": each.target, **each.properties}
            for each in graph.edges[edge.name]
            if each.source in sources and each.target in targets
        ]
        _create(database, f"edge {edge.name}", ("id", "src", "dst"), edge, rows)


def _create(
    database: duckdb.DuckDBPyConnection,
    name: str,
    system: Sequence[str],
    type_: NodeType | EdgeType,
    rows: Sequence[Mapping[str, Value]],
) -> None:
    fields: list[pa.Field[pa.DataType]] = [pa.field(each, pa.string()) for each in system]
    fields += [pa.field(each.name, _arrow_type(each.type)) for each in type_.properties]
    names = [each.name for each in fields]
    cells = [{each: row.get(each) for each in names} for row in rows]
    database.register("given", pa.Table.from_pylist(cells, pa.schema(fields)))
    database.execute(f'CREATE TABLE "{name}" AS FROM given')
    database.unregister("given")


def _arrow_type(kind: ValueType) -> pa.DataType:
    simple: dict[str, pa.DataType] = {
        "VARCHAR": pa.string(),
        "BOOLEAN": pa.bool_(),
        "DOUBLE": pa.float64(),
    }
    base = sql_type(kind).removesuffix("[]")
    found = simple.get(base, pa.int64())
    return pa.list_(found) if kind.is_list or isinstance(kind.base, Vector) else found


def sql_of(query: ir.Read, catalog: Catalog, parameters: Mapping[str, Value], now_ms: int) -> str:
    """Raises Unsayable where SQL cannot say it."""
    return _spell_read(query, catalog, Values(parameters, now_ms))


# ── the whole read ───────────────────────────────────────────────────────────────────────────────


def _spell_read(query: ir.Read, catalog: Catalog, values: Values) -> str:
    if query.unions:
        return _spell_union(query, catalog, values)
    steps = _Steps(catalog, values)
    rows = steps.add_all(query.steps, steps.add("SELECT 1 AS nothing"))
    if query.is_aggregate:
        chosen, ties = _spell_groups(query, rows, values)
    else:
        outputs = ", ".join(_spell_output(each, values) for each in query.outputs)
        chosen, ties = f"SELECT {outputs} FROM {rows}", list(_identity(query))
    order = [_key_of(each, query, values) for each in query.order]
    return f"{steps.spell()} {chosen} {_spell_order(query, order, ties, values)}"


def _spell_output(output: ir.Output, values: Values) -> str:
    expression = output.expression
    if isinstance(expression, ir.Nearest | ir.Bm25 | ir.Rrf):
        raise Unsayable
    assert not isinstance(expression, ir.Aggregate)
    return f'{values.operand(expression)} AS "{output.name}"'


def _key_of(ordering: ir.Ordering, query: ir.Read, values: Values) -> str:
    key = ordering.key
    if isinstance(key, ir.Nearest | ir.Bm25 | ir.Rrf):
        raise Unsayable
    if query.is_aggregate:
        places = [each.expression for each in query.outputs]
        return f'"{query.outputs[key if isinstance(key, int) else places.index(key)].name}"'
    expression = query.outputs[key].expression if isinstance(key, int) else key
    if isinstance(expression, ir.ObjectOf):
        return column(expression.variable, "id")
    assert not isinstance(expression, ir.Aggregate | ir.Nearest | ir.Bm25 | ir.Rrf)
    return values.operand(expression)


def _spell_order(query: ir.Read, keys: Sequence[str], ties: Sequence[str], values: Values) -> str:
    terms = [
        # A bare number would be the position of a column.
        f"({key}) {'DESC NULLS LAST' if each.descending else 'ASC NULLS FIRST'}"
        for key, each in zip(keys, query.order, strict=True)
    ]
    terms += [f"{each} ASC NULLS FIRST" for each in ties] if query.order else []
    limit, offset = values.count(query.limit), values.count(query.offset)
    parts = [
        f"ORDER BY {', '.join(terms)}" if terms else "",
        "" if limit is None else f"LIMIT {limit}",
        "" if offset is None else f"OFFSET {offset}",
    ]
    return " ".join(parts)


def _identity(query: ir.Read) -> Iterator[str]:
    """What tells rows apart: carried values, then ids in the order of names, then types."""
    if query.stage is not None:
        held = query.stage.variables
        known = {name for each in held for name in (each.id_column, each.type_column)}
        for output in query.stage.read.outputs:
            if output.name not in known:
                yield column(ir.CARRIED, output.name)
    names = sorted(each for each in bound_by(query.steps) if is_named(each) and each != ir.CARRIED)
    yield from (column(each, "id") for each in names)
    yield from (column(each, TYPE_COLUMN) for each in names)


def _spell_groups(query: ir.Read, rows: str, values: Values) -> tuple[str, list[str]]:
    keys = [
        at for at, each in enumerate(query.outputs) if not isinstance(each.expression, ir.Aggregate)
    ]
    outputs = ", ".join(
        f"{_spell_grouped(each, values)} AS {column(ir.RESULT, each.name)}"
        for each in query.outputs
    )
    groups = f"SELECT {outputs} FROM {rows}"
    if keys:
        groups += f" GROUP BY {', '.join(str(at + 1) for at in keys)}"
    names = ", ".join(f'{column(ir.RESULT, each.name)} AS "{each.name}"' for each in query.outputs)
    having = "" if query.having is None else f" WHERE {values.condition(query.having)}"
    return f"SELECT {names} FROM ({groups}){having}", [f'"{query.outputs[at].name}"' for at in keys]


def _spell_grouped(output: ir.Output, values: Values) -> str:
    expression = output.expression
    if isinstance(expression, ir.Aggregate):
        return spell_aggregate(expression, values)
    assert not isinstance(expression, ir.Nearest | ir.Bm25 | ir.Rrf)
    return values.operand(expression)


def spell_aggregate(aggregate: ir.Aggregate, values: Values) -> str:
    """`sum` is a float, and a list has no nulls."""
    argument = values.operand(aggregate.argument)
    each = f"DISTINCT {argument}" if aggregate.distinct else argument
    match aggregate.function:
        case AggregateFunction.SUM:
            return f"CAST(sum({each}) AS DOUBLE)"
        case AggregateFunction.COLLECT:
            kept = f"list({each}) FILTER ({argument} IS NOT NULL)"
            kind = sql_type(replace(aggregate.type, nullable=False))
            return f"CAST(coalesce(list_sort({kept}), []) AS {kind})"
        case AggregateFunction.STDDEV:
            return f"stddev_samp(CAST({argument} AS DOUBLE))"
        case AggregateFunction.PERCENTILE:
            assert aggregate.fraction is not None
            fraction = values.operand(aggregate.fraction)
            return f"quantile_cont(CAST({argument} AS DOUBLE), {fraction})"
        case function:
            return f"{function.value}({each})"


def _spell_union(query: ir.Read, catalog: Catalog, values: Values) -> str:
    alone = replace(query, order=(), limit=None, offset=None, unions=())
    kinds = [each.type for each in query.outputs]
    whole = _spell_part(alone, kinds, catalog, values)
    for each in query.unions:
        word = "UNION" if each.distinct else "UNION ALL"
        whole = f"({whole}) {word} ({_spell_part(each.read, kinds, catalog, values)})"
    names = [f'"{each.name}"' for each in query.outputs]
    keys: list[str] = []
    for ordering in query.order:
        assert isinstance(ordering.key, int)
        keys.append(names[ordering.key])
    return f"FROM ({whole}) {_spell_order(query, keys, names, values)}"


def _spell_part(part: ir.Read, kinds: Sequence[ValueType], catalog: Catalog, values: Values) -> str:
    """With the columns of the whole: those that hold nothing but null have a type too."""
    cells = ", ".join(
        f'CAST("{each.name}" AS {sql_type(kind)}) AS "{each.name}"'
        if isinstance(kind.base, Scalar | Vector)
        else f'"{each.name}"'
        for each, kind in zip(part.outputs, kinds, strict=True)
    )
    return f"SELECT {cells} FROM ({_spell_read(part, catalog, values)})"


# ── steps ────────────────────────────────────────────────────────────────────────────────────────


class _Steps:
    """A chain of tables, each made from the ones before it."""

    def __init__(self, catalog: Catalog, values: Values) -> None:
        self._catalog = catalog
        self._values = values
        self._tables: list[str] = []
        self._bound: set[str] = set()

    def spell(self) -> str:
        every = (f"t{at} AS MATERIALIZED ({sql})" for at, sql in enumerate(self._tables))
        return f"WITH {', '.join(every)}"

    def add(self, sql: str) -> str:
        self._tables.append(sql)
        return f"t{len(self._tables) - 1}"

    def add_all(self, steps: Sequence[ir.Step], rows: str) -> str:
        for step in steps:
            rows = self._add_step(step, rows)
            self._bound |= {*bound_by([step])}
        return rows

    def _add_step(self, step: ir.Step, rows: str) -> str:
        match step:
            case ir.Scan() | ir.ScanAny():
                types = (step.type_name,) if isinstance(step, ir.Scan) else step.types
                nodes = self._elements("node", step.variable, types)
                return self._keep(step.filters, self.add(f"FROM {rows}, ({nodes})"))
            case ir.Expand() | ir.ExpandAny():
                return self._keep(step.filters, self._add_walk(step, rows))
            case ir.Stage():
                return self._add_stage(step)
            case ir.Where(condition):
                return self._keep((condition,), rows)
            case ir.EachPath():
                raise Unsayable
            case _:
                return self._add_block(step, rows)

    def _keep(self, conditions: Sequence[ir.Condition], rows: str) -> str:
        if not conditions:
            return rows
        return self.add(f"FROM {rows} WHERE {self._values.condition(ir.AllOf(tuple(conditions)))}")

    def _elements(self, kind: str, variable: str, types: Sequence[str]) -> str:
        """The nodes or edges of these types, with what they share, as columns of a variable."""
        find = self._catalog.node if kind == "node" else self._catalog.edge
        found = [each for each in map(find, types) if each is not None]
        shared = found[0] if len(found) == 1 else share(found)
        names = ["id", *(["src", "dst"] if kind == "edge" else [])]
        names += [each.name for each in shared.properties]
        columns = ", ".join(f'"{each}" AS {column(variable, each)}' for each in names)
        own = column(variable, TYPE_COLUMN)
        return " UNION ALL ".join(
            f'SELECT {columns}, {literal(each)} AS {own} FROM "{kind} {each}"' for each in types
        )

    # blocks

    def _add_block(self, step: ir.Test | ir.Optionally, rows: str) -> str:
        number = f'"#{len(self._tables)}"'
        start = self.add(f"SELECT *, row_number() OVER () AS {number} FROM {rows}")
        outside = set(self._bound)
        inner = self.add_all(step.steps, start)
        self._bound = outside
        found = f"SELECT {number} FROM {inner}"
        match step:
            case ir.Within():
                kept = f"FROM {start} WHERE {number} IN ({found})"
            case ir.Without():
                kept = f"FROM {start} WHERE {number} NOT IN ({found})"
            case ir.Optionally():
                others = f"FROM {start} WHERE {number} NOT IN ({found})"
                kept = f"FROM {inner} UNION ALL BY NAME {others}"
            case ir.Measured():
                kept = self._measured(step, start, inner, number)
        return self.add(f"SELECT * EXCLUDE ({number}) FROM ({kept})")

    def _measured(self, step: ir.Measured, start: str, inner: str, number: str) -> str:
        over = spell_aggregate(step.aggregate, self._values)
        nothing = "0" if step.aggregate.function is AggregateFunction.COUNT else "NULL"
        measure = column("~measured", "value")
        groups = f"SELECT {number}, {over} AS {measure} FROM {inner} GROUP BY {number}"
        measured = ir.PropertyOf("~measured", "value", step.aggregate.type)
        condition = self._values.comparison(measured, step.comparator, step.bound)
        columns = f"a.* EXCLUDE ({number}), a.{number}, coalesce({measure}, {nothing}) AS {measure}"
        joined = (
            f"SELECT {columns} FROM {start} a LEFT JOIN ({groups}) b ON a.{number} = b.{number}"
        )
        return f"SELECT * EXCLUDE ({measure}) FROM ({joined}) WHERE {condition}"

    def _add_stage(self, stage: ir.Stage) -> str:
        inner = _spell_read(stage.read, self._catalog, self._values)
        names = (each.name for each in stage.read.outputs)
        columns = ", ".join(f'"{each}" AS {column(ir.CARRIED, each)}' for each in names)
        rows = self.add(f"SELECT {columns} FROM ({inner})")
        for each in stage.variables:
            held = self._elements(each.kind, each.variable, each.types)
            on = f"{column(each.variable, 'id')} = {column(ir.CARRIED, each.id_column)}"
            if len(each.types) > 1:
                own = column(each.variable, TYPE_COLUMN)
                on += f" AND {own} = {column(ir.CARRIED, each.type_column)}"
            rows = self.add(f"FROM {rows} LEFT JOIN ({held}) ON {on}")
        return rows

    # walks

    def _add_walk(self, step: ir.Expand | ir.ExpandAny, rows: str) -> str:
        types = step.target_types if isinstance(step, ir.ExpandAny) else (step.target_type,)
        ways = step.ways if isinstance(step, ir.ExpandAny) else (self._way(step),)
        if step.edge_variable is not None:
            pairs = self._edges(ways, step.edge_variable)
        elif (step.hops_low, step.hops_high) == (1, 1):
            pairs = self._pairs(ways)
        else:
            low, high = step.hops_low, step.hops_high
            if isinstance(step, ir.Expand) and ways[0].source_type != ways[0].target_type:
                high = 1  # such an edge leads out of the type that it starts from
            pairs = self._distances(ways, low, FAR if high is None else high)
        near = f"p.near_type = {column(step.source, TYPE_COLUMN)}"
        near += f" AND p.near = {column(step.source, 'id')}"
        hidden = "p.* EXCLUDE (near_type, near, far_type, far)" if step.edge_variable else ""
        found = self.add(pairs)
        own, kind = column(step.target, "id"), column(step.target, TYPE_COLUMN)
        far = f"p.far = {own} AND p.far_type = {kind}"
        if step.target in self._bound:
            columns = ", ".join(filter(None, ("r.*", hidden)))
            return self.add(f"SELECT {columns} FROM {rows} r JOIN {found} p ON {near} AND {far}")
        targets = self._elements("node", step.target, types)
        columns = ", ".join(filter(None, ("r.*", "t.*", hidden)))
        return self.add(
            f"SELECT {columns} FROM {rows} r JOIN {found} p ON {near} JOIN ({targets}) t ON {far}"
        )

    def _way(self, step: ir.Expand) -> ir.Way:
        edge = self._catalog.edge(step.edge)
        assert edge is not None
        source = edge.target if step.direction is Direction.IN else edge.source
        return ir.Way(source, step.edge, step.direction, step.target_type)

    def _pairs(self, ways: Sequence[ir.Way]) -> str:
        """Every node beside each of its neighbours, once."""
        return " UNION ".join(
            f'SELECT DISTINCT {_ends(way, turned=turned)} FROM "edge {way.edge}"'
            for way in ways
            for turned in _turns(way)
        )

    def _edges(self, ways: Sequence[ir.Way], variable: str) -> str:
        """Every edge; undirected, a self-loop counts once."""
        names = sorted({each.edge for each in ways})
        elements = self._elements("edge", variable, names)
        own = f"{column(variable, TYPE_COLUMN)}"
        src, dst = column(variable, "src"), column(variable, "dst")
        parts = []
        for way in ways:
            for turned in _turns(way):
                ends = _ends(way, turned=turned, src=src, dst=dst)
                is_again = way.direction is Direction.BOTH and turned
                again = f" AND {src} <> {dst}" if is_again else ""
                where = f"{own} = {literal(way.edge)}{again}"
                parts.append(f"SELECT {ends}, e.* FROM ({elements}) e WHERE {where}")
        return " UNION ALL ".join(parts)

    def _distances(self, ways: Sequence[ir.Way], low: int, high: int) -> str:
        """Pairs whose distance is within bounds; a loop at the start is one hop."""
        pairs = self.add(self._pairs(ways))
        types = sorted({each for way in ways for each in (way.source_type, way.target_type)})
        every = self._catalog.nodes if low == 0 else ()
        types = sorted({*types, *(each.name for each in every)})
        starts = " UNION ALL ".join(
            f'SELECT {literal(each)} AS near_type, id AS near FROM "node {each}"' for each in types
        )
        walk = (
            f"WITH RECURSIVE d AS (SELECT near_type, near, near_type AS far_type, near AS far,"
            f" 0 AS hops FROM ({starts}) UNION SELECT d.near_type, d.near, p.far_type, p.far,"
            f" hops + 1 FROM d JOIN {pairs} p ON p.near_type = d.far_type AND p.near = d.far"
            f" WHERE hops < {high}) SELECT near_type, near, far_type, far FROM d GROUP BY ALL"
            f" HAVING min(hops) BETWEEN {low} AND {high}"
        )
        columns = "near_type, near, far_type, far"
        loops = f"SELECT {columns} FROM {pairs} WHERE near_type = far_type AND near = far"
        return f"({walk}) UNION ({loops})" if low == 1 else walk


def _turns(way: ir.Way) -> tuple[bool, ...]:
    """Is the edge walked against the way it points?"""
    match way.direction:
        case Direction.OUT:
            return (False,)
        case Direction.IN:
            return (True,)
        case Direction.BOTH:
            return (False, True)


def _ends(way: ir.Way, *, turned: bool, src: str = "src", dst: str = "dst") -> str:
    near, far = (dst, src) if turned else (src, dst)
    types = f"{literal(way.source_type)} AS near_type, {literal(way.target_type)} AS far_type"
    return f"{types}, {near} AS near, {far} AS far"
