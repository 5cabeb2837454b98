"""Ranks on the driver: an index there finds the best candidates, and Spark reads the winners.

Candidates are the rows of a scan whose filters an index can apply; or the ids that Spark found, if
they are few. Without a limit a ranking would pass every row through the driver, and is refused.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import functions as f

from omnigraph.compiler import plan
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.engine.query.operators.pushdown import push
from omnigraph.engine.query.operators.rank import kept_by
from omnigraph.engine.search.ranking import NOTHING, Candidates, Ranking
from omnigraph.errors import UsageError
from omnigraph.pipeline.queries.rows import PLACE, SCORE, Names, SparkRows

CANDIDATES_MAX: Final = 1_000_000
"""How many ids the driver ranks."""


def rank(
    operator: plan.TopRanked, rows: SparkRows, execution: Execution, names: Names
) -> SparkRows:
    """The rows of the best nodes, with their place and score. Raises UsageError."""
    if operator.limit is None or execution.count_of(operator.limit) is None:
        raise UsageError(
            "a ranking without a limit would pass every row through the driver of Spark; "
            "give the query a limit, or run it without Spark"
        )
    found = _rank(operator, rows, execution)
    identity, place, score = names.many(3)
    table = pa.table(
        {
            identity: found.ids.cast(pa.string()),
            place: pa.array(range(len(found.ids)), pa.int64()),
            score: found.scores.cast(pa.float64()),
        }
    )
    best = rows.data.sparkSession.createDataFrame(table)
    joined = rows.data.join(
        f.broadcast(best), rows.column(operator.variable) == f.col(identity)
    ).drop(identity)
    own = {(operator.variable, PLACE): place, (operator.variable, SCORE): score}
    return SparkRows(joined, {**rows.names, **own})


def _rank(operator: plan.TopRanked, rows: SparkRows, execution: Execution) -> Ranking:
    execution.bind(operator.variable, execution.view.node(operator.type_name))
    candidates = _candidates(operator, rows, execution)
    if candidates is None:
        return NOTHING
    keep = kept_by(operator, execution)
    found = execution.rank(operator.variable, operator.by, candidates, keep)
    if len(found.ids) > CANDIDATES_MAX:
        raise UsageError(
            f"the ranking keeps {len(found.ids):,} nodes, and the driver of Spark takes "
            f"{CANDIDATES_MAX:,}; lower the limit, ask for rarer words, or run it without Spark"
        )
    return found


def _candidates(
    operator: plan.TopRanked, rows: SparkRows, execution: Execution
) -> Candidates | None:
    leaf = operator.input
    if isinstance(leaf, plan.NodeScan):
        pushed = push(leaf.filters, execution.parameters)
        if not leaf.filters or pushed.is_exact:
            return Candidates(pushed.where, None)
    column = rows.column(operator.variable)
    ids = rows.data.where(column.isNotNull()).select(column.alias("id")).distinct()
    found = ids.limit(CANDIDATES_MAX + 1).toArrow()["id"].combine_chunks()
    if len(found) > CANDIDATES_MAX:
        raise UsageError(
            f"the query leaves more than {CANDIDATES_MAX:,} nodes to rank, which is more than the "
            "driver of Spark takes; narrow it down before the ranking, or run it without Spark"
        )
    return Candidates(None, found) if len(found) else None
