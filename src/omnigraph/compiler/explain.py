"""A plan as text, for people who wonder what their query will do.

The last operator stands on top; what it reads from hangs below it. Rows flow upwards. Under each
operator stand its conditions, the columns it hands on, and the access path it expects to use.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from omnigraph.catalog.model import WantedIndexKind
from omnigraph.catalog.names import spell_all, spelling_of
from omnigraph.compiler import ir, plan
from omnigraph.compiler.phrases import (
    conditions_text,
    expression_text,
    hops_text,
    measure_text,
    path_text,
    variable_text,
    variables_text,
)
from omnigraph.compiler.scope import operands_of
from omnigraph.compiler.statistics import Statistics

OperatorComment = Callable[[plan.Operator], str]
"""What to say about an operator beside its own line; perhaps nothing."""


def no_comment(operator: plan.Operator) -> str:  # noqa: ARG001 - there is nothing to say about any
    return ""


def explain(query: plan.Plan, comment: OperatorComment = no_comment) -> str:
    """Several lines, without a line break at the end."""
    match query:
        case plan.ReadPlan(root=root):
            return "\n".join((_title("read", query), *_tree(root, comment)))
        case plan.MutationPlan(statements=statements):
            return "\n".join((_title("mutation", query), *_statements(statements)))
        case _:
            assert_never(query)


def _title(kind: str, query: plan.Plan) -> str:
    parameters = ", ".join(f"${each.name}: {each.type}" for each in query.parameters)
    return f"{kind} {query.name}({parameters})"


# ── the tree ─────────────────────────────────────────────────────────────────────────────────────


def _tree(
    operator: plan.Operator, comment: OperatorComment, first: str = "", rest: str = ""
) -> Iterator[str]:
    """`first` leads the line of the operator itself, `rest` every line below it."""
    inputs = plan.inputs_of(operator)
    said = comment(operator)
    yield first + headline(operator) + (f"  [{said}]" if said else "")
    stem = "│" if inputs else " "
    yield from (f"{rest}{stem}    {each}" for each in _details(operator))
    for each in inputs[:-1]:
        yield from _tree(each, comment, rest + "├─ ", rest + "│  ")
    for each in inputs[-1:]:
        yield from _tree(each, comment, rest + "└─ ", rest + "   ")


def headline(operator: plan.Operator) -> str:
    match operator:
        case plan.OneRow():
            return "one row"
        case plan.Given(variables):
            return f"given {variables_text(variables)}"
        case plan.NodeScan(type_name, variable):
            return f"scan {variable_text(variable)}: {type_name}"
        case plan.KeyLookup(type_name, variable, key):
            parts = ", ".join(
                f"{ir.spell_column(each.column)} = {expression_text(each.value)}" for each in key
            )
            return f"look up {variable_text(variable)}: {type_name} by {parts}"
        case plan.Either(variable, parts):
            types = " | ".join(each.type_name for each in parts)
            return f"either {variable_text(variable)}: {types}"
        case plan.Stage():
            return f"go on with {_carried_text(operator)}"
        case plan.Expand():
            return _expand_headline(operator)
        case plan.ExpandAny():
            return _expand_any_headline(operator)
        case plan.EachPath(_, variable, path):
            return f"each path {variable_text(variable)} of {path_text(path)}"
        case plan.CrossJoin():
            return "cross join"
        case plan.AntiJoin(on=on):
            return f"anti join on {variables_text(on)}" if on else "anti join"
        case plan.SemiJoin(on=on):
            return f"semi join on {variables_text(on)}" if on else "semi join"
        case plan.Measure(_, _, on, aggregate, comparator, bound):
            asked = f"{measure_text(aggregate)} {comparator} {expression_text(bound)}"
            return f"keep where {asked}" + (f", for each {variables_text(on)}" if on else "")
        case plan.LeftJoin(on=on):
            return f"left join on {variables_text(on)}" if on else "left join"
        case plan.Filter(_, conditions) | plan.FilterColumns(_, conditions):
            return f"filter {conditions_text(conditions)}"
        case plan.TopRanked():
            return _rank_headline(operator)
        case plan.Sort() | plan.SortColumns():
            return f"sort by {_sort_text(operator)}"
        case plan.Limit(_, offset, count):
            return _limit_headline(offset, count)
        case plan.Union(distinct=distinct):
            return "union" if distinct else "union all"
        case plan.Project(_, columns):
            return f"project {', '.join(map(_column_text, columns))}"
        case plan.Aggregate(_, columns):
            return f"aggregate {', '.join(map(_column_text, columns))}"
        case _:
            assert_never(operator)


def _details(operator: plan.Operator) -> Iterator[str]:
    match operator:
        case plan.NodeScan(filters=filters, columns=columns, index=index):
            yield from _where(filters)
            yield _columns(columns)
            yield f"access: {_access(index)}"
        case plan.KeyLookup(filters=filters, columns=columns):
            yield from _where(filters)
            yield _columns(columns)
            yield "access: key lookup"
        case plan.Stage(_, carried):
            for each in carried:
                listed = ", ".join(each.columns or ()) or "id only"
                yield f"columns of {variable_text(each.variable)}: {listed}"
        case plan.ExpandAny():
            yield f"ways: {', '.join(map(_way_text, operator.ways))}"
            yield from _where(operator.filters)
            yield "closes a cycle" if operator.closes else _columns(operator.columns)
            if operator.edge_variable is not None:
                yield f"edge columns: {', '.join(operator.edge_columns) or 'id only'}"
            yield f"one row per {_unit(operator.mode)}"
        case plan.Expand():
            yield from _where(operator.filters)
            if operator.closes:
                yield "closes a cycle"
            else:
                yield _columns(operator.columns)
            if operator.edge_variable is not None:
                listed = ", ".join(operator.edge_columns) or "id only"
                yield f"edge columns: {listed}"
            yield f"one row per {_unit(operator.mode)}"
        case plan.LeftJoin(binds=binds):
            yield f"binds: {variables_text(binds)}"
        case plan.Sort(ties=ties, typed_ties=typed):
            types = f", type of {variables_text(typed)}" if typed else ""
            yield f"ties: id of {variables_text(ties)}{types}"
        case plan.SortColumns(plan.Union()):
            yield "ties: all columns"
        case plan.SortColumns():
            yield "ties: group key"
        case _:
            pass


def _carried_text(operator: plan.Stage) -> str:
    """What a stage hands on, as its `with` names it."""
    shown = []
    for each in plan.columns_of(operator.input):
        is_id = isinstance(each.expression, ir.IdOf) and each.expression.variable == each.name
        if is_id or ir.TYPE_COLUMN not in each.name:
            shown.append(f"${each.name}" if is_id else each.name)
    return ", ".join(shown)


def _access(index: tuple[str, WantedIndexKind] | None) -> str:
    """Whether an index has been built is known to the graph, not to its schema."""
    match index:
        case None:
            return "full scan"
        case (column, WantedIndexKind.BTREE):
            return f"btree index on {column}, or full scan"
        case (column, WantedIndexKind.FULL_TEXT):
            return f"full-text index on {column}"
        case (column, WantedIndexKind.VECTOR):
            return f"vector index on {column}"
        case _:
            assert_never(index)


def _where(filters: tuple[ir.Condition, ...]) -> Iterator[str]:
    if filters:
        yield f"where: {conditions_text(filters)}"


def _columns(columns: tuple[str, ...]) -> str:
    return f"columns: {', '.join(columns) or 'id only'}"


def _unit(mode: plan.WalkMode) -> str:
    match mode:
        case plan.WalkMode.EDGES:
            return "edge"
        case plan.WalkMode.NEIGHBOURS:
            return "distinct neighbour"
        case plan.WalkMode.SEARCH:
            return "distinct node, breadth-first"
        case plan.WalkMode.NOTHING:
            return "nothing: the edge cannot be chained"
        case _:
            assert_never(mode)


def _expand_headline(step: plan.Expand) -> str:
    arrow = _arrow(_walk_name(step, step.edge), step.direction)
    target = f"{variable_text(step.target)}: {step.target_type}"
    return f"expand {variable_text(step.source)} {arrow} {target}"


def _expand_any_headline(step: plan.ExpandAny) -> str:
    name = _walk_name(step, "|".join(step.edges))
    ways = {each.direction for each in step.ways}
    arrow = _arrow(name, ways.pop() if len(ways) == 1 else ir.Direction.BOTH)
    target = f"{variable_text(step.target)}: {' | '.join(step.target_types)}"
    return f"expand {variable_text(step.source)} {arrow} {target}"


def _walk_name(step: plan.Expand | plan.ExpandAny, edge: str) -> str:
    name = edge if step.edge_variable is None else f"${step.edge_variable}:{edge}"
    if (step.hops_low, step.hops_high) != (1, 1):
        name += hops_text(step.hops_low, step.hops_high)
    return name


def _way_text(way: ir.Way) -> str:
    return f"{way.source_type} {_arrow(way.edge, way.direction)} {way.target_type}"


def _arrow(name: str, direction: ir.Direction) -> str:
    match direction:
        case ir.Direction.OUT:
            return f"-{name}->"
        case ir.Direction.IN:
            return f"<-{name}-"
        case ir.Direction.BOTH:
            return f"<-{name}->"
        case _:
            assert_never(direction)


def _rank_headline(step: plan.TopRanked) -> str:
    by = expression_text(step.by)
    if isinstance(step.by, ir.Bm25):
        return f"rank {variable_text(step.variable)} by {by}, every match"
    counts = [_count(each) for each in (step.limit, step.offset) if each is not None]
    return f"rank {variable_text(step.variable)} by {by}, best {' + '.join(counts)}"


def _sort_text(operator: plan.Sort | plan.SortColumns) -> str:
    match operator:
        case plan.Sort(_, keys):
            return ", ".join(map(_key_text, keys))
        case plan.SortColumns(given, keys):
            names = [each.name for each in plan.columns_of(given)]
            return ", ".join(names[each.place] + _way(each) for each in keys)
        case _:
            assert_never(operator)


def _key_text(key: plan.ByValue | plan.ByRank) -> str:
    match key:
        case plan.ByValue(operand):
            return expression_text(operand) + _way(key)
        case plan.ByRank(variable):
            return f"rank of {variable_text(variable)}"
        case _:
            assert_never(key)


def _way(key: plan.ByValue | plan.ByColumn) -> str:
    return " desc" if key.descending else ""


def _limit_headline(offset: plan.Count | None, count: plan.Count | None) -> str:
    parts = [] if count is None else [f"limit {_count(count)}"]
    parts += [] if offset is None else [f"offset {_count(offset)}"]
    return ", ".join(parts)


def _count(count: plan.Count) -> str:
    return str(count) if isinstance(count, int) else expression_text(count)


def _column_text(column: plan.Column | plan.GroupColumn) -> str:
    text = expression_text(column.expression)
    return text if text in (f"${column.name}", column.name) else f"{text} as {column.name}"


# ── statistics ────────────────────────────────────────────────────────────────────────────────────


def known_of(root: plan.Operator, statistics: Statistics) -> str:
    """The statistics that speak of a plan."""
    edges: set[str] = set()
    properties: set[tuple[str, str]] = set()
    for each in plan.operators_in(root):
        match each:
            case plan.NodeScan(kind, _, filters) | plan.KeyLookup(kind, _, _, filters):
                properties.update(_tested(kind, filters))
            case plan.Expand():
                edges.add(each.edge)
                properties.update(_tested(each.target_type, each.filters))
            case plan.ExpandAny():
                edges.update(each.edges)
            case _:
                pass
    return statistics.known_of(edges, properties)


def _tested(kind: str, conditions: Sequence[ir.Condition]) -> Iterator[tuple[str, str]]:
    operands = [operand for each in conditions for operand in operands_of(each)]
    return ((kind, each.name) for each in operands if isinstance(each, ir.PropertyOf))


# ── statements ───────────────────────────────────────────────────────────────────────────────────


def _statements(statements: tuple[plan.StatementPlan, ...]) -> Iterator[str]:
    for number, statement in enumerate(statements, start=1):
        headline, *details = _statement_lines(statement)
        yield f"{number}. {headline}"
        yield from (f"     {each}" for each in details)


def _statement_lines(statement: plan.StatementPlan) -> Iterator[str]:
    match statement:
        case plan.InsertRow(kind, type_name, assignments, key):
            yield f"insert {kind} {type_name}"
            yield from _assignments(assignments)
            yield f"upsert: by key {spell_all(key)}" if key else "id: new"
        case plan.UpdateRows(type_name, assignments, where, by_key):
            yield f"update node {type_name} where {_predicate(where)}"
            yield from _assignments(assignments)
            yield _found(by_key=by_key)
        case plan.DeleteRows(kind, type_name, where, by_key, cascade):
            yield f"delete {kind} {type_name} where {_predicate(where)}"
            if cascade:
                yield f"and its edges: {', '.join(cascade)}"
            yield _found(by_key=by_key)
        case _:
            assert_never(statement)


def _assignments(assignments: tuple[ir.Assignment, ...]) -> Iterator[str]:
    return (f"{spelling_of(each.column)}: {expression_text(each.value)}" for each in assignments)


def _predicate(where: ir.Predicate) -> str:
    return f"{spelling_of(where.column)} {where.comparator} {expression_text(where.value)}"


def _found(*, by_key: bool) -> str:
    return f"access: {'key lookup' if by_key else 'full scan'}"
