"""A load in a process without a session of Spark: this process begins, and Spark goes on.

1. Input of at most `ahead_bytes` is read here to its end, because a session would not have started
   before. Spark starts only if there are too many keys for the joins in memory, or if pending rows
   do not fit.
2. For larger input a session starts in a thread while this process runs tasks. What is left when
   the session has started goes to Spark.
3. Rows become fragments and keys become files, as on Spark. The memory of this process follows the
   size of a task and not the size of the input.
4. Only for sessions on this machine: a cluster is chosen because of its workers.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import CheckResult, Ingested, LoadEngine, LoadJob
from omnigraph.engine.stages import count_rows, stage
from omnigraph.extras import require
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.arrow_joins import check_here
from omnigraph.pipeline.local_load import (
    BUCKET_BYTES,
    LOOKUP_RATIO,
    MEMORY_BYTES,
    READING,
    LoadResults,
    choose_split,
    committed_keys,
    count_buckets,
    ingest_of,
    read_splits,
    storage_here,
    survey,
)
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.stage.fragments import discard_staged
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import Item, cut, quote_counter
from omnigraph.pipeline.stage.scratch import open_local_scratch
from omnigraph.pipeline.tasks import Work, begin_here, run_here
from omnigraph.storage.tables import Pieces, TableRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.pipeline.spark_load import SparkIngested

AHEAD_BYTES: Final = 512 * 2**20
"""(1) About what one process reads in the seconds that Spark takes to start."""


def has_session() -> bool:
    """Has this process a session of Spark already?"""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext  # noqa: PLC0415 - imported by others already
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    is_started = SparkContext._active_spark_context is not None  # noqa: SLF001 - nothing else tells
    return is_started or SparkSession.getActiveSession() is not None


@dataclass(frozen=True, slots=True)
class Rest:
    """The tasks from a number on, counted from 0 again."""

    work: Work
    first: int

    def __call__(self, number: int) -> dict[str, Any]:
        return self.work(self.first + number)


class StartingSpark:
    """A session that a thread starts. Commands end without waiting for it."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self.has_run = False
        """Has any task run there?"""
        self._done: Future[None] = Future()
        Thread(target=self._start, name="starting Spark", daemon=True).start()

    def _start(self) -> None:
        try:
            from omnigraph.pipeline.spark.session import find_session  # noqa: PLC0415 - pyspark

            find_session(self._settings)
            self._done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - `find` raises it
            self._done.set_exception(error)

    def is_done(self) -> bool:
        return self._done.done()

    def find(self) -> "SparkSession":
        """Wait for the session. Raises JavaMissing, SparkUnusable."""
        from omnigraph.pipeline.spark.session import find_session  # noqa: PLC0415 - pyspark

        with stage("starting Spark"):
            self._done.result()
        return find_session(self._settings)

    def run(self, work: Work, count: int, job: str) -> list[dict[str, Any]]:
        """`RunTasks`: here until the session has started, then there (2)."""
        answers = begin_here(work, count, job, self.is_done)
        left = count - len(answers)
        if left:
            from omnigraph.pipeline.spark.jobs import run_tasks  # noqa: PLC0415 - pyspark

            slots = self._settings.concurrency
            rest = Rest(work, len(answers))
            self.has_run = True
            answers += run_tasks(self.find(), rest, left, job=job, concurrency=slots)
        return answers


@dataclass(frozen=True, slots=True)
class HeadStartLoader:
    """`engine.load.bulk.BulkLoader` in this process, and on Spark if that is worth its start."""

    settings: SparkSettings
    ahead_bytes: int = AHEAD_BYTES
    memory_bytes: int = MEMORY_BYTES
    split_bytes: int | None = None
    """None: chosen by the size of the input."""

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with open_local_scratch(self.settings, job.root, job.operation_id) as scratch:
            yield self.read(job, survey(job, scratch), scratch)

    def read(self, job: LoadJob, items: Sequence[Item], scratch: Path) -> "HeadStartIngested":
        """Read all input. Raises FileUnreadable, JavaMissing, SparkUnusable, JobFailed."""
        count_quotes = quote_counter(run_here, job.reading_options)
        split_bytes = self.split_bytes or choose_split(items, os.cpu_count() or 1)
        plan = cut(items, count_quotes, split_bytes)
        spark = None
        if plan.size_bytes > self.ahead_bytes:
            require("pyspark", extra="spark")
            spark = StartingSpark(self.settings)
        bucket_count = count_buckets(plan, job, BUCKET_BYTES, LOOKUP_RATIO)
        work = ingest_of(job, plan, storage_here(job), scratch, bucket_count)
        try:
            answers = read_splits(work, run_here if spark is None else spark.run)
        except (Exception, KeyboardInterrupt):
            discard_staged(scratch, work.storage)
            raise
        ingested = HeadStartIngested(self, job, work, answers, spark)
        count_rows(READING, sum(ingested.counts.values()))
        return ingested


class HeadStartIngested(LoadResults):
    """`engine.load.bulk.Ingested` in this process, with Spark for what does not fit here."""

    def __init__(
        self,
        loader: HeadStartLoader,
        job: LoadJob,
        work: Ingest,
        answers: Sequence[Mapping[str, Any]],
        spark: StartingSpark | None,
    ) -> None:
        super().__init__(job, work, answers, memory_bytes=loader.memory_bytes)
        self._loader = loader
        self._work = work
        self._spark = spark

    @property
    def engine(self) -> LoadEngine:
        has_read = self._spark is not None and self._spark.has_run
        is_there = has_read or "_on_spark" in self.__dict__
        return LoadEngine.SPARK if is_there else LoadEngine.LOCAL

    @cached_property
    def _on_spark(self) -> "SparkIngested":
        """The same input, for what needs Spark. Raises JavaMissing, SparkUnusable."""
        require("pyspark", extra="spark")
        from omnigraph.pipeline.spark.session import find_session  # noqa: PLC0415 - pyspark
        from omnigraph.pipeline.spark_load import SparkIngested, SparkLoader  # noqa: PLC0415

        settings, memory_bytes = self._loader.settings, self._loader.memory_bytes
        find = self._spark.find if self._spark else lambda: find_session(settings)
        loader = SparkLoader(settings, memory_bytes=memory_bytes)
        return SparkIngested(loader, self._job, self._work, self._answers, find)

    def write_pending(self, key: TableKey, pin: Pin, ref: TableRef) -> tuple[Pieces, ...]:
        return self._on_spark.write_pending(key, pin, ref)

    def check(self, pins: Mapping[TableKey, Pin]) -> CheckResult | None:
        if self.engine is LoadEngine.LOCAL:
            assert self._work.bucket_count is not None, "its keys are kept"
            keys = self.load_keys(self._work.bucket_count, LOOKUP_RATIO)
            checked = check_here(keys, committed_keys(self._job, self._work, run_here), pins)
            if checked is not None:
                return checked
        return self._on_spark.check(pins)
