"""Expressions on Spark: the evaluator of the engine, run by tasks over batches of their leaves.

Spark has functions of the same names, and each differs somewhere: overflow, case mapping,
calendars, patterns. So an expression is one function of Arrow columns for Spark, and its meaning
stays in one place. The leaves arrive as a struct, in the types that Spark has, and become stored
columns again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, functions as f
from pyspark.sql.pandas.types import to_arrow_type

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Value
from omnigraph.compiler.scalars import plain_type
from omnigraph.compiler.scope import leaves_of
from omnigraph.engine.query.columns.rows import ID
from omnigraph.engine.query.operators.conditions import (
    PredicateEvaluator,
    refuse_paths,
    refuse_text,
)
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.pipeline.datasource_schema import as_spark, spark_type
from omnigraph.pipeline.queries.rows import SparkRows

Leaf = ir.PropertyOf | ir.IdOf


def is_computed(operand: ir.Operand) -> bool:
    """Is the operand more than a leaf?"""
    return isinstance(operand, ir.Computed | ir.Choice | ir.Truth)


def computed_column(
    operand: ir.Operand, kind: ValueType, rows: SparkRows, execution: Execution
) -> Column:
    """An expression as a column of a result. It reads at least one column."""
    leaves = tuple(
        dict.fromkeys(
            each for each in leaves_of(operand) if isinstance(each, ir.PropertyOf | ir.IdOf)
        )
    )
    assert leaves, f"{operand} is the same for every row"
    cells = [
        rows.column(each.variable, _name(each)).alias(f"v{at}") for at, each in enumerate(leaves)
    ]
    # The stubs do not know arrow_udf yet.
    arrow_udf: Any = f.__dict__["arrow_udf"]
    function = arrow_udf(
        expression_task(operand, kind, leaves, dict(execution.parameters)),
        spark_type(arrow_type(kind)),
    )
    found: Column = function(f.struct(*cells))
    return found


def expression_task(
    operand: ir.Operand, kind: ValueType, leaves: tuple[Leaf, ...], parameters: Mapping[str, Value]
) -> "Callable[[pa.Array[Any]], pa.Array[Any]]":
    wanted = to_arrow_type(spark_type(arrow_type(kind)))
    evaluator = PredicateEvaluator(parameters, refuse_text, refuse_paths)

    def compute(cells: "pa.Array[Any]") -> "pa.Array[Any]":
        assert isinstance(cells, pa.StructArray)
        batch = _Batch(leaves, cells)
        return as_spark(evaluator.column(operand, batch, kind), wanted)

    compute.__annotations__ = {"cells": pa.Array, "return": pa.Array}  # Spark reads them
    return compute


@dataclass(frozen=True, slots=True)
class _Batch:
    """The leaves of some rows, as stored columns."""

    leaves: tuple[Leaf, ...]
    cells: pa.StructArray

    @property
    def count(self) -> int:
        return len(self.cells)

    def column(self, variable: str, name: str) -> "pa.Array[Any]":
        for at, leaf in enumerate(self.leaves):
            if (leaf.variable, _name(leaf)) == (variable, name):
                return _stored(self.cells.field(at), leaf.type)
        raise AssertionError(f"${variable}.{name} is not a leaf")


def _name(leaf: Leaf) -> str:
    return ID if isinstance(leaf, ir.IdOf) else leaf.name


def _stored(cells: "pa.Array[Any]", of: ValueType) -> "pa.Array[Any]":
    """A column as a table stores it, from the type that Spark has for it."""
    stored = arrow_type(of)
    if of.base is not Scalar.DATETIME:
        return cells.cast(stored)
    if not of.is_list:
        return cells.cast(pa.timestamp("ms", tz="UTC")).view(pa.int64()).view(stored)
    listed: Any = cells.cast(pa.list_(pa.timestamp("ms", tz="UTC")))
    values = listed.values.view(pa.int64())
    mask = listed.is_null() if listed.null_count else None
    lists: Any = pa.ListArray
    plain = lists.from_arrays(listed.offsets, values, plain_type(of), mask=mask)
    found: pa.Array[Any] = plain.view(stored)
    return found
