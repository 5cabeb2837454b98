"""A load on Spark: one job that reads all input, then jobs that check the rules across rows."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import (
    CheckResult,
    Ingested,
    LoadEngine,
    LoadJob,
    LoadMode,
    type_of,
)
from omnigraph.engine.stages import count_rows
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.key_frames import KeyFrames
from omnigraph.pipeline.checks.key_texts import KeyTexts, LoadKeys
from omnigraph.pipeline.checks.run import check_rules
from omnigraph.pipeline.local_load import (
    BUCKET_BYTES,
    LOOKUP_RATIO,
    MEMORY_BYTES,
    READING,
    SMALL_BYTES,
    LoadResults,
    choose_split,
    committed_keys,
    count_buckets,
    ingest_of,
    survey,
)
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.spark.jobs import spark_tasks, telling
from omnigraph.pipeline.spark.session import find_session
from omnigraph.pipeline.stage.fragments import discard_staged
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import Item, cut, measure, quote_counter
from omnigraph.pipeline.stage.read_input import read_input, session_of
from omnigraph.pipeline.stage.scratch import open_scratch
from omnigraph.pipeline.stage.worker_scratch import leave_marker, storage_of
from omnigraph.pipeline.stage.write_pending import Destination, write_merged, write_new
from omnigraph.storage.tables import Pieces, TableRef

SLOTS_UNKNOWN: Final = 16

MERGE_TASKS: Final = 4 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class SparkLoader:
    """`engine.load.bulk.BulkLoader` on Spark."""

    settings: SparkSettings
    split_bytes: int | None = None
    """None: chosen by the size of the input."""
    small_bytes: int = SMALL_BYTES
    memory_bytes: int = MEMORY_BYTES
    bucket_bytes: int = BUCKET_BYTES
    lookup_ratio: float = LOOKUP_RATIO

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with open_scratch(self.settings, job.root, job.operation_id) as scratch:
            yield self.read(job, survey(job, scratch), scratch)

    def read(self, job: LoadJob, items: Sequence[Item], scratch: Path) -> "SparkIngested":
        """Read all input. Raises FileUnreadable, JavaMissing, SparkUnusable, JobFailed."""
        with telling("loading"):
            is_quick = (measure(items) or self.small_bytes) < self.small_bytes
            spark = session_of(items) or find_session(self.settings, is_small=is_quick)
            split_bytes = self.split_bytes or choose_split(items, count_slots(spark))
            plan = cut(items, quote_counter(spark_tasks(spark), job.reading_options), split_bytes)
            is_small = plan.is_small(self.small_bytes)
            bucket_count = None
            if not is_small:
                bucket_count = count_buckets(plan, job, self.bucket_bytes, self.lookup_ratio)
            work = ingest_of(job, plan, storage_of(job), scratch, bucket_count, keeps_rows=is_small)
            concurrency = 1 if is_small else self.settings.concurrency
            marker = leave_marker(spark, scratch)
            try:
                splits, answers = read_input(spark, work, plan.frames, concurrency, marker)
            except (Exception, KeyboardInterrupt):
                discard_staged(scratch, work.storage)
                raise
            read = replace(work, splits=tuple(splits))
            ingested = SparkIngested(self, job, read, answers, lambda: spark)
            count_rows(READING, sum(ingested.counts.values()))
            return ingested


def count_slots(spark: SparkSession) -> int:
    """How many tasks run at once; a server does not say."""
    return SLOTS_UNKNOWN if is_remote() else spark.sparkContext.defaultParallelism


class SparkIngested(LoadResults):
    """`engine.load.bulk.Ingested` on Spark."""

    engine = LoadEngine.SPARK

    def __init__(
        self,
        loader: SparkLoader,
        job: LoadJob,
        work: Ingest,
        answers: Sequence[Mapping[str, Any]],
        find_spark: Callable[[], SparkSession],
    ) -> None:
        super().__init__(job, work, answers, memory_bytes=loader.memory_bytes)
        self._loader = loader
        self._work = work
        self._find_spark = find_spark
        self._pins_checked: Mapping[TableKey, Pin] | None = None
        """The tables for which no rule was broken."""

    @cached_property
    def _spark(self) -> SparkSession:
        return self._find_spark()

    @cached_property
    def _committed(self) -> CommittedKeys:
        return committed_keys(self._job, self._work, spark_tasks(self._spark))

    def write_pending(self, key: TableKey, pin: Pin, ref: TableRef) -> tuple[Pieces, ...]:
        files = self.find_pending(key)
        destination = Destination(self._work.storage, ref, pin.version)
        concurrency = self._loader.settings.concurrency
        if self._job.mode is not LoadMode.MERGE:
            return write_new(
                self._spark, files, destination, self._job.mode, concurrency=concurrency
            )
        type_ = type_of(self._job.catalog, key)
        keys = KeyTexts(self._load_keys, self._committed, {key: pin})
        frames = KeyFrames(self._spark, keys)
        return write_merged(
            frames.winners(type_),
            frames.places(type_),
            files,
            destination,
            slots=concurrency or MERGE_TASKS,
        )

    def check(self, pins: Mapping[TableKey, Pin]) -> CheckResult | None:
        if self.is_small:
            return None
        before, moved = self._pins_checked, None
        if before is not None:
            moved = {key for key, pin in pins.items() if pin != before.get(key)}
        result = check_rules(self._spark, self._load_keys, self._committed, pins, moved)
        self._pins_checked = None if result.faults.count or result.existing else pins
        return result

    @property
    def _load_keys(self) -> LoadKeys:
        count = self._work.bucket_count
        assert count is not None, "a load without keys does not compare them"
        return self.load_keys(count, self._loader.lookup_ratio)
