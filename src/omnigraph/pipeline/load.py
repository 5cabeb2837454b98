"""A load on Spark: one job that reads everything, and jobs that ask what spans rows."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.commit.manifest import Pin
from omnigraph.engine.bulk import (
    Fault,
    Faults,
    Ingested,
    LoadJob,
    LoadMode,
    RecordPlace,
    Verdict,
    type_of,
)
from omnigraph.engine.inputs import as_input
from omnigraph.errors import SparkUnusable
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks import find_verdict
from omnigraph.pipeline.committed import CommittedKeys
from omnigraph.pipeline.ingest import Ingest
from omnigraph.pipeline.jobs import run_tasks
from omnigraph.pipeline.keysets import KeySets, Question
from omnigraph.pipeline.merge import Destination, write_merged, write_new
from omnigraph.pipeline.planning import Survey, check_tables, cut
from omnigraph.pipeline.reading import QuotesOnSpark, read_input, session_of
from omnigraph.pipeline.session import SCRATCH, SparkSettings, find_session, read_settings
from omnigraph.pipeline.sources import SPLIT_BYTES, LineNumbers, Split, ordinal_of
from omnigraph.pipeline.stage import AsideFile, Storage, aside_schema
from omnigraph.storage.layout import STAGING
from omnigraph.storage.tables import Pieces, Receipt, TableRef

SMALL_BYTES: Final = 2**20
"""Input below this is read by one task, and the engine checks it without further jobs."""

MEMORY: Final = "OMNIGRAPH_LOAD_MEMORY_MB"
MEMORY_BYTES: Final = 256 * 2**20
"""Rows of one table that were put aside are staged by the driver up to this size, which is fast;
beyond it by workers, which takes no memory here."""

MERGE_TASKS: Final = 4 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class SparkBulk:
    """`engine.bulk.Bulk` on Spark."""

    settings: SparkSettings
    split_bytes: int = SPLIT_BYTES
    small_bytes: int = SMALL_BYTES
    memory_bytes: int = MEMORY_BYTES

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with self._scratch(job) as scratch:
            survey = Survey(job.catalog, job.storage_options, scratch)
            items = survey.look([as_input(each) for each in job.sources])
            check_tables(items, job.errors_max)
            spark = session_of(items) or find_session(self.settings)
            check_shared(spark, scratch)
            plan = cut(items, QuotesOnSpark(spark, job.storage_options), self.split_bytes)
            is_small = plan.is_small(self.small_bytes)
            work = Ingest(
                splits=tuple(plan.splits),
                catalog=job.catalog,
                mode=job.mode,
                targets=job.targets,
                storage=Storage(job.root, job.storage_options, job.durability),
                scratch=str(scratch),
                errors_max=job.errors_max,
                is_small=is_small,
            )
            concurrency = 1 if is_small else self.settings.concurrency
            splits, answers = read_input(spark, work, plan.frames, concurrency)
            yield SparkIngested(self, job, replace(work, splits=tuple(splits)), answers, spark)

    @contextmanager
    def _scratch(self, job: LoadJob) -> Iterator[Path]:
        """A folder that the driver and all workers see, for as long as the load takes."""
        if self.settings.scratch is not None:
            above = Path(self.settings.scratch)
        elif job.root.is_local:
            above = Path(job.root.uri) / STAGING
        elif self.settings.is_local:
            above = Path(tempfile.gettempdir())
        else:
            raise SparkUnusable(f"set {SCRATCH} to a folder that the driver and all workers see")
        folder = above / f"{job.operation_id}.files"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def check_shared(spark: SparkSession, scratch: Path) -> None:
    """Ask a worker whether it sees what we see (D22). Raises SparkUnusable."""
    if (spark.conf.get("spark.master", None) or "").startswith("local"):
        return
    (scratch / "marker").touch()
    (answer,) = run_tasks(spark, Looking(str(scratch / "marker")), 1, job="reaching the workers")
    if not answer["found"]:
        raise SparkUnusable(
            f"its workers do not see {scratch}; set {SCRATCH} to a folder that they do see, and "
            "keep the graph and its input where they reach them"
        )


@dataclass(frozen=True, slots=True)
class Looking:
    """Work that looks for a file."""

    path: str

    def __call__(self, number: int) -> dict[str, Any]:
        del number
        return {"found": Path(self.path).exists()}


def open_bulk(environment: Mapping[str, str] = os.environ) -> SparkBulk:
    """As the environment says. Raises SparkUnusable."""
    memory_mb = environment.get(MEMORY) or str(MEMORY_BYTES // 2**20)
    if not memory_mb.isdecimal():
        raise SparkUnusable(f"{MEMORY} is a number of megabytes, not '{memory_mb}'")
    return SparkBulk(read_settings(environment), memory_bytes=int(memory_mb) * 2**20)


class SparkIngested:
    """`engine.bulk.Ingested`: what the tasks answered, put together."""

    def __init__(
        self,
        bulk: SparkBulk,
        job: LoadJob,
        work: Ingest,
        answers: Sequence[Mapping[str, Any]],
        spark: SparkSession,
    ) -> None:
        self._bulk = bulk
        self._job = job
        self._storage = work.storage
        self._answers = answers
        self._spark = spark
        self._committed = CommittedKeys(
            spark,
            job.catalog,
            work.storage,
            Path(work.scratch),
            with_places=job.mode is LoadMode.MERGE,
        )
        self._lines = LineNumbers(work.splits, [each["lines"] for each in answers])
        self.is_small = work.is_small
        self.faults = self._gather_faults(work.splits)

    def _gather_faults(self, splits: Sequence[Split]) -> Faults:
        listed: list[Fault] = []
        for split, answer in zip(splits, self._answers, strict=True):
            for line, document in answer["faults"]:
                place = self.place_of(ordinal_of(split.number, line))
                fault = Fault(**{**document, "ids": tuple(document["ids"])})
                listed.append(replace(fault, file=place.file, line=place.line))
        count = sum(each["fault_count"] for each in self._answers)
        return Faults(tuple(listed[: self._job.errors_max]), count)

    def _said_of(self, key: TableKey) -> list[Mapping[str, Any]]:
        return [each["tables"][key] for each in self._answers if key in each["tables"]]

    @property
    def counts(self) -> Mapping[TableKey, int]:
        keys = sorted({TableKey(key) for each in self._answers for key in each["tables"]})
        return {key: sum(each["rows"] for each in self._said_of(key)) for key in keys}

    @property
    def given_ids(self) -> Mapping[TableKey, int]:
        return {key: sum(each["given_ids"] for each in self._said_of(key)) for key in self.counts}

    @property
    def receipts(self) -> Mapping[TableKey, tuple[Receipt, ...]]:
        return {
            key: tuple(
                Receipt(fragment, row_count)
                for each in self._said_of(key)
                for fragment, row_count in each.get("receipts", ())
            )
            for key in self.counts
        }

    def place_of(self, ordinal: int) -> RecordPlace:
        return self._lines.place_of(ordinal)

    # rows put aside

    def read_aside(self, key: TableKey) -> pa.Table:
        batches = [batch for file in self._aside(key) for batch in file.read()]
        return pa.Table.from_batches(batches, self._aside_schema(key))

    def open_aside(self, key: TableKey, columns: Sequence[str]) -> pa.RecordBatchReader:
        schema = self._aside_schema(key)
        plain = pa.schema([schema.field(name) for name in columns])
        batches = (batch.select(plain.names) for file in self._aside(key) for batch in file.read())
        return pa.RecordBatchReader.from_batches(plain, batches)

    def fits(self, key: TableKey) -> bool:
        size = sum(each.get("size_bytes", 0) for each in self._said_of(key))
        return self.is_small or size <= self._bulk.memory_bytes

    def write_aside(self, key: TableKey, pin: Pin, ref: TableRef) -> tuple[Pieces, ...]:
        files = self._aside(key)
        destination = Destination(self._storage, ref, pin.version)
        concurrency = self._bulk.settings.concurrency
        if self._job.mode is not LoadMode.MERGE:
            return write_new(
                self._spark, files, destination, self._job.mode, concurrency=concurrency
            )
        type_ = type_of(self._job.catalog, key)
        keys = KeySets(self._spark, self._question, self._committed.find_files([pin]))
        return write_merged(
            keys.winners(type_),
            keys.places(type_),
            files,
            destination,
            slots=concurrency or MERGE_TASKS,
        )

    def _aside(self, key: TableKey) -> list[AsideFile]:
        return [
            AsideFile(str(each["aside"]), tuple(each["firsts"]))
            for each in self._said_of(key)
            if each.get("firsts")
        ]

    def _aside_schema(self, key: TableKey) -> pa.Schema:
        """As this process reads it: where Lance is at hand, a blob is a type of its own."""
        for file in self._aside(key):
            with pa.ipc.open_file(file.path) as opened:
                return opened.schema
        return aside_schema(type_of(self._job.catalog, key))

    # what spans rows

    def check(self, pins: Mapping[TableKey, Pin]) -> Verdict:
        return find_verdict(self._spark, self._question, self._committed, pins)

    @property
    def _question(self) -> Question:
        return Question(
            catalog=self._job.catalog,
            mode=self._job.mode,
            key_files={
                key: [str(each["keys"]) for each in self._said_of(key)] for key in self.counts
            },
            given_ids=self.given_ids,
            errors_max=self._job.errors_max,
            place_of=self.place_of,
        )
