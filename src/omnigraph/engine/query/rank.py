"""The best nodes of a variable: full-text, vector, or both."""

import numpy as np
import pyarrow as pa

from omnigraph.compiler import ir, plan
from omnigraph.engine.query.arrays import Array
from omnigraph.engine.query.execution import Execution, Frames, Ranked
from omnigraph.engine.query.frame import concat
from omnigraph.engine.query.pushdown import push
from omnigraph.engine.query.rows import ID
from omnigraph.engine.query.scan import at_ids
from omnigraph.engine.query.search import Candidates


def rank_scan(
    operator: plan.TopRanked, leaf: plan.NodeScan, execution: Execution, frames: Frames
) -> Frames:
    """Rank a scan: its filters come first, and only the winners are read."""
    table = execution.bind(leaf.variable, execution.view.node(leaf.type_name))
    pushed = push(leaf.filters, execution.parameters)
    if leaf.filters and not pushed.is_exact:
        yield from rank_rows(operator, execution, frames, pushed.where)
        return
    ranked = _rank(operator, execution, Candidates(pushed.where, None))
    yield from at_ids(leaf, execution, table, ranked.ids)


def rank_rows(
    operator: plan.TopRanked, execution: Execution, frames: Frames, where: str | None = None
) -> Frames:
    """Rank whoever is in the rows, all of whom a filter lets through; all rows of a winner stay."""
    held = [execution.memory.hold_frame("rank", each) for each in frames]
    if not held:
        execution.rankings[operator.variable] = _NOBODY
        return
    frame = concat(held)
    bound = frame.bound[operator.variable]
    there = np.unique(bound.at[bound.at >= 0])
    if not len(there):
        execution.rankings[operator.variable] = _NOBODY
        return
    candidates = bound.rows.take(ID, there)
    ranked = _rank(operator, execution, Candidates(where, candidates))
    winners = np.zeros(len(bound.rows) + 1, np.bool_)
    winners[bound.rows.find(ranked.ids)] = True
    winners[-1] = False  # nobody
    yield frame.keep(winners[bound.at])


_NOBODY = Ranked(pa.array([], pa.string()), pa.array([], pa.float64()))


def _rank(operator: plan.TopRanked, execution: Execution, candidates: Candidates) -> Ranked:
    found = execution.searching.rank(
        execution.searched(operator.variable),
        operator.by,
        execution.value_of,
        candidates,
        _kept(operator, execution),
    )
    ids: Array = found.ids
    ranked = Ranked(ids, found.scores)
    execution.rankings[operator.variable] = ranked
    return ranked


def _kept(operator: plan.TopRanked, execution: Execution) -> int | None:
    """A text ranking keeps every match; the limit cuts rows, of which a match may have many."""
    limit = execution.count_of(operator.limit)
    if isinstance(operator.by, ir.Bm25) or limit is None:
        return None
    return limit + (execution.count_of(operator.offset) or 0)
