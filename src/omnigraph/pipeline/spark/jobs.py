"""Running tasks on Spark: the driver sends numbers, and each task returns one JSON text.

A task is a plain Python function of its number (`pipeline.tasks`). Rows never pass through the JVM.
A job is collected exactly once, because a second collect would run it again, and it writes files.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, functions

from omnigraph.errors import FileUnreadable, JobFailed, SparkUnusable
from omnigraph.jsontext import read_json
from omnigraph.pipeline.settings import SCRATCH
from omnigraph.pipeline.spark.liveness import GONE, SPARK_ERRORS, is_lost
from omnigraph.pipeline.spark.progress import Rows, running
from omnigraph.pipeline.spark.worker_environment import REMEDY
from omnigraph.pipeline.tasks import RunTasks, Work


@dataclass(frozen=True, slots=True)
class SparkTask:
    """Work as it is sent to workers: our own errors return as JSON, not as tracebacks."""

    work: Work
    marker: str | None = None
    """A file that a worker sees if it sees what the driver sees (D22)."""
    rows: Rows | None = None

    def __call__(self, number: int) -> str:
        if self.marker is not None and not Path(self.marker).exists():
            return json.dumps({"unshared": str(Path(self.marker).parent)})
        # Tasks share the machine already; threads of their own would only wait for each other.
        pa.set_cpu_count(1)
        try:
            answer = self.work(number)
        except FileUnreadable as error:
            return json.dumps({"unreadable": error.path, "reason": error.reason})
        if self.rows is not None:
            self.rows.add(answer.get("rows", 0))
        return json.dumps(answer)


def run_tasks(
    spark: SparkSession,
    work: Work,
    count: int,
    *,
    job: str,
    concurrency: int | None = None,
    marker: str | None = None,
) -> list[dict[str, Any]]:
    """The answers of tasks 0 to `count`, in that order.

    Raises FileUnreadable, JobFailed, and SparkUnusable where a worker does not see the marker.
    """
    slots = min(count, concurrency or count)
    with failing_as(job) as seen:
        numbers = spark.range(0, count, 1, slots)
        task = functions.udf(SparkTask(work, marker, seen), "string", useArrow=False)
        task = task.asNondeterministic()
        rows = numbers.select("id", task("id").alias("answer")).collect()
    answers = [read_json(row["answer"]) for row in sorted(rows, key=lambda row: int(row["id"]))]
    for answer in answers:
        if "unshared" in answer:
            raise SparkUnusable(
                f"its workers do not see {answer['unshared']}; set {SCRATCH} to a folder that they "
                "do see, and keep the graph and its input where they reach them"
            )
        if "unreadable" in answer:
            raise FileUnreadable(answer["unreadable"], reason=answer["reason"])
    return answers


def spark_tasks(spark: SparkSession, concurrency: int | None = None) -> RunTasks:
    """`run_tasks` in one session, as the functions take it that do not know Spark."""

    def run(work: Work, count: int, job: str) -> list[dict[str, Any]]:
        return run_tasks(spark, work, count, job=job, concurrency=concurrency)

    return run


@contextmanager
def failing_as(job: str) -> Iterator[Rows | None]:
    """One job: a watcher sees its progress, and errors of Spark become ours. Raises JobFailed."""
    with telling(job), running(SparkSession.getActiveSession(), job) as rows:
        yield rows


@contextmanager
def telling(job: str) -> Iterator[None]:
    """Turn errors of Spark into ours. Raises JobFailed, SparkUnusable."""
    try:
        yield
    except SPARK_ERRORS as error:
        reason = GONE if is_lost() else reason_of(error)
        if "No module named 'omnigraph" in reason:
            raise SparkUnusable(
                f"its workers cannot run tasks of ours: {reason}; {REMEDY}"
            ) from error
        raise JobFailed(job, reason=reason) from error


def reason_of(error: Exception) -> str:
    """The last line of a worker's traceback, which names the error; or what Spark says first.

    Spark ends its own messages with the expression, underlined, and the stack of the JVM.
    """
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    is_own = lines[0].startswith("[") and not any(each.startswith("Traceback") for each in lines)
    return lines[0 if is_own else -1].strip()
