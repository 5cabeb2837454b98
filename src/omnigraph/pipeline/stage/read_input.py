"""All input of a load, read exactly once: files by tasks of ours, data frames by Spark's."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from omnigraph.pipeline.sources.splits import Split
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.stage.frames import read_frame
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import FrameInput, Item, is_frame
from omnigraph.pipeline.stage.worker_scratch import REACHING, answer_nothing


def session_of(items: Sequence[Item]) -> SparkSession | None:
    """The session that a data frame among the input belongs to."""
    frames = (item.source.data for item in items if is_frame(item.source.data))
    return next((each.sparkSession for each in frames), None)


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
