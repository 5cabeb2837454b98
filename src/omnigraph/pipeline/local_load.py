"""A load in this process, and what a load on Spark shares with it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import CheckResult, Ingested, LoadEngine, LoadJob, LoadMode
from omnigraph.engine.load.inputs import as_input
from omnigraph.engine.stages import count_rows
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.conditions import find_doubtful
from omnigraph.pipeline.checks.key_texts import KeyTexts, LoadKeys
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.sources.splits import SPLIT_BYTES_MAX
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import (
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


# ── the local engine ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LocalLoader:
    """`engine.load.bulk.BulkLoader` in this process."""

    small_bytes: int = SMALL_BYTES
    split_bytes: int = SPLIT_BYTES_MAX
    bucket_count: int = 1
    lookup_ratio: float = LOOKUP_RATIO

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with open_local_scratch(SparkSettings(), job.root, job.operation_id) as scratch:
            yield self.read(job, survey(job, scratch), scratch)

    def read(self, job: LoadJob, items: Sequence[Item], scratch: Path) -> "LocalIngested":
        """Read all input. Raises FileUnreadable, JobFailed, UsageError."""
        plan = cut(items, quote_counter(run_here, job.reading_options), self.split_bytes)
        work = Ingest(
            splits=tuple(plan.splits),
            catalog=job.catalog,
            mode=job.mode,
            targets=job.targets,
            storage=Storage(job.root, job.storage_options, job.durability),
            input_options=job.reading_options,
            scratch=str(scratch),
            errors_max=job.errors_max,
            keeps_rows=True,
            bucket_count=None if plan.is_small(self.small_bytes) else self.bucket_count,
            looked_up=find_looked_up(filter(None, map(mapping_of, plan.splits))),
            keeps_faults=job.rejects is not None,
        )
        answers = read_here(work)
        ingested = LocalIngested(self, job, work, answers)
        count_rows("reading the input", sum(ingested.counts.values()))
        return ingested


def read_here(work: Ingest) -> list[dict[str, Any]]:
    """The answer for every split, in order. Raises FileUnreadable, JobFailed."""
    late = [split for split in work.splits if looks_up(split)]
    if not late:
        return run_here(work, len(work.splits), "reading the input")
    first = replace(work, splits=tuple(each for each in work.splits if not looks_up(each)))
    found = run_here(first, len(first.splits), "reading the input")
    files = write_lookup_files(work, found)
    second = replace(work, splits=tuple(files.fill_split(each) for each in late))
    found += run_here(second, len(late), "reading the edges")
    numbers = [each.number for each in (*first.splits, *second.splits)]
    return [answer for _, answer in sorted(zip(numbers, found, strict=True), key=lambda it: it[0])]


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
        """None unless the prefilter proves every rule: the in-process evaluator decides then."""
        if self.is_small:
            return None
        return prove(
            self.load_keys(self._loader.bucket_count, self._loader.lookup_ratio),
            committed_keys(self._job, self._work, run_here),
            pins,
        )
