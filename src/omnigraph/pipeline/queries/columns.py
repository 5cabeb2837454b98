"""The top of a plan: rows become columns, and groups are aggregated and sorted."""

from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import Column, DataFrame, functions as f

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.types import INTEGERS, Struct, ValueType
from omnigraph.compiler import ir, plan
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import AggregateFunction
from omnigraph.compiler.scope import ranked_variable
from omnigraph.engine.query.operators.aggregate import fraction_of
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.pipeline.datasource_schema import spark_type
from omnigraph.pipeline.queries.rows import PLACE, SCORE, Names, SparkRows
from omnigraph.pipeline.queries.terms import result_of


@dataclass(frozen=True, slots=True)
class Shown:
    """The columns of a result, under names of ours and in order."""

    data: DataFrame
    names: tuple[str, ...]


def project(operator: plan.Project, rows: SparkRows, execution: Execution, names: Names) -> Shown:
    shown = names.many(len(operator.columns))
    made = [
        _cell(each, rows, execution).cast(spark_type(arrow_type(each.type))).alias(name)
        for each, name in zip(operator.columns, shown, strict=True)
    ]
    return Shown(rows.data.select(*made), tuple(shown))


def _cell(column: plan.Column, rows: SparkRows, execution: Execution) -> Column:
    match column.expression:
        case ir.Nearest() | ir.Bm25() | ir.Rrf() as by:
            return rows.column(ranked_variable(by), SCORE)
        case operand:
            return result_of(operand, column.type, rows, execution)


def sort(operator: plan.Sort, rows: SparkRows, execution: Execution) -> SparkRows:
    keys: list[Column] = []
    for key in operator.keys:
        match key:
            case plan.ByValue(ir.PropertyOf() | ir.IdOf() as operand, descending):
                name = operand.name if isinstance(operand, ir.PropertyOf) else "id"
                keys.append(_ordered(rows.column(operand.variable, name), descending=descending))
            case plan.ByValue(operand, descending) if not is_fixed(operand):
                kind = operand.type or ir.I64
                column = result_of(operand, kind, rows, execution)
                keys.append(_ordered(column, descending=descending))
            case plan.ByValue():
                pass  # one value for every row
            case plan.ByRank(variable):
                keys.append(rows.column(variable, PLACE))
            case _:
                assert_never(key)
    keys += [rows.column(variable).asc_nulls_first() for variable in operator.ties]
    keys += [rows.column(each, ir.TYPE_COLUMN).asc_nulls_first() for each in operator.typed_ties]
    return SparkRows(rows.data.orderBy(*keys), rows.names) if keys else rows


def _ordered(column: Column, *, descending: bool) -> Column:
    """Nulls are smallest."""
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


# ── groups ───────────────────────────────────────────────────────────────────────────────────────


def aggregate(
    operator: plan.Aggregate, rows: SparkRows, execution: Execution, names: Names
) -> Shown:
    """Group keys become columns first: Spark takes a number that it is given for a position."""
    shown = names.many(len(operator.columns))
    keys, functions, inputs = [], [], []
    for each, name in zip(operator.columns, shown, strict=True):
        wanted = spark_type(arrow_type(each.type))
        if isinstance(each.expression, ir.Aggregate):
            argument = each.expression.argument
            of = argument.type or ir.I64
            given = names.fresh()
            inputs.append(result_of(argument, of, rows, execution).alias(given))
            made = function_of(each.expression, f.col(given), of, execution)
            functions.append(made.cast(wanted).alias(name))
        else:
            inputs.append(result_of(each.expression, each.type, rows, execution).alias(name))
            keys.append(name)
    given_rows = rows.data.select(*inputs)
    grouped = given_rows.groupBy(*keys)
    data = grouped.agg(*functions) if functions else given_rows.dropDuplicates(keys)
    return Shown(data.select(*shown), tuple(shown))


def function_of(
    aggregate: ir.Aggregate, column: Column, of: ValueType, execution: Execution
) -> Column:
    match aggregate.function:
        case AggregateFunction.COUNT:
            return f.count_distinct(column) if aggregate.distinct else f.count(column)
        case AggregateFunction.SUM:
            return _sum(column, of, distinct=aggregate.distinct)
        case AggregateFunction.AVG:
            counted = f.count_distinct(column) if aggregate.distinct else f.count(column)
            total = _sum(column, of, distinct=aggregate.distinct)
            return f.when(counted > 0, total / counted)
        case AggregateFunction.MIN:
            return f.min(column)
        case AggregateFunction.MAX:
            return f.max(column)
        case AggregateFunction.COLLECT:
            values = f.collect_list(column)
            return f.sort_array(f.array_distinct(values) if aggregate.distinct else values)
        case AggregateFunction.STDDEV:
            return f.stddev_samp(column.cast("double"))
        case AggregateFunction.PERCENTILE:
            fraction = fraction_of(aggregate, execution)
            return f.percentile(column.cast("double"), f.lit(fraction))
        case _:
            assert_never(aggregate.function)


def _sum(column: Column, of: ValueType, *, distinct: bool) -> Column:
    """As doubles; distinct integers are told apart before they are rounded."""
    if not distinct:
        return f.sum(column.cast("double"))
    if of.base in INTEGERS:
        return f.sum_distinct(column.cast("decimal(20,0)")).cast("double")
    return f.sum_distinct(column.cast("double"))


def sort_groups(operator: plan.SortColumns, table: Shown) -> Shown:
    columns = plan.columns_of(operator.input)
    sortable = [
        f.col(name)["@id"] if each.type.is_struct else f.col(name)
        for name, each in zip(table.names, columns, strict=True)
    ]
    keys = [_ordered(sortable[each.place], descending=each.descending) for each in operator.keys]
    for place in plan.ties_of(operator.input):
        keys.append(sortable[place].asc_nulls_first())
        shown = columns[place].type.base
        if isinstance(shown, Struct) and ir.TYPE_COLUMN in dict(shown.fields):
            keys.append(f.col(table.names[place])[ir.TYPE_COLUMN].asc_nulls_first())
    return Shown(table.data.orderBy(*keys), table.names)
