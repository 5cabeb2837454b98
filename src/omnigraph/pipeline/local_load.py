"""A load in this process, and what a load on Spark shares with it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import (
    CheckResult,
    Ingested,
    LoadEngine,
    LoadJob,
    LoadMode,
    type_of,
)
from omnigraph.engine.load.inputs import as_input
from omnigraph.engine.stages import count_rows
from omnigraph.engine.write.base_rows import uniques_of
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.arrow_joins import ROWS_MAX, check_here
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.conditions import find_doubtful
from omnigraph.pipeline.checks.key_texts import KeyTexts, LoadKeys
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.sources.splits import SPLIT_BYTES, SPLIT_BYTES_MAX
from omnigraph.pipeline.stage.buckets import BUCKETS_MAX
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import (
    InputPlan,
    InputSurvey,
    Item,
    check_tables,
    cut,
    quote_counter,
)
from omnigraph.pipeline.stage.keys import KeyFiles
from omnigraph.pipeline.stage.lookup_files import (
    find_looked_up,
    looks_up,
    mapping_of,
    write_lookup_files,
)
from omnigraph.pipeline.stage.scratch import open_local_scratch
from omnigraph.pipeline.stage.task_results import TaskResults
from omnigraph.pipeline.tasks import RunTasks, run_here
from omnigraph.storage.tables import Pieces, TableRef

MEMORY_BYTES: Final = 256 * 2**20
"""The driver stages the pending rows of one table itself up to this size; workers stage more."""

SMALL_BYTES: Final = 2**20
"""Smaller input is read by one task, and the in-process evaluator checks it without keys."""

READING: Final = "reading the input"

BUCKET_BYTES: Final = 64 * 2**20
"""The keys of so much input are checked by one task."""
BUCKET_ROWS: Final = 2**20
"""And so many committed rows."""
ROW_BYTES: Final = 100
"""About what a row of the input takes."""
FRAME_BUCKETS: Final = 16
"""For a data frame, whose size is unknown."""

SPLITS_PER_SLOT: Final = 8

LOOKUP_RATIO: Final = 16.0
"""A committed table with so many times the rows of the input is looked up, not read: one lookup in
an index costs about as much as reading so many keys."""


def survey(job: LoadJob, scratch: Path) -> list[Item]:
    """All input of a job, in order. Raises UsageError, FileUnreadable, LoadRejected."""
    look = InputSurvey(job.catalog, job.reading_options, scratch).look
    items = look([as_input(each) for each in job.sources])
    check_tables(items, job.errors_max)
    return items


class LoadResults(TaskResults):
    """The results of tasks that wrote the keys of rows."""

    def load_keys(self, bucket_count: int, lookup_ratio: float) -> LoadKeys:
        return LoadKeys(
            catalog=self._job.catalog,
            mode=self._job.mode,
            key_files={key: KeyFiles.gather(self.results_of(key)) for key in self.counts},
            bucket_count=bucket_count,
            lookup_ratio=lookup_ratio,
            counts=self.counts,
            given_ids=self.given_ids,
            errors_max=self._job.errors_max,
            rejects=self._job.rejects,
            place_of=self.place_of,
        )


def committed_keys(job: LoadJob, work: Ingest, run: RunTasks) -> CommittedKeys:
    """The keys of committed tables, read by tasks for the checks of one load."""
    assert work.bucket_count is not None, "a load without keys does not compare them"
    return CommittedKeys(
        run,
        job.catalog,
        work.storage,
        Path(work.scratch),
        replaces=job.mode is LoadMode.MERGE,
        bucket_count=work.bucket_count,
    )


def prove(
    load: LoadKeys, committed: CommittedKeys, pins: Mapping[TableKey, Pin]
) -> CheckResult | None:
    """The result if the prefilter, in this process, proves every rule; None if it does not."""
    read = load.tables_read
    keys = KeyTexts(load, committed, {key: pins[key] for key in read})
    doubtful = find_doubtful(committed.run, keys, load.rules)
    return None if doubtful else CheckResult(tables_read=read)


def ingest_of(
    job: LoadJob,
    plan: InputPlan,
    storage: Storage,
    scratch: Path,
    bucket_count: int | None,
    *,
    keeps_rows: bool = False,
) -> Ingest:
    """The tasks that read the input of a job."""
    mappings = [*filter(None, map(mapping_of, plan.splits)), *(it.mapping for it in plan.frames)]
    return Ingest(
        splits=tuple(plan.splits),
        catalog=job.catalog,
        mode=job.mode,
        targets=job.targets,
        storage=storage,
        input_options=job.reading_options,
        scratch=str(scratch),
        errors_max=job.errors_max,
        keeps_rows=keeps_rows,
        bucket_count=bucket_count,
        looked_up=find_looked_up(mappings),
        keeps_faults=job.rejects is not None,
    )


def storage_here(job: LoadJob) -> Storage:
    """How tasks reach the graph that end with this process."""
    return Storage(job.root, job.storage_options, job.durability)


def read_splits(work: Ingest, run: RunTasks) -> list[dict[str, Any]]:
    """The answer for every split, in order. Raises FileUnreadable, JobFailed."""
    late = [split for split in work.splits if looks_up(split)]
    if not late:
        return run(work, len(work.splits), READING)
    first = replace(work, splits=tuple(each for each in work.splits if not looks_up(each)))
    found = run(first, len(first.splits), READING)
    files = write_lookup_files(work, found)
    second = replace(work, splits=tuple(files.fill_split(each) for each in late))
    found += run(second, len(late), "reading the edges")
    numbers = [each.number for each in (*first.splits, *second.splits)]
    return [answer for _, answer in sorted(zip(numbers, found, strict=True), key=lambda it: it[0])]


def choose_split(items: Sequence[Item], slots: int) -> int:
    """Large splits make whole fragments; many of them keep every slot busy to the end."""
    size_bytes = sum(item.file.size_bytes for item in items if item.file is not None)
    return min(SPLIT_BYTES_MAX, max(SPLIT_BYTES, size_bytes // (SPLITS_PER_SLOT * slots)))


def count_buckets(plan: InputPlan, job: LoadJob, bucket_bytes: int, lookup_ratio: float) -> int:
    """So many that a task can hold one bucket of the input and of a committed table."""
    by_size = plan.size_bytes // bucket_bytes
    looked_up_from = lookup_ratio * plan.size_bytes / ROW_BYTES
    read = (
        target.row_count
        for key, target in job.targets.items()
        if target.row_count < looked_up_from or uniques_of(type_of(job.catalog, key))
    )
    by_rows = max(read, default=0) // BUCKET_ROWS
    by_frames = FRAME_BUCKETS if plan.frames else 0
    return min(BUCKETS_MAX, max(1 + by_size, 1 + by_rows, by_frames))


# ── the local engine ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LocalLoader:
    """`engine.load.bulk.BulkLoader` in this process."""

    small_bytes: int = SMALL_BYTES
    split_bytes: int = SPLIT_BYTES_MAX
    bucket_count: int = 1
    lookup_ratio: float = LOOKUP_RATIO
    join_rows_max: int = ROWS_MAX

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with open_local_scratch(SparkSettings(), job.root, job.operation_id) as scratch:
            yield self.read(job, survey(job, scratch), scratch)

    def read(self, job: LoadJob, items: Sequence[Item], scratch: Path) -> "LocalIngested":
        """Read all input. Raises FileUnreadable, JobFailed, UsageError."""
        plan = cut(items, quote_counter(run_here, job.reading_options), self.split_bytes)
        bucket_count = None if plan.is_small(self.small_bytes) else self.bucket_count
        work = ingest_of(job, plan, storage_here(job), scratch, bucket_count, keeps_rows=True)
        answers = read_splits(work, run_here)
        ingested = LocalIngested(self, job, work, answers)
        count_rows(READING, sum(ingested.counts.values()))
        return ingested


class LocalIngested(LoadResults):
    """`engine.load.bulk.Ingested` in this process."""

    engine = LoadEngine.LOCAL

    def __init__(
        self, loader: LocalLoader, job: LoadJob, work: Ingest, answers: Sequence[Mapping[str, Any]]
    ) -> None:
        super().__init__(job, work, answers, memory_bytes=0)
        self._loader = loader
        self._work = work

    def write_pending(self, key: TableKey, pin: Pin, ref: TableRef) -> tuple[Pieces, ...]:
        raise AssertionError(f"rows of {key} fit in memory: {pin}, {ref}")

    def check(self, pins: Mapping[TableKey, Pin]) -> CheckResult | None:
        """None for few rows, or for more keys than the joins hold: the evaluator decides then."""
        if self.is_small:
            return None
        return check_here(
            self.load_keys(self._loader.bucket_count, self._loader.lookup_ratio),
            committed_keys(self._job, self._work, run_here),
            pins,
            rows_max=self._loader.join_rows_max,
        )
