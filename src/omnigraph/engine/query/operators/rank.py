"""The best nodes of a variable: full-text, vector, or both."""

from collections.abc import Callable

import numpy as np

from omnigraph.compiler import ir, plan
from omnigraph.engine.query.columns.frame import Bound, Frame, concat
from omnigraph.engine.query.columns.rows import ID, ORDER
from omnigraph.engine.query.columns.view import TableView
from omnigraph.engine.query.operators.execution import Execution, Frames, columns_of
from omnigraph.engine.query.operators.pushdown import push
from omnigraph.engine.query.operators.scan import at_ids
from omnigraph.engine.search.ranking import NOTHING, Candidates, Ranking
from omnigraph.engine.tables.arrays import Array, Mask, distinct, texts_of


def rank_scan(
    operator: plan.TopRanked, leaf: plan.NodeScan, execution: Execution, frames: Frames
) -> Frames:
    """Rank a scan: its filters select the candidates, and only the winners are read."""
    table = execution.bind(leaf.variable, execution.view.node(leaf.type_name))
    pushed = push(leaf.filters, execution.parameters)
    if leaf.filters and not pushed.is_exact:
        yield from rank_rows(operator, execution, frames, pushed.where)
        return
    passes = _filters_at_hand(leaf, execution, table)
    ranked = _rank(operator, execution, Candidates(pushed.where, None, passes))
    yield from at_ids(leaf, execution, table, texts_of(ranked.ids))


def _filters_at_hand(
    leaf: plan.NodeScan, execution: Execution, table: TableView
) -> Callable[[Array], Mask] | None:
    """Tells which ids pass the filters of a leaf, if that reads no table; else None."""
    columns = (ID, *columns_of(leaf.variable, leaf.filters))
    if not (leaf.filters and table.is_kept(ORDER) and table.is_resident(columns)):
        return None

    def passes(ids: Array) -> Mask:
        table.resident.load(columns)
        at = table.resident.find_in_order(ids)
        assert (at >= 0).all(), "a search finds rows of this version"
        frame = Frame(len(at), {leaf.variable: Bound(table.resident, at)})
        found = execution.predicates.all_hold(leaf.filters, frame)
        assert found is not None, "there are filters"
        return found

    return passes


def rank_rows(
    operator: plan.TopRanked, execution: Execution, frames: Frames, where: str | None = None
) -> Frames:
    """Rank the nodes of the rows, all of which pass `where`; keep every row of a winner."""
    held = [execution.memory.hold_frame("rank", each) for each in frames]
    if not held:
        execution.rankings[operator.variable] = NOTHING
        return
    frame = concat(held)
    bound = frame.bound[operator.variable]
    there = distinct(bound.at[bound.at >= 0])
    if not len(there):
        execution.rankings[operator.variable] = NOTHING
        return
    candidates = bound.rows.take(ID, there)
    ranked = _rank(operator, execution, Candidates(where, candidates))
    winners = np.zeros(len(bound.rows) + 1, np.bool_)
    winners[bound.rows.find(ranked.ids)] = True
    winners[-1] = False  # unbound
    yield frame.keep(winners[bound.at])


def _rank(operator: plan.TopRanked, execution: Execution, candidates: Candidates) -> Ranking:
    keep = kept_by(operator, execution)
    return execution.rank(operator.variable, operator.by, candidates, keep)


def kept_by(operator: plan.TopRanked, execution: Execution) -> int | None:
    """A text ranking keeps every match, unless no later operator can drop a row."""
    if isinstance(operator.by, ir.Bm25):
        return execution.best.get(operator.variable)
    limit = execution.count_of(operator.limit)
    if limit is None:
        return None
    return limit + (execution.count_of(operator.offset) or 0)
