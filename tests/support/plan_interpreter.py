"""A slow, obvious interpreter of plans over dicts.

It checks lowering: a plan must give the same answer as the steps that it was made from. It shares
values, conditions and walks with the interpreter of steps. It implements for itself what lowering
decides: leaves, joins on ids, the place of ranking, columns, order and limits.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from omnigraph.compiler import ir, plan
from omnigraph.compiler.ir import Comparator, Value
from support.interpreter import Element, Execution, Graph, Row
from support.values import compare, sort_by, sort_key

Cells = tuple[Value, ...]


def run_plan(
    query: plan.ReadPlan, graph: Graph, parameters: Mapping[str, Value], now_ms: int
) -> list[Cells]:
    return _PlanExecution(Execution(graph, parameters, now_ms)).table(query.root)


class _PlanExecution:
    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.scores: dict[str, dict[str, float]] = {}
        """By ranked variable, then by id, best first."""

    # columns

    def table(self, operator: plan.Operator) -> list[Cells]:
        match operator:
            case plan.Project(given, columns):
                return [
                    tuple(self.cell(each.expression, row) for each in columns)
                    for row in self.rows(given)
                ]
            case plan.Aggregate(given, columns):
                return self.groups(self.rows(given), columns)
            case plan.Union(left, right, distinct):
                both = self.table(left) + _PlanExecution(self.execution).table(right)
                return list(dict.fromkeys(both)) if distinct else both
            case plan.FilterColumns(given, conditions):
                names = [each.name for each in plan.columns_of(given)]
                return [
                    cells
                    for cells in self.table(given)
                    if self.execution.holds(conditions, _as_row(names, cells))
                ]
            case plan.SortColumns(given, keys):
                return self.sort_columns(self.table(given), keys, list(plan.ties_of(given)))
            case plan.Limit(given, offset, count):
                table = self.table(given)
                return table[slice(*self.window(offset, count))]
            case _:
                raise AssertionError(f"{type(operator).__name__} yields rows, not columns")

    def cell(self, expression: ir.Operand | ir.ObjectOf | ir.Rank, row: Row) -> Value:
        if isinstance(expression, ir.ObjectOf):
            return self.execution.object(expression, row)
        if isinstance(expression, ir.Nearest | ir.Bm25 | ir.Rrf):
            ((variable, scores),) = self.scores.items()
            element = row[variable]
            return None if element is None else scores.get(element.id)
        return self.execution.value(expression, row)

    def groups(self, rows: list[Row], columns: tuple[plan.GroupColumn, ...]) -> list[Cells]:
        expressions = [each.expression for each in columns]
        keys = [each for each in expressions if not isinstance(each, ir.Aggregate)]
        groups: dict[Cells, list[Row]] = {} if keys else {(): []}
        for row in rows:
            key = tuple(self.cell(each, row) for each in keys)
            groups.setdefault(key, []).append(row)
        return [
            tuple(
                self.group_cell(each, dict(zip(keys, key, strict=True)), members)
                for each in expressions
            )
            for key, members in groups.items()
        ]

    def group_cell(
        self,
        expression: ir.Operand | ir.ObjectOf | ir.Aggregate,
        key: Mapping[ir.Operand | ir.ObjectOf, Value],
        members: list[Row],
    ) -> Value:
        if not isinstance(expression, ir.Aggregate):
            return key[expression]
        values = [self.execution.value(expression.argument, row) for row in members]
        return self.execution.aggregated(expression, values)

    def sort_columns(
        self, table: list[Cells], keys: tuple[plan.ByColumn, ...], ties: list[int]
    ) -> list[Cells]:
        for place in reversed(ties):
            table = sort_by(table, [cells[place] for cells in table], descending=False)
        for key in reversed(keys):
            column = [cells[key.place] for cells in table]
            table = sort_by(table, column, descending=key.descending)
        return table

    def window(self, offset: plan.Count | None, count: plan.Count | None) -> tuple[int, int | None]:
        start = self.execution.bound(offset) or 0
        length = self.execution.bound(count)
        return start, None if length is None else start + length

    # rows

    def rows(self, operator: plan.Operator, outside: Iterable[Row] = ()) -> list[Row]:
        """`outside` is what `Given` stands for."""
        match operator:
            case plan.OneRow():
                return [{}]
            case plan.Given():
                return list(outside)
            case plan.NodeScan(type_name, variable, filters, columns):
                return self.scan(type_name, variable, filters, columns)
            case plan.KeyLookup():
                return self.look_up(operator)
            case plan.Either(_, parts):
                return [row for each in parts for row in self.rows(each)]
            case plan.Stage(given, carried):
                table = _PlanExecution(self.execution).table(given)
                names = [each.name for each in plan.columns_of(given)]
                return list(self.execution.handed_on(carried, names, table))
            case plan.Expand(input=given):
                return self.expand(operator, self.rows(given, outside))
            case plan.ExpandAny(input=given):
                return self.expand_any(operator, self.rows(given, outside))
            case plan.EachPath(given, variable, path):
                step = ir.EachPath(variable, path)
                return self.execution.rows([step], self.rows(given, outside))
            case plan.CrossJoin(left, right):
                others = self.rows(right, outside)
                return [{**row, **other} for row in self.rows(left, outside) for other in others]
            case plan.AntiJoin(given, inner, on):
                found = self.inner_rows(rows := self.rows(given, outside), inner, on)
                return [row for row in rows if _binding(row, on) not in found]
            case plan.SemiJoin(given, inner, on):
                found = self.inner_rows(rows := self.rows(given, outside), inner, on)
                return [row for row in rows if _binding(row, on) in found]
            case plan.Measure(given, inner, on):
                found = self.inner_rows(rows := self.rows(given, outside), inner, on)
                return [
                    row
                    for row in rows
                    if self.measures(operator, row, found.get(_binding(row, on)))
                ]
            case plan.LeftJoin(given, inner, on, binds):
                found = self.inner_rows(rows := self.rows(given, outside), inner, on)
                nothing: list[Row] = [dict.fromkeys(binds)]
                return [
                    {**row, **other}
                    for row in rows
                    for other in found.get(_binding(row, on), nothing)
                ]
            case plan.Filter(given, conditions):
                rows = self.rows(given, outside)
                return [row for row in rows if self.execution.holds(conditions, row)]
            case plan.TopRanked(given):
                return self.top_ranked(operator, self.rows(given, outside))
            case plan.Sort(given, keys, ties, typed):
                rows = self.rows(given, outside)
                rows.sort(key=lambda row: [sort_key(_type(row[name])) for name in typed])
                return self.sort(rows, keys, ties)
            case plan.Limit(given, offset, count):
                return self.rows(given, outside)[slice(*self.window(offset, count))]
            case (
                plan.Project()
                | plan.Aggregate()
                | plan.Union()
                | plan.FilterColumns()
                | plan.SortColumns()
            ):
                raise AssertionError(f"{type(operator).__name__} yields columns, not rows")
            case _:
                assert_never(operator)

    def scan(
        self,
        type_name: str,
        variable: str,
        filters: tuple[ir.Condition, ...],
        columns: tuple[str, ...],
    ) -> list[Row]:
        return [
            {variable: node.only(columns)}
            for node in self.execution.nodes(type_name)
            if self.execution.holds(filters, {variable: node})
        ]

    def look_up(self, operator: plan.KeyLookup) -> list[Row]:
        wanted = {part.column: self.execution.value(part.value, {}) for part in operator.key}
        rows = self.scan(
            operator.type_name,
            operator.variable,
            operator.filters,
            (*operator.columns, *(name for name in wanted if name != "id")),
        )
        found: list[Row] = []
        for row in rows:
            node = row[operator.variable]
            assert node is not None
            held = {name: node.id if name == "id" else node.properties[name] for name in wanted}
            if all(compare(held[name], Comparator.EQ, wanted[name]) is True for name in wanted):
                found.append({operator.variable: node.only(operator.columns)})
        return found

    def expand(self, operator: plan.Expand, rows: list[Row]) -> list[Row]:
        step = ir.Expand(
            operator.source,
            operator.edge,
            operator.direction,
            operator.target,
            operator.target_type,
            operator.hops_low,
            operator.hops_high,
            operator.edge_variable,
            operator.filters,
            operator.columns,
            operator.edge_columns,
        )
        assert all((operator.target in row) == operator.closes for row in rows)
        return [after for row in rows for after in self.execution.step(step, row)]

    def expand_any(self, operator: plan.ExpandAny, rows: list[Row]) -> list[Row]:
        step = ir.ExpandAny(
            operator.source,
            operator.ways,
            operator.target,
            operator.target_types,
            operator.hops_low,
            operator.hops_high,
            operator.edge_variable,
            operator.filters,
            operator.columns,
            operator.edge_columns,
        )
        assert all((operator.target in row) == operator.closes for row in rows)
        return [after for row in rows for after in self.execution.step(step, row)]

    def inner_rows(
        self, rows: list[Row], inner: plan.Operator, on: tuple[str, ...]
    ) -> dict[tuple[Element | None, ...], list[Row]]:
        given: dict[tuple[Element | None, ...], Row] = {}
        for row in rows:
            given.setdefault(_binding(row, on), {name: row[name] for name in on})
        found: dict[tuple[Element | None, ...], list[Row]] = {}
        for row in self.rows(inner, given.values()) if rows else ():
            found.setdefault(_binding(row, on), []).append(row)
        return found

    def measures(self, operator: plan.Measure, row: Row, members: list[Row] | None) -> bool:
        over = operator.aggregate
        values = [self.execution.value(over.argument, each) for each in members or ()]
        measured = self.execution.aggregated(over, values)
        return (
            compare(measured, operator.comparator, self.execution.value(operator.bound, row))
            is True
        )

    def top_ranked(self, operator: plan.TopRanked, rows: list[Row]) -> list[Row]:
        _, most = self.window(operator.offset, operator.limit)
        candidates = {node.id for row in rows if (node := row[operator.variable]) is not None}
        ranking = self.execution.ranking(operator.by, operator.type_name, candidates, most)
        self.scores[operator.variable] = dict(ranking)
        kept = self.scores[operator.variable]
        return [
            row for row in rows if (node := row[operator.variable]) is not None and node.id in kept
        ]

    def sort(
        self, rows: list[Row], keys: tuple[plan.ByValue | plan.ByRank, ...], ties: tuple[str, ...]
    ) -> list[Row]:
        rows = sorted(rows, key=lambda row: [sort_key(_id(row[name])) for name in ties])
        for key in reversed(keys):
            match key:
                case plan.ByValue(operand, descending):
                    cells = [self.execution.value(operand, row) for row in rows]
                    rows = sort_by(rows, cells, descending=descending)
                case plan.ByRank(variable):
                    places = {each: place for place, each in enumerate(self.scores[variable])}
                    cells = [places[_id(row[variable]) or ""] for row in rows]
                    rows = sort_by(rows, cells, descending=False)
                case _:
                    assert_never(key)
        return rows


def _as_row(names: list[str], cells: Cells) -> Row:
    record = dict(zip(names, cells, strict=True))
    return {ir.RESULT: Element(ir.RESULT, "", record)}


def _binding(row: Row, on: tuple[str, ...]) -> tuple[Element | None, ...]:
    return tuple(row[name] for name in on)


def _id(element: Element | None) -> str | None:
    return None if element is None else element.id


def _type(element: Element | None) -> str | None:
    return None if element is None else element.type_name
