"""A load on Spark: one job that reads everything, and jobs that ask what spans rows."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import (
    CheckResult,
    Ingested,
    LoadJob,
    LoadMode,
    type_of,
)
from omnigraph.engine.load.inputs import as_input
from omnigraph.engine.stages import count_rows
from omnigraph.engine.write.base_rows import uniques_of
from omnigraph.errors import SparkUnusable
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.key_sets import KeySets, LoadKeys
from omnigraph.pipeline.checks.run import check_rules
from omnigraph.pipeline.sources.splits import SPLIT_BYTES, SPLIT_BYTES_MAX
from omnigraph.pipeline.spark.jobs import telling
from omnigraph.pipeline.spark.session import SparkSettings, find_session, read_settings
from omnigraph.pipeline.stage.buckets import BUCKETS_MAX
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import InputPlan, InputSurvey, Item, check_tables, cut
from omnigraph.pipeline.stage.keys import KeyFiles
from omnigraph.pipeline.stage.read_input import QuotesOnSpark, read_input, session_of
from omnigraph.pipeline.stage.scratch import leave_marker, open_scratch, storage_of
from omnigraph.pipeline.stage.task_results import TaskResults
from omnigraph.pipeline.stage.write_pending import Destination, write_merged, write_new
from omnigraph.storage.tables import Pieces, TableRef

SMALL_BYTES: Final = 2**20
"""Input below this is read by one task, and the engine checks it without further jobs."""

MEMORY: Final = "OMNIGRAPH_LOAD_MEMORY_MB"
MEMORY_BYTES: Final = 256 * 2**20
"""Rows of one table that were put aside are staged by the driver up to this size, which is fast;
beyond it by workers, which takes no memory here."""

BUCKET_BYTES: Final = 64 * 2**20
"""The keys of so much input are checked by one task."""
BUCKET_ROWS: Final = 2**20
"""And so many rows that are there already."""
ROW_BYTES: Final = 100
"""What a row of the input takes, more or less."""
FRAME_BUCKETS: Final = 16
"""How much is behind a data frame nobody knows."""

LOOKUP_RATIO: Final = 16.0
"""A committed table so many times as large as the input is asked by its indexes, and not read:
looking a value up costs about so many times what reading one costs."""

SPLITS_PER_SLOT: Final = 8
SLOTS_UNKNOWN: Final = 16

MERGE_TASKS: Final = 4 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class SparkLoader:
    """`engine.load.bulk.Bulk` on Spark."""

    settings: SparkSettings
    split_bytes: int | None = None
    """As the input is large, unless it is said."""
    small_bytes: int = SMALL_BYTES
    memory_bytes: int = MEMORY_BYTES
    bucket_bytes: int = BUCKET_BYTES
    lookup_ratio: float = LOOKUP_RATIO

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with (
            telling("loading"),
            open_scratch(self.settings, job.root, job.operation_id) as scratch,
        ):
            survey = InputSurvey(job.catalog, job.storage_options, scratch)
            items = survey.look([as_input(each) for each in job.sources])
            check_tables(items, job.errors_max)
            hasty = looks_small(items, self.small_bytes)
            spark = session_of(items) or find_session(self.settings, is_small=hasty)
            split_bytes = self.split_bytes or choose_split(items, count_slots(spark))
            plan = cut(items, QuotesOnSpark(spark, job.storage_options), split_bytes)
            is_small = plan.is_small(self.small_bytes)
            work = Ingest(
                splits=tuple(plan.splits),
                catalog=job.catalog,
                mode=job.mode,
                targets=job.targets,
                storage=storage_of(job),
                scratch=str(scratch),
                errors_max=job.errors_max,
                is_small=is_small,
                bucket_count=self._count_buckets(plan, job),
                keeps_faults=job.rejects is not None,
            )
            concurrency = 1 if is_small else self.settings.concurrency
            marker = leave_marker(spark, scratch)
            splits, answers = read_input(spark, work, plan.frames, concurrency, marker)
            ingested = SparkIngested(self, job, replace(work, splits=tuple(splits)), answers, spark)
            count_rows("reading the input", sum(ingested.counts.values()))
            yield ingested

    def _count_buckets(self, plan: InputPlan, job: LoadJob) -> int:
        """So many that a task can hold one of them, be it full of what is there already."""
        by_size = plan.size_bytes // self.bucket_bytes
        asked_from = self.lookup_ratio * plan.size_bytes / ROW_BYTES
        read = (
            target.row_count
            for key, target in job.targets.items()
            if target.row_count < asked_from or uniques_of(type_of(job.catalog, key))
        )
        by_rows = max(read, default=0) // BUCKET_ROWS
        by_frames = FRAME_BUCKETS if plan.frames else 0
        return min(BUCKETS_MAX, max(1 + by_size, 1 + by_rows, by_frames))


def count_slots(spark: SparkSession) -> int:
    """How many tasks run at once; a server does not say."""
    return SLOTS_UNKNOWN if is_remote() else spark.sparkContext.defaultParallelism


def choose_split(items: Sequence[Item], slots: int) -> int:
    """Large splits make whole fragments; many of them keep every slot busy to the end."""
    size_bytes = sum(item.file.size_bytes for item in items if item.file is not None)
    return min(SPLIT_BYTES_MAX, max(SPLIT_BYTES, size_bytes // (SPLITS_PER_SLOT * slots)))


def looks_small(items: Sequence[Item], small_bytes: int) -> bool:
    """A guess from the sizes of files, before there is a session to ask."""
    files = [item.file for item in items]
    sizes = [file.size_bytes for file in files if file is not None]
    return len(sizes) == len(files) and sum(sizes) < small_bytes


def open_bulk(
    settings: SparkSettings | None = None, environment: Mapping[str, str] = os.environ
) -> SparkLoader:
    """As the settings say, and where there are none, the environment. Raises SparkUnusable."""
    memory_mb = environment.get(MEMORY) or str(MEMORY_BYTES // 2**20)
    if not memory_mb.isdecimal():
        raise SparkUnusable(f"{MEMORY} is a number of megabytes, not '{memory_mb}'")
    return SparkLoader(settings or read_settings(environment), memory_bytes=int(memory_mb) * 2**20)


class SparkIngested(TaskResults):
    """`engine.load.bulk.Ingested` on Spark."""

    def __init__(
        self,
        bulk: SparkLoader,
        job: LoadJob,
        work: Ingest,
        answers: Sequence[Mapping[str, Any]],
        spark: SparkSession,
    ) -> None:
        super().__init__(job, work, answers, memory_bytes=bulk.memory_bytes)
        self._concurrency = bulk.settings.concurrency
        self._storage = work.storage
        self._spark = spark
        self._bucket_count = work.bucket_count
        self._asked_ratio = bulk.lookup_ratio
        self._found_right: Mapping[TableKey, Pin] | None = None
        """The tables as they were when nothing was wrong."""
        self._committed = CommittedKeys(
            spark,
            job.catalog,
            work.storage,
            Path(work.scratch),
            replaces=job.mode is LoadMode.MERGE,
            bucket_count=work.bucket_count,
        )

    def write_pending(self, key: TableKey, pin: Pin, ref: TableRef) -> tuple[Pieces, ...]:
        files = self.find_pending(key)
        destination = Destination(self._storage, ref, pin.version)
        if self._job.mode is not LoadMode.MERGE:
            return write_new(
                self._spark, files, destination, self._job.mode, concurrency=self._concurrency
            )
        type_ = type_of(self._job.catalog, key)
        keys = KeySets(self._spark, self._question, self._committed, {key: pin})
        return write_merged(
            keys.winners(type_),
            keys.places(type_),
            files,
            destination,
            slots=self._concurrency or MERGE_TASKS,
        )

    def check(self, pins: Mapping[TableKey, Pin]) -> CheckResult:
        found_right, moved = self._found_right, None
        if found_right is not None:
            moved = {key for key, pin in pins.items() if pin != found_right.get(key)}
        verdict = check_rules(self._spark, self._question, self._committed, pins, moved)
        self._found_right = None if verdict.faults.count or verdict.taken else pins
        return verdict

    @property
    def _question(self) -> LoadKeys:
        return LoadKeys(
            catalog=self._job.catalog,
            mode=self._job.mode,
            key_files={key: KeyFiles.gather(self.results_of(key)) for key in self.counts},
            bucket_count=self._bucket_count,
            lookup_ratio=self._asked_ratio,
            counts=self.counts,
            given_ids=self.given_ids,
            errors_max=self._job.errors_max,
            rejects=self._job.rejects,
            place_of=self.place_of,
        )
