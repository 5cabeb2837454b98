"""Rewriting tables: small ones in this process, large ones by workers.

A compaction, the fill of a new column and a copy of all rows differ in what they write. Each splits
into independent parts, and each part returns the description of its files. Workers commit nothing.
The engine imports no Spark.

While workers write, a staging record protects their files from cleanup (D8): on a branch, the lease
of the table does not.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from omnigraph.commit.attempt.locks import WriteLock
from omnigraph.commit.leases.staging import staging
from omnigraph.errors import JavaMissing, SparkUnusable
from omnigraph.storage.tables import (
    ColumnFill,
    Handle,
    Mark,
    Receipt,
    Reshape,
    Staged,
    StagedCompaction,
    TableRef,
    Tables,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableAt:
    """The table version that workers open and rewrite."""

    ref: TableRef
    version: int


class Rewriter(Protocol):
    """Writes parts of a table in workers.

    Every method may raise JobFailed, and before it starts SparkUnusable and JavaMissing. No version
    refers to the files it wrote.
    """

    def run_compaction_task(self, at: TableAt, tasks: Sequence[str]) -> tuple[str, ...]:
        """Run the tasks of `Tables.plan_compaction`."""
        ...

    def fill(
        self, at: TableAt, fills: tuple[ColumnFill, ...], fragment_ids: Sequence[int]
    ) -> tuple[str, ...]:
        """The result of `Tables.fill` for each of these fragments. Raises BackfillInvalid."""
        ...

    def copy(self, at: TableAt, fragment_ids: Sequence[int]) -> tuple[Receipt, ...]:
        """Copy the rows of these fragments to new ones, in the same order."""
        ...


RewriterFactory = Callable[[int], Rewriter | None]
"""The rewriter for a table of so many rows; None means this process."""


def in_process(row_count: int) -> None:
    """A `RewriterFactory` without workers."""
    del row_count


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Stages rewritten tables, by workers or in this process."""

    tables: Tables
    rewriter_for: RewriterFactory = in_process

    def compact(self, handle: Handle) -> StagedCompaction | None:
        rewriter = self.rewriter_for(handle.row_count)
        tasks = () if rewriter is None else self.tables.plan_compaction(handle)
        if rewriter is not None and tasks:
            with _absence_excused():
                return self.tables.stage_compaction_results(
                    handle, rewriter.run_compaction_task(_at(handle), tasks)
                )
        return self.tables.stage_compaction(handle)

    def reshape(self, handle: Handle, reshape: Reshape, mark: Mark) -> Staged:
        """Raises BackfillInvalid."""
        rewriter = self.rewriter_for(handle.row_count) if reshape.fills else None
        if rewriter is not None:
            # The first fragment is filled here, to find most misfits before workers start.
            first, *others = _fragments_of(self.tables, handle)
            described = self.tables.fill(handle, reshape.fills, first)
            with _absence_excused():
                filled = [described, *rewriter.fill(_at(handle), reshape.fills, others)]
                return self.tables.stage_reshape(handle, reshape, mark, filled=filled)
        return self.tables.stage_reshape(handle, reshape, mark)

    def copy(self, handle: Handle, mark: Mark) -> Staged:
        """Copy all rows into new files that contain no deleted data."""
        rewriter = self.rewriter_for(handle.row_count)
        if rewriter is not None:
            with _absence_excused():
                copied = rewriter.copy(_at(handle), _fragments_of(self.tables, handle))
                return self.tables.stage_overwrite(handle, handle.schema, mark, receipts=copied)
        with self.tables.scan(handle) as batches:
            rows = pa.RecordBatchReader.from_batches(handle.schema, batches)
            return self.tables.stage_overwrite(handle, handle.schema, mark, rows)

    @contextmanager
    def protected(self, lock: WriteLock) -> Iterator[None]:
        """While this lasts, cleanup does not delete the files of workers."""
        context, manifest = lock.context, lock.base.manifest
        large = {
            key: pin.version
            for key, pin in manifest.pins.items()
            if self.rewriter_for(pin.row_count) is not None
        }
        if not large:
            yield
            return
        timing = context.leases.timing
        with staging(context.stores.objects, lock.operation_id, manifest.branch, large, timing):
            yield


@contextmanager
def _absence_excused() -> Iterator[None]:
    """If Java or Spark does not work, fall through: this process does the work, slower."""
    try:
        yield
    except (JavaMissing, SparkUnusable) as absence:
        logger.warning("a large table is written by this process: %s", absence)


def _at(handle: Handle) -> TableAt:
    return TableAt(handle.ref, handle.version)


def _fragments_of(tables: Tables, handle: Handle) -> list[int]:
    return [each.fragment_id for each in tables.find_fragments(handle)]
