"""Blocks of a query: negations and optional blocks, joined to the rows around them by ids."""

from functools import reduce
from operator import and_

from pyspark.sql import Column, functions as f

from omnigraph.catalog.arrow import arrow_type
from omnigraph.compiler import plan
from omnigraph.compiler.ir import I64, AggregateFunction
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.pipeline.datasource_schema import spark_type
from omnigraph.pipeline.queries.columns import function_of
from omnigraph.pipeline.queries.rows import Names, Property, SparkRows
from omnigraph.pipeline.queries.terms import compare, result_of, stored_term, term_of


def anti_join(
    operator: plan.AntiJoin, rows: SparkRows, inner: SparkRows, names: Names
) -> SparkRows:
    """The rows for which the block yields nothing."""
    return _matched(operator.on, rows, inner, names, "left_anti")


def semi_join(
    operator: plan.SemiJoin, rows: SparkRows, inner: SparkRows, names: Names
) -> SparkRows:
    """The rows for which the block yields something."""
    return _matched(operator.on, rows, inner, names, "left_semi")


def _matched(
    on: tuple[str, ...], rows: SparkRows, inner: SparkRows, names: Names, how: str
) -> SparkRows:
    if not on:
        some = inner.data.limit(1).select(f.lit(True).alias(names.fresh()))
        return SparkRows(rows.data.join(some, f.lit(True), how), rows.names)
    ids = names.many(len(rows.identity(on)))
    found = inner.data.select(*_aliased(inner, rows.identity(on), ids)).distinct()
    return SparkRows(rows.data.join(found, _same(rows, on, ids), how), rows.names)


def measure(
    operator: plan.Measure, rows: SparkRows, inner: SparkRows, execution: Execution, names: Names
) -> SparkRows:
    """The rows for which an aggregate over the block compares as wanted."""
    shared = rows.identity(operator.on)
    ids = names.many(len(shared))
    given, found = names.many(2)
    aggregate = operator.aggregate
    of = aggregate.argument.type or I64
    argument = result_of(aggregate.argument, of, inner, execution).alias(given)
    value = function_of(aggregate, f.col(given), of, execution).cast(
        spark_type(arrow_type(aggregate.type))
    )
    rows_of_block = inner.data.select(*_aliased(inner, shared, ids), argument)
    measured = rows_of_block.groupBy(*ids).agg(value.alias(found))
    joined = rows.data.join(measured, _same(rows, operator.on, ids), "left").drop(*ids)
    is_count = aggregate.function is AggregateFunction.COUNT
    column = f.coalesce(f.col(found), f.lit(0)) if is_count else f.col(found)
    left = stored_term(column, aggregate.type)
    after = SparkRows(joined, rows.names)
    right = term_of(operator.bound, after, execution)
    kept = joined.where(compare(left, operator.comparator, right)).drop(found)
    return SparkRows(kept, rows.names)


def left_join(
    operator: plan.LeftJoin, rows: SparkRows, inner: SparkRows, names: Names
) -> SparkRows:
    """Each row with every row of the block; once, with the block's variables unbound, if none."""
    shared = rows.identity(operator.on)
    ids = names.many(len(shared))
    bound = inner.of(operator.binds)
    found = inner.data.select(*_aliased(inner, shared, ids), *bound.values())
    joined = rows.data.join(found, _same(rows, operator.on, ids), "left").drop(*ids)
    return SparkRows(joined, {**rows.names, **bound})


def _aliased(rows: SparkRows, shared: list[Property], names: list[str]) -> list[Column]:
    return [rows.column(*each).alias(name) for each, name in zip(shared, names, strict=True)]


def _same(rows: SparkRows, variables: tuple[str, ...], names: list[str]) -> Column:
    """Null with null: an unbound variable is a binding as well."""
    pairs = zip(rows.identity(variables), names, strict=True)
    return reduce(and_, (rows.column(*a).eqNullSafe(f.col(b)) for a, b in pairs), f.lit(True))
