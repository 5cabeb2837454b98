"""Blocks of a query: negations and optional blocks, joined to the rows around them by ids."""

from functools import reduce
from operator import and_

from pyspark.sql import Column, functions as f

from omnigraph.compiler import plan
from omnigraph.engine.query.rows import ID
from omnigraph.pipeline.queries.rows import Names, SparkRows


def anti_join(
    operator: plan.AntiJoin, rows: SparkRows, inner: SparkRows, names: Names
) -> SparkRows:
    """The rows for which the block yields nothing."""
    if not operator.on:
        some = inner.data.limit(1).select(f.lit(True).alias(names.fresh()))
        return SparkRows(rows.data.join(some, f.lit(True), "left_anti"), rows.names)
    ids = names.many(len(operator.on))
    found = inner.data.select(*_aliased(inner, operator.on, ids)).distinct()
    return SparkRows(rows.data.join(found, _same(rows, operator.on, ids), "left_anti"), rows.names)


def left_join(
    operator: plan.LeftJoin, rows: SparkRows, inner: SparkRows, names: Names
) -> SparkRows:
    """Each row with every row of the block; once, with the block's variables unbound, if none."""
    ids = names.many(len(operator.on))
    bound = inner.of(operator.binds)
    found = inner.data.select(*_aliased(inner, operator.on, ids), *bound.values())
    joined = rows.data.join(found, _same(rows, operator.on, ids), "left").drop(*ids)
    return SparkRows(joined, {**rows.names, **bound})


def _aliased(rows: SparkRows, variables: tuple[str, ...], names: list[str]) -> list[Column]:
    return [
        rows.column(variable, ID).alias(name)
        for variable, name in zip(variables, names, strict=True)
    ]


def _same(rows: SparkRows, variables: tuple[str, ...], names: list[str]) -> Column:
    """Null with null: an unbound variable is a binding as well."""
    pairs = zip(variables, names, strict=True)
    return reduce(and_, (rows.column(a).eqNullSafe(f.col(b)) for a, b in pairs), f.lit(True))
