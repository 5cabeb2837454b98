"""The best nodes of a variable: full-text, vector, or both."""

import numpy as np

from omnigraph.compiler import ir, plan
from omnigraph.engine.query.execution import Execution, Frames
from omnigraph.engine.query.frame import concat
from omnigraph.engine.query.pushdown import push
from omnigraph.engine.query.rows import ID
from omnigraph.engine.query.scan import at_ids
from omnigraph.engine.search.ranking import NOTHING, Candidates, Ranking
from omnigraph.engine.tables.arrays import distinct, texts_of


def rank_scan(
    operator: plan.TopRanked, leaf: plan.NodeScan, execution: Execution, frames: Frames
) -> Frames:
    """Rank a scan: its filters select the candidates, and only the winners are read."""
    table = execution.bind(leaf.variable, execution.view.node(leaf.type_name))
    pushed = push(leaf.filters, execution.parameters)
    if leaf.filters and not pushed.is_exact:
        yield from rank_rows(operator, execution, frames, pushed.where)
        return
    ranked = _rank(operator, execution, Candidates(pushed.where, None))
    yield from at_ids(leaf, execution, table, texts_of(ranked.ids))


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
