"""The leaf that goes on from a finished table: `with { }`.

The table has a column with the id of each node that it hands on, and a column for each value. Nodes
are bound again by their ids, and their properties are fetched as for any look-up.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler import plan
from omnigraph.compiler.ir import CARRIED, CarriedVariable
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.frame import ROWS_MAX, Bound, Frame
from omnigraph.engine.query.columns.rows import Ordinals
from omnigraph.engine.query.columns.view import TableView
from omnigraph.engine.query.operators.execution import Execution, Frames
from omnigraph.engine.tables.arrays import Array, gather, numbers_of, one_chunk, pick, texts_of

ID_UNKNOWN: Final = -1


class CarriedRows:
    """The rows of a finished table; an ordinal is a position."""

    def __init__(self, table: pa.Table) -> None:
        self._columns = {name: one_chunk(table[name]) for name in table.column_names}
        self._count = table.num_rows

    def __len__(self) -> int:
        return self._count

    def take(self, name: str, at: Ordinals) -> Array:
        return gather(self._columns[name], at)

    def find(self, ids: Array) -> Ordinals:
        raise AssertionError(f"the rows of a stage have no ids, so {len(ids)} are not found")


def go_on(operator: plan.Stage, table: pa.Table, execution: Execution) -> Frames:
    rows = CarriedRows(table)
    for start in range(0, table.num_rows, ROWS_MAX):
        check_cancelled()
        part = table.slice(start, ROWS_MAX)
        at = np.arange(start, start + part.num_rows, dtype=np.int32)
        bound = {CARRIED: Bound(rows, at)}
        for each in operator.variables:
            bound[each.variable] = _bind(operator, each, part, execution)
        yield Frame(part.num_rows, bound)


def _bind(
    operator: plan.Stage, each: CarriedVariable, part: pa.Table, execution: Execution
) -> Bound:
    ids = one_chunk(part[each.id_column])
    if len(each.types) == 1:
        table = execution.bind(each.variable, _table(each, each.types[0], execution))
        return _bind_type(operator, each, table, ids, execution)
    names = one_chunk(part[each.type_column])
    found = execution.typed_rows(operator, each.variable, each.types)
    at = np.full(len(ids), ID_UNKNOWN, np.int32)
    for name in each.types:
        is_name = pc.equal(names, pa.scalar(name)).fill_null(False)
        mine = np.flatnonzero(numbers_of(is_name))
        if len(mine):
            table = _table(each, name, execution)
            own = _bind_type(operator, each, table, pick(ids, mine), execution)
            at[mine] = found.join(name, own).at
    return Bound(found, at)


def _bind_type(
    operator: plan.Stage,
    each: CarriedVariable,
    table: TableView,
    ids: Array,
    execution: Execution,
) -> Bound:
    known = texts_of(ids.drop_null())
    rows = execution.look_up(operator, each.variable, table, each.columns or (), known)
    return Bound(rows, rows.find(ids))


def _table(each: CarriedVariable, type_name: str, execution: Execution) -> TableView:
    view = execution.view
    return view.edge(type_name) if each.kind == "edge" else view.node(type_name)
