"""How many rows each operator of a plan is expected to yield.

Expectations come from what is known without reading: the row counts of tables, the degrees and
values that the cache holds, and else the statistics of the graph. A filter is tried on a sample of
a column. A walk multiplies by the degree of its nodes as often as other walks lead to them, since
walks lead to nodes with many neighbours. An expectation decides nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.compiler import ir, plan
from omnigraph.compiler.scope import variables_of
from omnigraph.compiler.statistics import UNKNOWN, Departure, Statistics
from omnigraph.engine.query.columns.csr import Edges
from omnigraph.engine.query.columns.frame import Bound, Frame
from omnigraph.engine.query.columns.rows import ResidentRows
from omnigraph.engine.query.columns.view import EdgeView, TableView
from omnigraph.engine.query.operators.execution import Execution, columns_of

Weights = npt.NDArray[np.float64]

SAMPLED: Final = 1_024
"""So many rows of a column are tried against a filter."""

EQUAL_SHARE, RANGE_SHARE, BLOCK_SHARE = 0.1, 0.3, 0.5
"""What passes a condition of which nothing is known: equality, any other, a block."""

HOPS_MAX: Final = 16
"""After so many hops a search has reached what it can reach."""


@dataclass(slots=True)
class Estimator:
    """The expectations for one execution, before it runs."""

    execution: Execution
    statistics: Statistics = UNKNOWN
    _rows: dict[int, float] = field(default_factory=dict)
    _tables: dict[str, TableView] = field(default_factory=dict)
    _weights: dict[str, Weights] = field(default_factory=dict)
    """For a variable at the ends of walks: how often these meet at each node."""
    _met: dict[str, tuple[Departure, ...]] = field(default_factory=dict)
    """And by which departures they leave it."""

    def expect(self, root: plan.Operator) -> "dict[int, float]":
        """The expected rows by the identity of the operator."""
        self._expect(root, 1.0)
        return self._rows

    def _expect(self, operator: plan.Operator, given: float) -> float:
        found = self._rows_of(operator, given)
        self._rows[id(operator)] = found
        return found

    def _rows_of(self, operator: plan.Operator, given: float) -> float:
        match operator:
            case plan.OneRow() | plan.Given():
                return given
            case plan.NodeScan(type_name, variable, filters):
                table = self._bind(variable, self.execution.view.node(type_name))
                return table.row_count * self._share(filters)
            case plan.KeyLookup(type_name, variable, _, filters):
                table = self._bind(variable, self.execution.view.node(type_name))
                return min(1, table.row_count) * self._share(filters)
            case plan.Either(_, parts):
                return sum(self._expect(each, given) for each in parts)
            case plan.Stage(below, carried):
                self._rows |= self._apart().expect(below)
                for each in carried:
                    if len(each.types) == 1:
                        find = (
                            self.execution.view.edge
                            if each.kind == "edge"
                            else self.execution.view.node
                        )
                        self._bind(each.variable, find(each.types[0]))
                return self._rows[id(below)]
            case plan.Expand(input=below):
                return self._walk(operator, self._expect(below, given))
            case plan.ExpandAny(input=below, walks=walks):
                rows = self._expect(below, given)
                return sum(self._walk(each, rows) for each in walks)
            case plan.CrossJoin(left, right):
                return self._expect(left, given) * self._expect(right, 1.0)
            case plan.AntiJoin(below, inner) | plan.SemiJoin(below, inner):
                rows = self._expect(below, given)
                matched = min(1.0, self._expect(inner, rows) / max(rows, 1.0))
                share = matched if isinstance(operator, plan.SemiJoin) else 1 - matched
                return rows * max(share, 1 / SAMPLED)
            case plan.Measure(below, inner):
                rows = self._expect(below, given)
                self._expect(inner, rows)
                return rows * BLOCK_SHARE
            case plan.LeftJoin(below, inner):
                rows = self._expect(below, given)
                return max(rows, self._expect(inner, rows))
            case plan.Filter(below, conditions):
                rows = self._expect(below, given)
                return rows * self._share(conditions)
            case plan.EachPath(below):
                return self._expect(below, given)
            case plan.TopRanked(below) | plan.Sort(below) | plan.SortColumns(below):
                return self._expect(below, given)
            case plan.Union(left, right):
                self._rows |= self._apart().expect(right)
                return self._expect(left, given) + self._rows[id(right)]
            case plan.FilterColumns(below, conditions):
                return self._expect(below, given) * RANGE_SHARE ** len(conditions)
            case plan.Limit(below, offset, count):
                rows = self._expect(below, given)
                wanted = self.execution.count_of(count)
                start = self.execution.count_of(offset) or 0
                if wanted is None:
                    return max(0.0, rows - start)
                if isinstance(below, plan.Sort):  # it yields no more than the limit shows
                    self._rows[id(below)] = min(rows, start + wanted)
                return min(max(0.0, rows - start), wanted)
            case plan.Project(below):
                return self._expect(below, given)
            case plan.Aggregate(below, columns):
                keys = [each.expression for each in columns]
                return self._groups(self._expect(below, given), keys)
            case _:
                assert_never(operator)

    def _apart(self) -> "Estimator":
        return Estimator(self.execution.apart(), self.statistics)

    def _bind(self, variable: str, table: TableView) -> TableView:
        self._tables[variable] = self.execution.bind(variable, table)
        return table

    # walks

    def _walk(self, operator: plan.Expand, rows: float) -> float:
        view = self.execution.view
        edges = view.edge(operator.edge)
        assert isinstance(edges.type, EdgeType)
        source, target = view.node(edges.type.source), view.node(edges.type.target)
        is_back = operator.direction is ir.Direction.IN
        near, far = (target, source) if is_back else (source, target)
        if operator.mode is plan.WalkMode.NOTHING:
            return 0.0
        found = view.cache.find(("edges", EdgeView(edges, source, target, near).key))
        known = found if isinstance(found, Edges) else None
        leaving = Departure(operator.edge, operator.direction)
        degree = self._degree(operator.source, leaving, known, near, edges)
        back = self._degree(operator.target, leaving.reversed(), known, far, edges)
        usual = _mean(leaving.reversed(), far, edges)
        self._meet(operator.source, leaving, known)
        self._meet(operator.target, leaving.reversed(), known)
        if operator.edge_variable is not None:
            self._bind(operator.edge_variable, edges)
        if operator.closes:
            met = degree * (back / usual if usual else 1.0) / max(1, far.row_count)
            return rows * min(1.0, met) * self._share(operator.filters)
        self._bind(operator.target, far)
        if operator.mode is plan.WalkMode.SEARCH:
            degree = self._reached(operator, degree, far.row_count)
        return rows * degree * self._share(operator.filters)

    def _degree(
        self,
        variable: str,
        leaving: Departure,
        known: Edges | None,
        near: TableView,
        edges: TableView,
    ) -> float:
        """The mean degree of the nodes of a variable, as often as rows bind them."""
        if known is None:
            met = self._met.get(variable, ())
            return self.statistics.degree(leaving, _mean(leaving, near, edges), met)
        degrees = known.degrees(leaving.direction)
        weights = self._weights.get(variable)
        if weights is None or len(weights) != len(degrees) or not weights.sum():
            return float(degrees.mean()) if len(degrees) else 0.0
        return float(np.dot(weights, degrees) / weights.sum())

    def _meet(self, variable: str, leaving: Departure, known: Edges | None) -> None:
        """From now on, nodes with many edges of this departure have more rows."""
        self._met[variable] = (*self._met.get(variable, ()), leaving)
        if known is not None:
            degrees = known.degrees(leaving.direction).astype(np.float64)
            weights = self._weights.get(variable)
            if weights is not None and len(weights) == len(degrees):
                degrees *= weights
            self._weights[variable] = degrees

    def _reached(self, operator: plan.Expand, degree: float, nodes: int) -> float:
        hops = min(HOPS_MAX, self.execution.hops_high(operator))
        found = sum(degree**hop for hop in range(operator.hops_low, hops + 1))
        return min(float(nodes), found)

    # filters

    def _share(self, conditions: Sequence[ir.Condition]) -> float:
        """The share of rows that pass all conditions, as if these were independent."""
        share = 1.0
        for each in conditions:
            share *= self._share_of(each)
        return share

    def _share_of(self, condition: ir.Condition) -> float:
        variables = variables_of(condition)
        if len(variables) == 1 and not isinstance(condition, ir.TextMatch):
            (variable,) = variables
            tried = self._try(variable, condition)
            if tried is not None:
                return tried
            known = self._share_known(variable, condition)
            if known is not None:
                return known
        match condition:
            case ir.Compare(ir.IdOf(), ir.Comparator.NE, _):
                return 1.0
            case ir.Compare(_, ir.Comparator.EQ, _) | ir.Member():
                return EQUAL_SHARE
            case _:
                return RANGE_SHARE

    def _try(self, variable: str, condition: ir.Condition) -> float | None:
        """Of a sample of the whole table, how many rows pass; None if its columns are not kept."""
        table = self._tables.get(variable)
        columns = columns_of(variable, [condition])
        if table is None or not table.row_count or not table.is_resident(columns):
            return None
        step = max(1, table.row_count // SAMPLED)
        at = np.arange(0, table.row_count, step, dtype=np.int32)
        frame = Frame(len(at), {variable: Bound(table.resident, at)})
        passed = self.execution.keep((condition,), frame).count
        return max(passed, 0.5) / len(at)

    def _share_known(self, variable: str, condition: ir.Condition) -> float | None:
        table = self._tables.get(variable)
        if table is None:
            return None
        return self.statistics.share(table.type.name, condition, self.execution.value_of)

    # groups

    def _groups(
        self, rows: float, expressions: Collection[ir.Operand | ir.ObjectOf | ir.Aggregate]
    ) -> float:
        keys = [each for each in expressions if not isinstance(each, ir.Aggregate)]
        if not keys:
            return 1.0
        values = 1.0
        for each in keys:
            values *= self._distinct(each)
        # So many of the values are hit by rows that choose at random.
        return float(values * -np.expm1(-rows / max(values, 1.0)))

    def _distinct(self, key: ir.Operand | ir.ObjectOf) -> float:
        match key:
            case ir.IdOf(variable) | ir.ObjectOf(variable) if variable in self._tables:
                return float(max(1, self._tables[variable].row_count))
            case ir.PropertyOf(variable, name) if variable in self._tables:
                table = self._tables[variable]
                if not table.is_resident((name,)):
                    known = self.statistics.values.get((table.type.name, name))
                    return float(max(1, table.row_count if known is None else known.distinct))
                return float(max(1, _distinct_values(table.resident, name)))
            case _:
                return 1.0 / EQUAL_SHARE


def _mean(leaving: Departure, near: TableView, edges: TableView) -> float:
    sides = 2 if leaving.direction is ir.Direction.BOTH else 1
    return sides * edges.row_count / max(1, near.row_count)


def _distinct_values(rows: ResidentRows, name: str) -> int:
    if rows.is_coded(name):
        return len(rows.coded(name).dictionary)
    found = pc.count_distinct(rows.column(name), mode="all")
    return int(found.as_py())
