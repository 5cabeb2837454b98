"""The commit of a write: a load whose input was read by tasks of Spark before the load began.

1. The rules across rows are proven by the prefilter in this process. A rule that is not proven is
   evaluated here if the rows are pending and fit in memory. Otherwise a session of Spark is started
   beside this process, for the joins that name the faults; so memory does not follow the rows.
2. Files that were staged on an older version fit on a newer one, unless they replace the table. An
   overwrite is refused if the table moved since the write began (D5).
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from omnigraph.catalog.codec import schema_hash
from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.bulk import (
    CheckResult,
    Ingested,
    LoadJob,
    LoadMode,
    Placement,
)
from omnigraph.errors import ExpectedVersionMismatch, JobFailed, SchemaChanged
from omnigraph.ids import TableKey
from omnigraph.pipeline.dataframes.begun_write import BegunWrite
from omnigraph.pipeline.local_load import committed_keys, prove
from omnigraph.pipeline.settings import read_settings
from omnigraph.pipeline.spark.session import find_session, stop_session
from omnigraph.pipeline.spark_load import SparkIngested, SparkLoader
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.tasks import run_here
from omnigraph.storage.tables import Receipt


@dataclass
class StagedLoader:
    """`engine.load.bulk.BulkLoader` for input that tasks have read."""

    graph: Graph
    begun: BegunWrite
    answers: Sequence[Mapping[str, Any]]
    """Of the tasks, in the order of their partitions."""
    is_handed_over: bool = False
    """Does the load own the files?"""

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        self._check(job)
        storage = Storage(job.root, job.storage_options, job.durability)
        work = self.begun.ingest(job.catalog, job.mode, storage, parts=len(self.answers))
        self.begun.end(self.graph)
        self.is_handed_over = True
        try:
            with StagedIngested.open(job, work, self.answers) as ingested:
                yield ingested
        finally:
            shutil.rmtree(self.begun.scratch, ignore_errors=True)

    def _check(self, job: LoadJob) -> None:
        """(2) Raises JobFailed, SchemaChanged, ExpectedVersionMismatch."""
        begun, now = self.begun, job.targets.get(self.begun.key)
        if not begun.is_open(self.graph):
            raise JobFailed("committing the rows", reason="its staging record is gone")
        actual = schema_hash(job.catalog)
        if now is None or actual != begun.schema_hash:
            raise SchemaChanged(expected=begun.schema_hash, actual=actual)
        is_staged_here = begun.target.placement is Placement.IN_PLACE
        if is_staged_here and now.ref != begun.target.ref:
            raise JobFailed("committing the rows", reason="the branch was deleted and made anew")
        if job.mode is LoadMode.OVERWRITE and now.version != begun.target.version:
            raise ExpectedVersionMismatch(
                begun.key, expected=begun.target.version, actual=now.version
            )

    def discard(self) -> None:
        """Delete the files of a write that no load has taken over."""
        if not self.is_handed_over and self.begun.is_open(self.graph):
            self.begun.discard(self.graph, receipts_of(self.answers))


def receipts_of(answers: Sequence[Mapping[str, Any]]) -> Iterator[Receipt]:
    for answer in answers:
        for table in answer["tables"].values():
            yield from (Receipt(*each) for each in table.get("receipts", ()))


class StagedIngested(SparkIngested):
    """`engine.load.bulk.Ingested`, by tasks that ended before this process began."""

    @classmethod
    @contextmanager
    def open(
        cls, job: LoadJob, work: Ingest, answers: Sequence[Mapping[str, Any]]
    ) -> Iterator["StagedIngested"]:
        """(1) A session of Spark that it had to start ends with it."""
        started: list[SparkSession] = []

        def start() -> SparkSession:
            is_active = SparkSession.getActiveSession() is not None
            session = find_session(read_settings())
            started.extend([] if is_active else [session])
            return session

        try:
            yield cls(SparkLoader(read_settings()), job, work, answers, start)
        finally:
            for session in started:
                stop_session(session)

    def check(self, pins: Mapping[TableKey, Pin]) -> CheckResult | None:
        proven = prove(self._load_keys, committed_keys(self._job, self._work, run_here), pins)
        if proven is not None:
            return proven
        is_pending = not any(self.receipts.values())
        if is_pending and all(self.fits(key) for key in self.counts):
            return None
        return super().check(pins)
