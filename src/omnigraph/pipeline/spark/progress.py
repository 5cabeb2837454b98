"""A job of Spark while it runs: how far it is, and how it is cancelled.

Every job is a stage of the work (`engine.stages`). On classic Spark it has a group of its own:
the status tracker says how many tasks of it are done, tasks add up the rows they went through, and
an interrupted wait cancels it. On Spark Connect the server reports by itself, but not of rows, and
a tag takes the place of the group.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread
from typing import Any, Final

from pyspark import Accumulator, SparkContext, StatusTracker
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.effects import REAL
from omnigraph.engine.cancellation import stoppable
from omnigraph.engine.stages import StageRecord, stage
from omnigraph.pipeline.spark.liveness import SPARK_ERRORS

_POLL_SECONDS: Final = 0.25
_GROUP: Final = ("spark.jobGroup.id", "spark.job.description")


Rows = Accumulator[int]
"""A task adds the number of its rows, if there is a watcher."""


@contextmanager
def running(spark: SparkSession | None, job: str) -> Iterator[Rows | None]:
    """Calls of Spark inside belong to this job. An interrupted wait cancels it."""
    with stage(job) as record:
        if spark is None:
            yield None
        elif is_remote():
            with _on_connect(spark, record):
                yield None
        else:
            with _on_classic(spark.sparkContext, job, record) as rows:
                yield rows


@contextmanager
def _on_classic(
    context: SparkContext, job: str, record: StageRecord | None
) -> Iterator[Rows | None]:
    group = f"omnigraph-{REAL.new_id()}"
    before = {name: context.getLocalProperty(name) for name in _GROUP}
    context.setJobGroup(group, job)
    over = Event()
    rows: Rows | None = None
    if record is not None and record.watcher is not None:
        rows = context.accumulator(0)
        Thread(target=_poll, args=(context, group, record, rows, over), daemon=True).start()
    try:
        with stoppable(partial(_cancel, context, group)):
            yield rows
    except BaseException:
        # A job that failed has ended; one whose wait was interrupted would continue.
        _cancel(context, group)
        raise
    finally:
        over.set()
        for name, value in before.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type] # None takes it away


def _cancel(context: SparkContext, group: str) -> None:
    with suppress(*SPARK_ERRORS):  # if Spark is gone, so is the job
        context.cancelJobGroup(group)


def _poll(context: SparkContext, group: str, record: StageRecord, rows: Rows, over: Event) -> None:
    with suppress(*SPARK_ERRORS):  # the caller that waits for the job reports them
        tracker = context.statusTracker()
        while not over.wait(_POLL_SECONDS):
            done, total = _count_tasks(tracker, group)
            if total and not over.is_set():
                record.advance(done=done, total=total, rows=rows.value or None)


def _count_tasks(tracker: StatusTracker, group: str) -> tuple[int, int]:
    """How many of a group are done, and how many there are."""
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        facts = tracker.getJobInfo(job)
        for number in () if facts is None else facts.stageIds:
            found = tracker.getStageInfo(number)
            if found is not None:
                done += found.numCompletedTasks
                total += found.numTasks
    return done, total


@contextmanager
def _on_connect(spark: SparkSession, record: StageRecord | None) -> Iterator[None]:
    tag = f"omnigraph-{REAL.new_id()}"

    def report(stages: Iterable[Any] | None, **_: object) -> None:
        found = list(stages or ())
        total = sum(each.num_tasks for each in found)
        if total and record is not None:
            record.advance(done=sum(each.num_completed_tasks for each in found), total=total)

    handler: Any = report  # it receives more than we need
    spark.addTag(tag)
    spark.registerProgressHandler(handler)
    try:
        with stoppable(partial(_interrupt, spark, tag)):
            yield
    except BaseException:
        _interrupt(spark, tag)
        raise
    finally:
        spark.removeProgressHandler(handler)
        spark.removeTag(tag)


def _interrupt(spark: SparkSession, tag: str) -> None:
    with suppress(*SPARK_ERRORS):
        spark.interruptTag(tag)
