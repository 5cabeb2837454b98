"""Leaf operators: the scan of a table, and the look-up of one node by key."""

from collections.abc import Sequence

import numpy as np

from omnigraph.catalog.keys import KeyValue, derive_id
from omnigraph.catalog.model import NodeType
from omnigraph.compiler import ir, plan
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.frame import ROWS_MAX, Bound, Frame
from omnigraph.engine.query.columns.rows import ID, ResidentRows
from omnigraph.engine.query.columns.view import TableView
from omnigraph.engine.query.operators.conditions import fixed_value
from omnigraph.engine.query.operators.execution import Execution, Frames, RowRange, columns_of
from omnigraph.engine.query.operators.pushdown import push
from omnigraph.engine.search.ranking import Candidates
from omnigraph.engine.tables.arrays import texts_of
from omnigraph.errors import KeyInvalid

ROWS_EXPECTED: int = 1000
"""The estimated number of rows that pass a filter with an index."""


def scan(operator: plan.NodeScan, execution: Execution) -> Frames:
    table = execution.bind(operator.variable, execution.view.node(operator.type_name))
    columns = _columns(operator)
    view = execution.view
    is_resident = (
        view.prefers_resident_scan(table, columns)
        if operator.index is None
        else view.prefers_resident(table, columns, asked=ROWS_EXPECTED)
    )
    if is_resident:
        yield from _scan_resident(operator, execution, table)
    elif any(isinstance(each, ir.TextMatch) for each in operator.filters):
        yield from _scan_matches(operator, execution, table)
    else:
        view.charge_lookup(table, asked=ROWS_EXPECTED)
        yield from _scan_table(operator, execution, table)


def look_up(operator: plan.KeyLookup, execution: Execution) -> Frames:
    view = execution.view
    table = execution.bind(operator.variable, view.node(operator.type_name))
    wanted = key_id(operator, execution, table)
    if wanted is None:
        return
    known: ResidentRows | None = view.remembered("look up", operator)
    if known is None:
        yield from at_ids(operator, execution, table, [wanted])
        if view.prefers_resident(table, _columns(operator), asked=0):
            view.remember("look up", operator, table.resident)
        return
    place = known.find_one(wanted)
    if place >= 0:
        frame = Frame(1, {operator.variable: Bound(known, np.array([place], np.int32))})
        kept = execution.keep(operator.filters, frame) if operator.filters else frame
        if kept.count:
            yield kept


def at_ids(
    operator: plan.NodeScan | plan.KeyLookup,
    execution: Execution,
    table: TableView,
    ids: Sequence[str],
) -> Frames:
    """The rows of a leaf that have one of these ids, in the order of the ids."""
    rows = execution.look_up(operator, operator.variable, table, _columns(operator), ids)
    at = rows.find_texts(ids)
    kept = execution.keep(operator.filters, _frame(operator.variable, Bound(rows, at[at >= 0])))
    if kept.count:
        yield kept


def _columns(operator: plan.NodeScan | plan.KeyLookup) -> tuple[str, ...]:
    if not operator.filters:
        return operator.columns
    read = columns_of(operator.variable, operator.filters)
    return tuple(dict.fromkeys((*operator.columns, *read)))


def _frame(variable: str, bound: Bound) -> Frame:
    return Frame(len(bound.at), {variable: bound})


def _scan_resident(operator: plan.NodeScan, execution: Execution, table: TableView) -> Frames:
    table.resident.load(columns_of(operator.variable, operator.filters))
    for start in range(0, table.row_count, ROWS_MAX):
        check_cancelled()
        span = RowRange(operator.variable, table, start, min(start + ROWS_MAX, table.row_count))
        mask = execution.predicates.all_hold(operator.filters, span)
        if mask is None:
            at = np.arange(span.start, span.stop, dtype=np.int32)
        else:
            at = np.flatnonzero(mask).astype(np.int32) + np.int32(start)
        if len(at):
            yield _frame(operator.variable, Bound(table.resident, at))


def _scan_table(operator: plan.NodeScan, execution: Execution, table: TableView) -> Frames:
    rows = execution.fetched_rows(operator, operator.variable, table, _columns(operator))
    pushed = push(operator.filters, execution.parameters)
    # A block may run again, and then reads rows that it already fetched.
    keep = rows.add if len(rows) else rows.append
    for part in table.scan(rows.columns, pushed.where):
        before = rows.nbytes
        at = keep(part)
        execution.memory.hold("scan", rows.nbytes - before)
        frame = _frame(operator.variable, Bound(rows, at))
        kept = execution.keep(operator.filters, frame)
        if kept.count:
            yield kept


def _scan_matches(operator: plan.NodeScan, execution: Execution, table: TableView) -> Frames:
    """The rows that a text search finds, filtered by the other conditions."""
    rest = tuple(each for each in operator.filters if not isinstance(each, ir.TextMatch))
    clauses: Sequence[ir.TextMatch] = [
        each for each in operator.filters if isinstance(each, ir.TextMatch)
    ]
    candidates = Candidates(push(rest, execution.parameters).where, None)
    for each in clauses:
        candidates = Candidates(candidates.where, execution.match(each, candidates))
    assert candidates.ids is not None
    narrowed = plan.NodeScan(
        operator.type_name, operator.variable, rest, operator.columns, operator.index
    )
    yield from at_ids(narrowed, execution, table, texts_of(candidates.ids))


def key_id(operator: plan.KeyLookup, execution: Execution, table: TableView) -> str | None:
    """The id that the key values derive; None if no row can have it."""
    values: dict[str, KeyValue] = {}
    for part in operator.key:
        value = fixed_value(part.value, execution.parameters)
        if value is None:
            return None
        assert isinstance(value, str | int | float | bool), value
        values[part.column] = value
    if ID in values:
        return str(values[ID])
    assert isinstance(table.type, NodeType)
    try:
        return derive_id(table.type, values)
    except KeyInvalid:
        return None
