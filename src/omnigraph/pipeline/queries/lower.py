"""The operators of a plan as DataFrames.

Nothing runs while a plan is lowered, except what a ranking needs from the driver.
"""

from dataclasses import dataclass, field
from typing import Final, assert_never

from pyspark.sql import DataFrame, functions as f

from omnigraph.compiler import plan
from omnigraph.compiler.ir import CARRIED, STRING, TYPE_COLUMN, CarriedVariable
from omnigraph.compiler.plan import operators_in
from omnigraph.engine.query.columns.rows import ID
from omnigraph.engine.query.operators.execution import Execution, columns_of
from omnigraph.engine.query.operators.pushdown import push
from omnigraph.engine.query.operators.scan import key_id
from omnigraph.engine.tables import filters
from omnigraph.errors import UsageError
from omnigraph.pipeline.queries.columns import Shown, aggregate, project, sort, sort_groups
from omnigraph.pipeline.queries.conditions import all_hold, keep_groups
from omnigraph.pipeline.queries.joins import anti_join, left_join, measure, semi_join
from omnigraph.pipeline.queries.ranking import rank
from omnigraph.pipeline.queries.rows import Names, SparkRows, union, with_type
from omnigraph.pipeline.queries.scans import Scans
from omnigraph.pipeline.queries.walks import Walker

COUNT_MAX: Final = 2**31 - 1
"""Spark counts rows of a limit in 31 bits."""


@dataclass(slots=True)
class Lowering:
    """Lowers the plan of one execution."""

    scans: Scans
    execution: Execution
    names: Names = field(default_factory=Names)

    def table(self, operator: plan.Operator) -> Shown:
        """The columns that the top of a plan yields."""
        match operator:
            case plan.Project(given):
                return project(operator, self.rows(given), self.execution, self.names)
            case plan.Aggregate(given):
                return aggregate(operator, self.rows(given), self.execution, self.names)
            case plan.Union(left, right, distinct):
                one = self.table(left)
                other = Lowering(self.scans, self.execution.apart(), self.names).table(right)
                both = one.data.union(other.data)
                return Shown(both.distinct() if distinct else both, one.names)
            case plan.FilterColumns(given):
                return keep_groups(operator, self.table(given), self.execution)
            case plan.SortColumns(given):
                return sort_groups(operator, self.table(given))
            case plan.Limit(given):
                table = self.table(given)
                return Shown(self._limit(operator, table.data), table.names)
            case _:
                raise AssertionError(f"{type(operator).__name__} yields rows, not columns")

    def rows(self, operator: plan.Operator, outside: SparkRows | None = None) -> SparkRows:
        """The rows of an operator; `outside` are the rows of the operator `Given`."""
        match operator:
            case plan.OneRow():
                return self._one_row()
            case plan.Given():
                return outside or self._one_row()
            case plan.NodeScan() | plan.KeyLookup():
                return self._leaf(operator)
            case plan.Either():
                return self._either(operator)
            case plan.Stage():
                return self._stage(operator)
            case plan.Expand(input=given):
                walker = Walker(self.scans, self.names, self.execution)
                return walker.expand(operator, self.rows(given, outside))
            case plan.ExpandAny(input=given):
                walker = Walker(self.scans, self.names, self.execution)
                return walker.expand_any(operator, self.rows(given, outside))
            case plan.EachPath():
                raise AssertionError("a read with paths is refused before")
            case plan.CrossJoin(left, right):
                one, other = self.rows(left, outside), self.rows(right, outside)
                return SparkRows(one.data.crossJoin(other.data), {**one.names, **other.names})
            case plan.AntiJoin(given, inner, on):
                rows = self.rows(given, outside)
                return anti_join(operator, rows, self._inner(rows, inner, on), self.names)
            case plan.SemiJoin(given, inner, on):
                rows = self.rows(given, outside)
                return semi_join(operator, rows, self._inner(rows, inner, on), self.names)
            case plan.Measure(given, inner, on):
                rows = self.rows(given, outside)
                found = self._inner(rows, inner, on)
                return measure(operator, rows, found, self.execution, self.names)
            case plan.LeftJoin(given, inner, on):
                rows = self.rows(given, outside)
                return left_join(operator, rows, self._inner(rows, inner, on), self.names)
            case plan.Filter(given, conditions):
                rows = self.rows(given, outside)
                return rows.where(all_hold(conditions, rows, self.execution))
            case plan.TopRanked(given):
                return rank(operator, self.rows(given, outside), self.execution, self.names)
            case plan.Sort(given):
                return sort(operator, self.rows(given, outside), self.execution)
            case plan.Limit(given):
                self._bound_ranking(operator)
                rows = self.rows(given, outside)
                return SparkRows(self._limit(operator, rows.data), rows.names)
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

    def _one_row(self) -> SparkRows:
        one = self.scans.spark.range(1).select(f.lit(True).alias(self.names.fresh()))
        return SparkRows(one, {})

    def _leaf(self, operator: plan.NodeScan | plan.KeyLookup) -> SparkRows:
        type_ = self.scans.node(operator.type_name)
        read = columns_of(operator.variable, operator.filters)
        columns = tuple(dict.fromkeys((ID, *operator.columns, *read)))
        names = self.names.many(len(columns))
        data = self.scans.read(type_, columns, names, self._pushed(operator))
        own = {(operator.variable, name): at for name, at in zip(columns, names, strict=True)}
        rows = SparkRows(data, own)
        return rows.where(all_hold(operator.filters, rows, self.execution))

    def _either(self, operator: plan.Either) -> SparkRows:
        parts = [
            with_type(self._leaf(each), operator.variable, each.type_name, self.names)
            for each in operator.parts
        ]
        return union(parts, self.names)

    def _stage(self, operator: plan.Stage) -> SparkRows:
        """What a stage hands on: its values, its ids, and the columns that are joined to those."""
        table = Lowering(self.scans, self.execution.apart(), self.names).table(operator.input)
        is_limited = any(isinstance(each, plan.Limit) for each in operators_in(operator.input))
        # A block reads the rows once more, and a limit may then keep other ones.
        data = table.data.localCheckpoint(eager=False) if is_limited else table.data
        columns = [each.name for each in plan.columns_of(operator.input)]
        held = dict(zip(columns, table.names, strict=True))
        # Rows with the same values are the same to a block.
        row = self.names.fresh()
        rows = SparkRows(
            data.withColumn(row, f.struct(*table.names)),
            {(CARRIED, ID): row} | {(CARRIED, name): at for name, at in held.items()},
        )
        for each in operator.variables:
            own = {(each.variable, ID): held[each.id_column]}
            if len(each.types) > 1:
                own[each.variable, TYPE_COLUMN] = held[each.type_column]
            rows = self._with_columns(each, SparkRows(rows.data, {**rows.names, **own}))
        return rows

    def _with_columns(self, each: CarriedVariable, rows: SparkRows) -> SparkRows:
        """The rows with the columns of a node or an edge that is known by its id."""
        columns = [name for name in each.columns or () if not rows.has(each.variable, name)]
        if not columns:
            return rows
        find = self.scans.edge if each.kind == "edge" else self.scans.node
        parts: list[SparkRows] = []
        for type_name in each.types:
            names = self.names.many(1 + len(columns))
            data = self.scans.read(find(type_name), (ID, *columns), names)
            own = {("", name): at for name, at in zip((ID, *columns), names, strict=True)}
            parts.append(with_type(SparkRows(data, own), "", type_name, self.names))
        found = union(parts, self.names)
        on = rows.column(each.variable) == found.column("")
        if len(each.types) > 1:
            on &= rows.column(each.variable, TYPE_COLUMN) == found.column("", TYPE_COLUMN)
        more = {(each.variable, name): found.names["", name] for name in columns}
        return SparkRows(rows.data.join(found.data, on, "left"), {**rows.names, **more})

    def _pushed(self, operator: plan.NodeScan | plan.KeyLookup) -> str | None:
        where = push(operator.filters, self.execution.parameters).where
        if isinstance(operator, plan.NodeScan):
            return where
        wanted = key_id(operator, self.execution, self.execution.view.node(operator.type_name))
        if wanted is None:
            return filters.NOTHING
        found = filters.one_of(ID, STRING, (wanted,))
        return found if where is None else f"({found}) AND ({where})"

    def _inner(self, rows: SparkRows, inner: plan.Operator, on: tuple[str, ...]) -> SparkRows:
        """The rows of a block, for each binding of the variables that it shares."""
        return self.rows(inner, rows.distinct(on) if on else None)

    def _bound_ranking(self, operator: plan.Limit) -> None:
        """Ranked nodes come first, each with at least one row, so no more can be shown."""
        given = operator.input
        count = self.execution.count_of(operator.count)
        if isinstance(given, plan.Sort) and isinstance(given.input, plan.TopRanked):
            offset = self.execution.count_of(operator.offset) or 0
            if count is not None:
                self.execution.best[given.input.variable] = offset + count

    def _limit(self, operator: plan.Limit, data: DataFrame) -> DataFrame:
        offset = self.execution.count_of(operator.offset) or 0
        count = self.execution.count_of(operator.count)
        if max(offset, count or 0) > COUNT_MAX:
            raise UsageError(
                f"on Spark a limit and an offset are at most {COUNT_MAX:,}; leave the limit out"
            )
        if offset:
            data = data.offset(offset)
        return data if count is None else data.limit(count)
