"""All input of a load, read exactly once: files by tasks of ours, data frames by Spark's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from omnigraph.pipeline.sources.delimited import CountQuotes
from omnigraph.pipeline.sources.splits import Split
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.stage.frames import FrameInput, read_frame
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import Item
from omnigraph.pipeline.stage.scratch import REACHING, answer_nothing


def session_of(items: Sequence[Item]) -> SparkSession | None:
    """The session that a data frame among the input belongs to."""
    frames = (item.source.data for item in items if isinstance(item.source.data, DataFrame))
    return next((each.sparkSession for each in frames), None)


@dataclass(frozen=True, slots=True)
class QuotesOnSpark:
    """`planning.QuoteCounter`, by one task for each split."""

    spark: SparkSession
    options: Mapping[str, str]

    def __call__(self, splits: Sequence[Split]) -> Sequence[int]:
        work = CountQuotes(tuple(splits), self.options)
        answers = run_tasks(self.spark, work, len(splits), job="looking for quotes")
        return [int(each["quotes"]) for each in answers]


def read_input(
    spark: SparkSession,
    work: Ingest,
    frames: Sequence[FrameInput],
    concurrency: int | None,
    marker: str | None,
) -> tuple[list[Split], list[dict[str, Any]]]:
    """Every split there was, in order, and what became of it.

    Raises FileUnreadable, JobFailed, and SparkUnusable where a worker does not see the marker.
    """
    found: list[tuple[Split, dict[str, Any]]] = []
    if work.splits:
        answers = run_tasks(
            spark,
            work,
            len(work.splits),
            job="reading the input",
            concurrency=concurrency,
            marker=marker,
        )
        found += zip(work.splits, answers, strict=True)
    elif marker is not None:
        run_tasks(spark, answer_nothing, 1, job=REACHING, marker=marker)
    for frame in frames:
        found += zip(*read_frame(frame, work), strict=True)
    found.sort(key=lambda each: each[0].number)
    return [split for split, _ in found], [answer for _, answer in found]
