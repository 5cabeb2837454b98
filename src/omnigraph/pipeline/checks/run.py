"""The rules of a load, checked on Spark: first the prefilter, then joins for what it leaves.

1. Most loads break no rule, and the prefilter proves that without a join. All rules that are left
   are joined in one job that only tells which of them are broken, because a job costs more than
   most joins. The broken ones are joined once more for their faults.
2. Rules that held before are checked again only if the table that they read has moved (D5).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as f

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import CheckResult
from omnigraph.engine.write.row_rules import KeyRule
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.broken_rules import report_broken
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.conditions import JOB, find_doubtful
from omnigraph.pipeline.checks.joins import RuleJoins
from omnigraph.pipeline.checks.key_frames import KeyFrames, union
from omnigraph.pipeline.checks.key_texts import KeyTexts, LoadKeys
from omnigraph.pipeline.spark.jobs import failing_as

JOINS_PER_JOB: Final = 32
"""Beyond this, planning a job takes longer than running two."""


def check_rules(
    spark: SparkSession,
    load: LoadKeys,
    committed: CommittedKeys,
    pins: Mapping[TableKey, Pin],
    moved: Collection[TableKey] | None = None,
) -> CheckResult:
    """Check the rules of a load against the pinned tables; after `moved`, only those that read a
    moved table (2). Raises JobFailed.
    """
    read = load.tables_read
    keys = KeyTexts(load, committed, {key: pins[key] for key in read})
    due = [each for each in load.rules if moved is None or load.read_by(each) & {*moved}]
    doubtful = find_doubtful(committed.run, keys, due)
    if not doubtful:
        return CheckResult(tables_read=read)
    joins = RuleJoins(load, KeyFrames(spark, keys))
    with failing_as(JOB):
        return report_broken(load, joins, find_broken(joins, doubtful))


def find_broken(joins: RuleJoins, rules: Iterable[KeyRule]) -> list[tuple[KeyRule, DataFrame]]:
    """(1) The rules whose frames are not empty, with these frames."""
    framed = [(rule, joins.find(rule)) for rule in rules]
    found: set[int] = set()
    numbered = [frame.select(f.lit(at).alias("rule")) for at, (_, frame) in enumerate(framed)]
    for begin in range(0, len(numbered), JOINS_PER_JOB):
        some = union(numbered[begin : begin + JOINS_PER_JOB])
        assert some is not None
        (row,) = some.agg(f.collect_set("rule").alias("rules")).collect()
        found |= set(row["rules"])
    return [each for at, each in enumerate(framed) if at in found]
