"""A load on Spark: one job that reads everything, and jobs that ask what spans rows."""

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
    RecordPlace,
    Verdict,
    type_of,
)
from omnigraph.errors import SparkUnusable
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks import Question, find_verdict
from omnigraph.pipeline.committed import CommittedKeys
from omnigraph.pipeline.ingest import Ingest
from omnigraph.pipeline.jobs import run_tasks
from omnigraph.pipeline.session import SCRATCH, SparkSettings, find_session, read_settings
from omnigraph.pipeline.sources import (
    SPLIT_BYTES,
    LineNumbers,
    Split,
    find_files,
    ordinal_of,
    plan_splits,
)
from omnigraph.pipeline.stage import Storage, aside_schema
from omnigraph.storage.layout import STAGING
from omnigraph.storage.tables import Receipt

SMALL_BYTES: Final = 2**20
"""Input below this is read by one task, and the engine checks it without further jobs."""


@dataclass(frozen=True, slots=True)
class SparkBulk:
    """`engine.bulk.Bulk` on Spark."""

    settings: SparkSettings
    split_bytes: int = SPLIT_BYTES
    small_bytes: int = SMALL_BYTES

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with self._scratch(job) as scratch:
            files = find_files(job.sources, scratch)
            plan = plan_splits(files, self.split_bytes)
            is_small = plan.size_bytes < self.small_bytes
            work = Ingest(
                splits=plan.splits,
                catalog=job.catalog,
                mode=job.mode,
                targets=job.targets,
                storage=Storage(job.root, job.storage_options, job.durability),
                scratch=str(scratch),
                errors_max=job.errors_max,
                is_small=is_small,
            )
            answers: list[dict[str, Any]] = []
            spark = find_session(self.settings)
            check_shared(spark, scratch)
            if plan.splits:
                answers = run_tasks(
                    spark,
                    work,
                    len(plan.splits),
                    job="reading the input",
                    concurrency=1 if is_small else self.settings.concurrency,
                )
            yield SparkIngested(job, work, answers, spark, scratch)

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


def open_bulk() -> SparkBulk:
    """As the environment says. Raises SparkUnusable."""
    return SparkBulk(read_settings())


class SparkIngested:
    """`engine.bulk.Ingested`: what the tasks answered, put together."""

    def __init__(
        self,
        job: LoadJob,
        work: Ingest,
        answers: Sequence[Mapping[str, Any]],
        spark: SparkSession,
        scratch: Path,
    ) -> None:
        self._job = job
        self._answers = answers
        self._spark = spark
        self._committed = CommittedKeys(spark, job.catalog, work.storage, scratch)
        self._lines = LineNumbers(work.splits, [each["lines"] for each in answers])
        self.is_small = work.is_small
        self.faults = self._gather_faults(work.splits)

    def _gather_faults(self, splits: Sequence[Split]) -> Faults:
        listed: list[Fault] = []
        for split, answer in zip(splits, self._answers, strict=True):
            for line, document in answer["faults"]:
                place = self.place_of(ordinal_of(split, line))
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
        tables = [pa.ipc.open_file(each).read_all() for each in self._aside(key)]
        return pa.concat_tables(tables) if tables else self._aside_schema(key).empty_table()

    def open_aside(self, key: TableKey, columns: Sequence[str]) -> pa.RecordBatchReader:
        schema = self._aside_schema(key)
        plain = pa.schema([schema.field(name) for name in columns])

        def batches() -> Iterator[pa.RecordBatch]:
            for path in self._aside(key):
                with pa.ipc.open_file(path) as file:
                    for number in range(file.num_record_batches):
                        yield file.get_batch(number).select(plain.names)

        return pa.RecordBatchReader.from_batches(plain, batches())

    def size_aside(self, key: TableKey) -> int:
        return sum(each.get("size_bytes", 0) for each in self._said_of(key))

    def _aside(self, key: TableKey) -> list[str]:
        return [str(each["aside"]) for each in self._said_of(key) if "aside" in each]

    def _aside_schema(self, key: TableKey) -> pa.Schema:
        return aside_schema(type_of(self._job.catalog, key))

    # what spans rows

    def check(self, pins: Mapping[TableKey, Pin]) -> Verdict:
        question = Question(
            catalog=self._job.catalog,
            mode=self._job.mode,
            key_files={
                key: [str(each["keys"]) for each in self._said_of(key)] for key in self.counts
            },
            given_ids=self.given_ids,
            errors_max=self._job.errors_max,
            place_of=self.place_of,
        )
        return find_verdict(self._spark, question, self._committed, pins)
