"""All input of a load, read exactly once: files by tasks of ours, data frames by Spark's.

What looks up ends of edges is read last, when the nodes are known (`lookup_files`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from omnigraph.pipeline.sources.splits import Split
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.stage.frames import read_frame
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import FrameInput, Item, is_frame
from omnigraph.pipeline.stage.lookup_files import looks_up, write_lookup_files
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
    phases = _Phases(spark, concurrency, marker)
    late = [split for split in work.splits if looks_up(split)]
    late_frames = [frame for frame in frames if frame.mapping.lookups]
    plain = [split for split in work.splits if not looks_up(split)]
    found = phases.read(
        replace(work, splits=tuple(plain)), [each for each in frames if not each.mapping.lookups]
    )
    if late or late_frames:
        files = write_lookup_files(work, [answer for _, answer in found])
        filled = [replace(each, mapping=files.fill(each.mapping)) for each in late_frames]
        edges = replace(work, splits=tuple(files.fill_split(each) for each in late))
        found += phases.read(edges, filled)
    found.sort(key=lambda each: each[0].number)
    return [split for split, _ in found], [answer for _, answer in found]


@dataclass(frozen=True, slots=True)
class _Phases:
    spark: SparkSession
    concurrency: int | None
    marker: str | None

    def read(
        self, work: Ingest, frames: Sequence[FrameInput]
    ) -> list[tuple[Split, dict[str, Any]]]:
        found: list[tuple[Split, dict[str, Any]]] = []
        if work.splits:
            answers = run_tasks(
                self.spark,
                work,
                len(work.splits),
                job="reading the input",
                concurrency=self.concurrency,
                marker=self.marker,
            )
            found += zip(work.splits, answers, strict=True)
        elif self.marker is not None:
            run_tasks(self.spark, answer_nothing, 1, job=REACHING, marker=self.marker)
        for frame in frames:
            found += zip(*read_frame(frame, work), strict=True)
        return found
