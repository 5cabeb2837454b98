"""Rows to columns."""

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.compiler import ir, plan
from omnigraph.compiler.scope import ranked_variable
from omnigraph.engine.query.execution import Execution, Frames
from omnigraph.engine.query.frame import Frame
from omnigraph.engine.query.sort import places_of
from omnigraph.engine.query.values import build_column, fixed_value, stored_column
from omnigraph.engine.tables.arrays import Array, gather


def project(operator: plan.Project, frames: Frames, execution: Execution) -> pa.Table:
    schema = pa.schema([(each.name, arrow_type(each.type)) for each in operator.columns])
    parts = []
    for frame in frames:
        arrays = [
            _column(each, frame, execution).cast(arrow_type(each.type)) for each in operator.columns
        ]
        part = pa.Table.from_arrays(arrays, schema=schema)
        execution.memory.hold("project", part.nbytes)
        parts.append(part)
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _column(column: plan.Column, frame: Frame, execution: Execution) -> Array:
    match column.expression:
        case ir.PropertyOf() | ir.IdOf() as operand:
            return stored_column(operand, frame)
        case ir.Constant() | ir.ParameterRef() | ir.Now() as operand:
            value = fixed_value(operand, execution.parameters)
            return build_column(value, frame.count, column.type)
        case ir.Nearest() | ir.Bm25() | ir.Rrf() as rank:
            variable = ranked_variable(rank)
            places = places_of(variable, frame, execution)
            scores = execution.rankings[variable].scores
            return gather(scores, places)
