"""Steps to operators, one for one. The passes have optimised the steps; lowering moves nothing.

Three things are decided that the steps leave open: how a scan reaches its nodes, what one row of an
expand stands for, and which variables tie a block to the rows around it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.compiler import ir, plan
from omnigraph.compiler.access import KeyPart, find_index, find_key, is_spelled_alike
from omnigraph.compiler.liveness import drop_unread
from omnigraph.compiler.scope import (
    bound_by,
    conjuncts_of,
    is_named,
    mentioned_in,
    operands_in,
    operands_of,
    ranked_variable,
    ranking_of,
    selected_by_rank,
    step_operands,
    variables_in,
    variables_of,
)
from omnigraph.ids import TypeKind


def lower(query: ir.Query, catalog: Catalog) -> plan.Plan:
    match query:
        case ir.Read():
            root = drop_unread(_lower_read(query, catalog))
            return plan.ReadPlan(query.name, query.parameters, root)
        case ir.Mutation():
            statements = tuple(_lower_statement(each, catalog) for each in query.statements)
            return plan.MutationPlan(query.name, query.parameters, statements)
        case _:
            assert_never(query)


# ── reads ────────────────────────────────────────────────────────────────────────────────────────


def _lower_read(query: ir.Read, catalog: Catalog) -> plan.Operator:
    if not query.unions:
        return _lower_part(query, catalog)
    first = replace(query, order=(), limit=None, offset=None, unions=())
    rows = _lower_part(first, catalog)
    for each in query.unions:
        rows = plan.Union(rows, _lower_part(each.read, catalog), each.distinct)
    if query.order:
        keys = [(each.key, each.descending) for each in query.order]
        columns = tuple(plan.ByColumn(at, way) for at, way in keys if isinstance(at, int))
        rows = plan.SortColumns(rows, columns)
    return _limited(query, rows)


def _lower_part(query: ir.Read, catalog: Catalog) -> plan.Operator:
    block = _Block(catalog, query)
    for step in query.steps:
        block.add(step)
    rank = ranking_of(query)
    rows = block.rows
    if rank is not None and selected_by_rank(query) is None:
        (type_name,) = block.types[ranked_variable(rank)]
        rows = _top_ranked(rows, query, rank, type_name)
    if query.is_aggregate:
        return _lower_groups(query, rows)
    if rank is not None:
        # The rank decides alone; further keys cannot matter, since no two nodes share a place.
        by_rank = plan.ByRank(ranked_variable(rank))
        ties = _ties(query, block.types)
        rows = plan.Sort(rows, (by_rank, *_carried_keys(query)), *ties)
    elif query.order:
        by_value = [_sort_key(query, each) for each in query.order]
        known = {each.operand for each in by_value}
        more = (each for each in _carried_keys(query) if each.operand not in known)
        rows = plan.Sort(rows, (*by_value, *more), *_ties(query, block.types))
    columns = tuple(map(_column, query.outputs))
    return plan.Project(_limited(query, rows), columns, _late_properties(query))


def _lower_groups(query: ir.Read, rows: plan.Operator) -> plan.Operator:
    groups: plan.Operator = plan.Aggregate(rows, tuple(map(_group_column, query.outputs)))
    if query.having is not None:
        groups = plan.FilterColumns(groups, conjuncts_of(query.having))
    if query.order:
        expressions = [each.expression for each in query.outputs]
        keys = (
            plan.ByColumn(
                each.key if isinstance(each.key, int) else expressions.index(each.key),
                each.descending,
            )
            for each in query.order
        )
        groups = plan.SortColumns(groups, tuple(keys))
    return _limited(query, groups)


def _top_ranked(
    rows: plan.Operator, query: ir.Read, rank: ir.Rank, type_name: str
) -> plan.TopRanked:
    variable = ranked_variable(rank)
    return plan.TopRanked(rows, variable, type_name, rank, query.limit, query.offset)


def _limited(query: ir.Read, rows: plan.Operator) -> plan.Operator:
    if query.limit is None and query.offset is None:
        return rows
    return plan.Limit(rows, query.offset, query.limit)


def _late_properties(query: ir.Read) -> tuple[ir.PropertyOf, ...]:
    """The returned properties that neither a step nor the order of a limited read uses."""
    if query.limit is None:
        return ()
    read = {each for step in query.steps for each in step_operands(step)}
    for ordering in query.order:
        key = ordering.key
        read |= set(operands_in(query.outputs[key].expression if isinstance(key, int) else key))
    returned = [each for output in query.outputs for each in operands_in(output.expression)]
    properties = [each for each in returned if isinstance(each, ir.PropertyOf)]
    return tuple(
        each
        for each in dict.fromkeys(properties)
        if each not in read and each.name != ir.TYPE_COLUMN and each.variable != ir.CARRIED
    )


def _ties(
    query: ir.Read, types: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The named variables, and those of them that have several types."""
    ties = tuple(sorted(filter(is_named, bound_by(query.steps))))
    return ties, tuple(each for each in ties if len(types[each]) > 1)


def _sort_key(query: ir.Read, ordering: ir.Ordering) -> plan.ByValue:
    key = ordering.key
    operand = query.outputs[key].expression if isinstance(key, int) else key
    if isinstance(operand, ir.ObjectOf):
        operand = ir.IdOf(operand.variable)
    assert not isinstance(operand, ir.Aggregate | ir.Nearest | ir.Bm25 | ir.Rrf), operand
    return plan.ByValue(operand, ordering.descending)


def _carried_keys(query: ir.Read) -> Iterator[plan.ByValue]:
    """The values that were handed on tell rows apart, before the ids do."""
    stage = query.stage
    if stage is None:
        return
    names = {each.id_column for each in stage.variables}
    names |= {each.type_column for each in stage.variables}
    for each in stage.read.outputs:
        if each.name not in names:
            yield plan.ByValue(ir.PropertyOf(ir.CARRIED, each.name, each.type), descending=False)


def _column(output: ir.Output) -> plan.Column:
    assert not isinstance(output.expression, ir.Aggregate), output
    return plan.Column(output.name, output.expression, output.type)


def _group_column(output: ir.Output) -> plan.GroupColumn:
    assert not isinstance(output.expression, ir.Nearest | ir.Bm25 | ir.Rrf), output
    return plan.GroupColumn(output.name, output.expression, output.type)


# ── steps ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Block:
    """A sequence of steps on its way to being a tree."""

    catalog: Catalog
    query: ir.Read
    rows: plan.Operator = field(default_factory=plan.OneRow)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What is bound so far, and to which types."""
    depth: int = 0

    def add(self, step: ir.Step) -> None:
        match step:
            case ir.Scan(variable, type_name):
                self._join(self._leaf(step))
                self.types[variable] = (type_name,)
            case ir.ScanAny(variable, types):
                self._join(self._either(step))
                self.types[variable] = types
            case ir.Stage(read, carried):
                assert isinstance(self.rows, plan.OneRow), "a stage is the first step"
                self.rows = plan.Stage(
                    _lower_read(read, self.catalog), tuple(map(self._carried, carried))
                )
                self.types |= {each.variable: each.types for each in carried}
                self.types[ir.CARRIED] = ()
            case ir.Expand():
                known = self._known_end(step)
                if known is not None:
                    self.rows = plan.CrossJoin(self.rows, known)
                    self.types[step.target] = (step.target_type,)
                self.rows = self._expand(step if known is None else replace(step, filters=()))
                self.types.setdefault(step.target, (step.target_type,))
                if step.edge_variable is not None:
                    self.types[step.edge_variable] = (step.edge,)
            case ir.ExpandAny():
                self.rows = self._expand_any(step)
                self.types.setdefault(step.target, step.target_types)
                if step.edge_variable is not None:
                    self.types[step.edge_variable] = step.edges
            case ir.EachPath(variable, path):
                self.rows = plan.EachPath(self.rows, variable, path)
                self.types[variable] = ()
            case ir.Where(condition):
                self.rows = self._filter(condition)
            case ir.Without(steps):
                inner, on = self._inner(steps)
                self.rows = plan.AntiJoin(self.rows, inner.rows, on)
            case ir.Within(steps):
                inner, on = self._inner(steps)
                self.rows = plan.SemiJoin(self.rows, inner.rows, on)
            case ir.Measured(steps, aggregate, comparator, bound):
                inner, on = self._inner(steps, variables_in(operands_in(aggregate)))
                self.rows = plan.Measure(self.rows, inner.rows, on, aggregate, comparator, bound)
            case ir.Optionally(steps):
                inner, on = self._inner(steps)
                binds = tuple(sorted(inner.types.keys() - self.types.keys()))
                self.rows = plan.LeftJoin(self.rows, inner.rows, on, binds)
                self.types |= inner.types
            case _:
                assert_never(step)

    def _inner(
        self, steps: Sequence[ir.Step], read: frozenset[str] = frozenset()
    ) -> "tuple[_Block, tuple[str, ...]]":
        on = tuple(sorted(self.types.keys() & (mentioned_in(steps) | read)))
        inner = _Block(
            self.catalog,
            self.query,
            plan.Given(on) if on else plan.OneRow(),
            dict(self.types),
            self.depth + 1,
        )
        for step in steps:
            inner.add(step)
        return inner, on

    def _carried(self, each: ir.CarriedVariable) -> ir.CarriedVariable:
        return replace(
            each, columns=tuple(self._shared_columns(each.columns, each.kind, each.types))
        )

    def _filter(self, condition: ir.Condition) -> plan.Filter:
        """Filters that follow each other are one."""
        parts = conjuncts_of(condition)
        if isinstance(self.rows, plan.Filter):
            return plan.Filter(self.rows.input, self.rows.conditions + parts)
        return plan.Filter(self.rows, parts)

    def _join(self, leaf: plan.Operator) -> None:
        is_first = self.rows == plan.OneRow()
        self.rows = leaf if is_first else plan.CrossJoin(self.rows, leaf)

    def _either(self, step: ir.ScanAny) -> plan.Operator:
        """A leaf for each type. Conditions on `@type` are evaluated behind them."""
        parts = [part for each in step.filters for part in conjuncts_of(each)]
        typed = tuple(each for each in parts if _reads_type(each))
        own = tuple(each for each in parts if each not in typed)
        operands = [each for condition in typed for each in operands_of(condition)]
        wanted = [name for name in step.types if _may_be(step.variable, name, typed)]
        columns = _without_type(step.columns)
        if columns is not None:
            columns = tuple(dict.fromkeys((*columns, *_names_read(operands, step.variable))))
        leaves = tuple(
            self._scan(ir.Scan(step.variable, name, own, columns), own)
            for name in wanted or step.types[:1]
        )
        either = plan.Either(step.variable, leaves)
        return plan.Filter(either, typed) if typed else either

    def _leaf(self, step: ir.Scan) -> plan.Operator:
        rank = ranking_of(self.query)
        is_ranked = self.depth == 0 and step.variable == selected_by_rank(self.query)
        if rank is None or not is_ranked:
            return self._scan(step, step.filters)
        filters = dict.fromkeys((*step.filters, *_conditions_on(step.variable, self.query.steps)))
        return _top_ranked(self._scan(step, tuple(filters)), self.query, rank, step.type_name)

    def _scan(
        self, step: ir.Scan, filters: tuple[ir.Condition, ...]
    ) -> plan.NodeScan | plan.KeyLookup:
        node = self.catalog.node(step.type_name)
        assert node is not None, step.type_name
        columns = step.columns
        if columns is None:
            columns = tuple(each.name for each in node.properties)
        key = find_key(filters, node)
        if key is not None:
            left = tuple(each for each in filters if not _is_part(each, key))
            return plan.KeyLookup(step.type_name, step.variable, key, left, columns)
        index = find_index(filters, node)
        return plan.NodeScan(step.type_name, step.variable, filters, columns, index)

    def _known_end(self, step: ir.Expand) -> plan.KeyLookup | None:
        """The node that a search leads to, if its key is known: then both ends are searched."""
        edge = self.catalog.edge(step.edge)
        assert edge is not None, step.edge
        mode = _mode(step, can_chain=edge.source == edge.target)
        if mode is not plan.WalkMode.SEARCH or step.target in self.types:
            return None
        found = self._scan(
            ir.Scan(step.target, step.target_type, step.filters, step.columns), step.filters
        )
        return found if isinstance(found, plan.KeyLookup) else None

    def _expand(self, step: ir.Expand) -> plan.Expand:
        node, edge = self.catalog.node(step.target_type), self.catalog.edge(step.edge)
        assert node is not None, step.target_type
        assert edge is not None, step.edge
        columns, edge_columns = step.columns, step.edge_columns
        if columns is None:
            columns = tuple(each.name for each in node.properties)
        if edge_columns is None:
            edge_columns = ("src", "dst", *(each.name for each in edge.properties))
        can_chain = edge.source == edge.target
        return plan.Expand(
            self.rows,
            step.source,
            step.edge,
            step.direction,
            step.target,
            step.target_type,
            _mode(step, can_chain=can_chain),
            step.hops_low,
            step.hops_high if can_chain else 1,
            step.edge_variable,
            step.target in self.types,
            step.filters,
            () if step.target in self.types else columns,
            () if step.edge_variable is None else edge_columns,
        )

    def _expand_any(self, step: ir.ExpandAny) -> plan.ExpandAny:
        """Every way is an expand of its own; a search mixes them."""
        closes = step.target in self.types
        read = [each for condition in step.filters for each in operands_of(condition)]
        columns = [] if closes else self._shared_columns(step.columns, "node", step.target_types)
        columns += _names_read(read, step.target)
        edge_columns: list[str] = []
        if step.edge_variable is not None:
            edge_columns = self._shared_columns(step.edge_columns, "edge", step.edges)
            edge_columns += _names_read(read, step.edge_variable)
        is_single = (step.hops_low, step.hops_high) == (1, 1)
        mode = plan.WalkMode.NEIGHBOURS if is_single else plan.WalkMode.SEARCH
        if step.edge_variable is not None:
            mode = plan.WalkMode.EDGES
        walked = plan.ExpandAny(
            self.rows,
            step.source,
            self.types[step.source],
            step.ways,
            step.target,
            step.target_types,
            mode,
            step.hops_low,
            step.hops_high,
            step.edge_variable,
            closes,
            step.filters,
            tuple(dict.fromkeys(columns)),
            tuple(dict.fromkeys(edge_columns)),
            (),
        )
        return replace(walked, walks=tuple(_way_alone(walked, each) for each in step.ways))

    def _shared_columns(
        self, columns: tuple[str, ...] | None, kind: TypeKind, names: tuple[str, ...]
    ) -> list[str]:
        """The columns that later steps read; before that is known, all that the types share."""
        if columns is not None:
            return list(_without_type(columns) or ())
        catalog = self.catalog
        found = [catalog.node(each) if kind == "node" else catalog.edge(each) for each in names]
        held = [{each.name for each in of.properties} for of in found if of is not None]
        ends = ["src", "dst"] if kind == "edge" else []
        return [*ends, *sorted(set.intersection(*held))]


def _way_alone(operator: plan.ExpandAny, way: ir.Way) -> plan.Expand:
    return plan.Expand(
        plan.Given((operator.source,)),
        operator.source,
        way.edge,
        way.direction,
        operator.target,
        way.target_type,
        operator.mode,
        1,
        1,
        operator.edge_variable,
        operator.closes,
        (),
        operator.columns,
        operator.edge_columns,
    )


def _names_read(operands: Iterable[ir.Operand], variable: str) -> list[str]:
    """The properties of a variable among these operands."""
    return [
        each.name
        for each in operands
        if isinstance(each, ir.PropertyOf)
        and each.variable == variable
        and each.name not in ("id", ir.TYPE_COLUMN)
    ]


def _without_type(columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(each for each in columns if each != ir.TYPE_COLUMN)


def _reads_type(condition: ir.Condition) -> bool:
    return any(
        isinstance(each, ir.PropertyOf) and each.name == ir.TYPE_COLUMN
        for each in operands_of(condition)
    )


def _may_be(variable: str, type_name: str, conditions: Iterable[ir.Condition]) -> bool:
    """Does no condition name another type?"""
    for each in conditions:
        match each:
            case ir.Compare(
                ir.PropertyOf(held, ir.TYPE_COLUMN), ir.Comparator.EQ, ir.Constant(str() as wanted)
            ) if held == variable and wanted != type_name:
                return False
            case _:
                pass
    return True


def _mode(step: ir.Expand, *, can_chain: bool) -> plan.WalkMode:
    if step.edge_variable is not None:
        return plan.WalkMode.EDGES
    if not can_chain and step.hops_low > 1:
        return plan.WalkMode.NOTHING
    if (step.hops_low, step.hops_high) == (1, 1) or not can_chain:
        return plan.WalkMode.NEIGHBOURS
    return plan.WalkMode.SEARCH


def _is_part(condition: ir.Condition, key: tuple[KeyPart, ...]) -> bool:
    match condition:
        case ir.Compare(ir.IdOf(), ir.Comparator.EQ, value):
            return KeyPart("id", value) in key
        case ir.Compare(ir.PropertyOf(name=name), ir.Comparator.EQ, value):
            return KeyPart(name, value) in key
        case _:
            return False


def _conditions_on(variable: str, steps: Sequence[ir.Step]) -> list[ir.Condition]:
    """The conditions on this variable alone that stand behind its scan.

    They narrow what is ranked, wherever they are written; behind the ranking they stand again, and
    are true by then.
    """
    found: list[ir.Condition] = []
    for step in steps:
        match step:
            case ir.Expand(filters=filters) | ir.ExpandAny(filters=filters):
                found += filters
            case ir.Where(condition):
                found += conjuncts_of(condition)
            case ir.Scan() | ir.ScanAny() | ir.Without() | ir.Within() | ir.Measured():
                pass
            case ir.Stage() | ir.EachPath() | ir.Optionally():
                pass
            case _:
                assert_never(step)
    return [each for each in found if variables_of(each) == {variable}]


# ── statements ───────────────────────────────────────────────────────────────────────────────────


def _lower_statement(statement: ir.Statement, catalog: Catalog) -> plan.StatementPlan:
    match statement:
        case ir.Insert(kind, type_name, assignments):
            return plan.InsertRow(kind, type_name, assignments, _key(kind, type_name, catalog))
        case ir.Update(type_name, assignments, where):
            by_key = _pins(where, _key("node", type_name, catalog))
            return plan.UpdateRows(type_name, assignments, where, by_key)
        case ir.Delete(kind, type_name, where):
            by_key = _pins(where, _key(kind, type_name, catalog))
            cascade = catalog.edges_at(type_name) if kind == "node" else ()
            edges = tuple(each.name for each in cascade)
            return plan.DeleteRows(kind, type_name, where, by_key, edges)
        case _:
            assert_never(statement)


def _key(kind: TypeKind, type_name: str, catalog: Catalog) -> tuple[str, ...]:
    found = catalog.node(type_name) if kind == "node" else catalog.edge(type_name)
    return () if found is None else found.key


def _pins(where: ir.Predicate, key: tuple[str, ...]) -> bool:
    is_equality = where.comparator is ir.Comparator.EQ
    return is_equality and key == (where.column,) and is_spelled_alike(where.type, where.value)
