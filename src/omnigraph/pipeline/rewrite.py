"""Rewriting large tables on Spark: tasks write fragments, the driver holds their descriptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from omnigraph.engine.schema.rewriting import TableAt
from omnigraph.engine.settings import Settings
from omnigraph.errors import BackfillInvalid
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.spark.session import SparkSettings, find_session, read_settings
from omnigraph.pipeline.stage.fragments import UNNAMED, Storage
from omnigraph.pipeline.stage.worker_scratch import runs_here
from omnigraph.pipeline.tasks import Work
from omnigraph.storage.layout import MANIFEST, Root
from omnigraph.storage.tables import ColumnFill, Handle, Receipt, ScanRequest, Tables

FRAGMENTS_PER_TASK: Final = 8


@dataclass(frozen=True, slots=True)
class RewritePlace:
    """The version of a table, as a task opens it."""

    storage: Storage
    at: TableAt

    def open(self) -> tuple[Tables, Handle]:
        tables = self.storage.open().tables
        return tables, tables.open_at(self.at.ref, self.at.version)


@dataclass(frozen=True, slots=True)
class Gather:
    """The work of putting fragments together; task n does task n of the plan."""

    place: RewritePlace
    tasks: tuple[str, ...]

    def __call__(self, number: int) -> dict[str, Any]:
        tables, handle = self.place.open()
        return {"outcome": tables.run_compaction_task(handle, self.tasks[number])}


@dataclass(frozen=True, slots=True)
class FillColumns:
    """The work of filling columns; task n fills those of the n-th fragments."""

    place: RewritePlace
    fills: tuple[ColumnFill, ...]
    parts: tuple[tuple[int, ...], ...]

    def __call__(self, number: int) -> dict[str, Any]:
        tables, handle = self.place.open()
        try:
            return {"filled": [tables.fill(handle, self.fills, n) for n in self.parts[number]]}
        except BackfillInvalid as error:
            return {"invalid": [error.entity, error.reason]}


@dataclass(frozen=True, slots=True)
class Copy:
    """The work of copying rows; task n copies those of the n-th fragments."""

    place: RewritePlace
    parts: tuple[tuple[int, ...], ...]

    def __call__(self, number: int) -> dict[str, Any]:
        tables, handle = self.place.open()
        with tables.scan(handle, ScanRequest(fragment_ids=self.parts[number])) as batches:
            rows = pa.RecordBatchReader.from_batches(handle.schema, batches)
            staged = tables.stage_overwrite(handle, handle.schema, UNNAMED, rows)
        receipts = tables.to_pieces(staged).fresh
        return {"receipts": [[each.fragment, each.row_count] for each in receipts]}


@dataclass(frozen=True, slots=True)
class SparkRewriter:
    """`engine.schema.rewriting.Rewriter` on Spark."""

    settings: SparkSettings
    storage: Storage

    def run_compaction_task(self, at: TableAt, tasks: Sequence[str]) -> tuple[str, ...]:
        work = Gather(RewritePlace(self.storage, at), tuple(tasks))
        answers = self._run(work, len(tasks), "putting fragments together")
        return tuple(str(each["outcome"]) for each in answers)

    def fill(
        self, at: TableAt, fills: tuple[ColumnFill, ...], fragment_ids: Sequence[int]
    ) -> tuple[str, ...]:
        parts = _cut(fragment_ids)
        work = FillColumns(RewritePlace(self.storage, at), fills, parts)
        answers = self._run(work, len(parts), "filling columns")
        for answer in answers:
            if refused := answer.get("invalid"):
                entity, reason = refused
                raise BackfillInvalid(entity, reason=reason)
        return tuple(each for answer in answers for each in answer["filled"])

    def copy(self, at: TableAt, fragment_ids: Sequence[int]) -> tuple[Receipt, ...]:
        parts = _cut(fragment_ids)
        answers = self._run(Copy(RewritePlace(self.storage, at), parts), len(parts), "copying rows")
        return tuple(Receipt(*each) for answer in answers for each in answer["receipts"])

    def _run(self, work: Work, count: int, job: str) -> list[dict[str, Any]]:
        if not count:
            return []
        spark, root = find_session(self.settings), self.storage.root
        is_seen = not root.is_local or runs_here(spark)
        return run_tasks(
            spark,
            work,
            count,
            job=job,
            concurrency=self.settings.concurrency,
            marker=None if is_seen else str(Path(root.uri) / MANIFEST),
        )


def _cut(fragment_ids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(fragment_ids[start : start + FRAGMENTS_PER_TASK])
        for start in range(0, len(fragment_ids), FRAGMENTS_PER_TASK)
    )


def open_rewriter(root: Root, settings: Settings, spark: SparkSettings | None) -> SparkRewriter:
    """Where `spark` says, or the environment. Raises SparkUnusable."""
    storage = Storage(root, settings.storage_options, settings.durability)
    return SparkRewriter(spark or read_settings(), storage)
