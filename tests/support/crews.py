"""Merge workers without Spark: their tasks run in this process, one after the other."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.engine.merge.workers import MergeJob, Workers
from omnigraph.pipeline.branch_merge import Cut, TaskWorkers
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.stage.scratch import open_scratch
from omnigraph.pipeline.tasks import Work

TINY: Final = Cut(shares=3, rows_per_task=1)


def run_here(work: Work, count: int, what: str) -> list[dict[str, Any]]:
    """What tasks answer, as it would come back."""
    assert what, "whoever watches is told"
    return [json.loads(json.dumps(work(number))) for number in range(count)]


@dataclass
class Neighbours:
    """`engine.merge.workers.Bulk`: sent for however little there is to do."""

    rows_max: int = 0
    asked: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, job: MergeJob) -> Iterator[Workers]:
        self.asked.append(job.operation_id)
        with open_scratch(SparkSettings(), job.root, job.operation_id) as scratch:
            yield TaskWorkers(job, scratch, run_here, TINY)
