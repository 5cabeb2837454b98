"""Tables that are written anew: by this process if they are small, by others if they are large.

A compaction, the filling of a new column and the copying of all rows differ in what is written. In
each the work falls into parts that do not know each other, and a part comes to the description of
its files. Whoever does the parts commits nothing; the engine knows no Spark.

As long as others write, a staging note speaks for their files (D8): on a branch the lease of the
table does not keep its files from being cleaned up.
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
    """The version of a table that is written anew, as others find it."""

    ref: TableRef
    version: int


class Rewriter(Protocol):
    """Writes parts of a table elsewhere. Every method may raise JobFailed, and before it has begun
    SparkUnusable and JavaMissing; then nothing refers to what was written.
    """

    def run_compaction_task(self, at: TableAt, tasks: Sequence[str]) -> tuple[str, ...]:
        """Do the tasks of `Tables.plan_compaction`."""
        ...

    def fill(
        self, at: TableAt, fills: tuple[ColumnFill, ...], fragment_ids: Sequence[int]
    ) -> tuple[str, ...]:
        """What `Tables.fill` says of each of these fragments. Raises BackfillInvalid."""
        ...

    def copy(self, at: TableAt, fragment_ids: Sequence[int]) -> tuple[Receipt, ...]:
        """The rows of these fragments in new ones, in the same order."""
        ...


RewriterFactory = Callable[[int], Rewriter | None]
"""Who writes a table of so many rows anew; None: this process."""


def in_process(row_count: int) -> None:
    """Everything is written by this process."""
    del row_count


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Stages what is written anew, each table by whom it is for."""

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
            # The first is filled here: what does not fit is mostly found before anybody is
            # bothered.
            first, *others = _fragments_of(self.tables, handle)
            described = self.tables.fill(handle, reshape.fills, first)
            with _absence_excused():
                filled = [described, *rewriter.fill(_at(handle), reshape.fills, others)]
                return self.tables.stage_reshape(handle, reshape, mark, filled=filled)
        return self.tables.stage_reshape(handle, reshape, mark)

    def copy(self, handle: Handle, mark: Mark) -> Staged:
        """The same rows in new files, which hold nothing else."""
        rewriter = self.rewriter_for(handle.row_count)
        if rewriter is not None:
            with _absence_excused():
                copied = rewriter.copy(_at(handle), _fragments_of(self.tables, handle))
                return self.tables.stage_overwrite(handle, handle.schema, mark, receipts=copied)
        with self.tables.scan(handle) as batches:
            rows = pa.RecordBatchReader.from_batches(handle.schema, batches)
            return self.tables.stage_overwrite(handle, handle.schema, mark, rows)

    @contextmanager
    def noted(self, lock: WriteLock) -> Iterator[None]:
        """While this lasts, nobody takes what others write for leftovers."""
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
    """Without Java, or without a Spark that works, this process does it: slower, and the same."""
    try:
        yield
    except (JavaMissing, SparkUnusable) as absence:
        logger.warning("a large table is written by this process: %s", absence)


def _at(handle: Handle) -> TableAt:
    return TableAt(handle.ref, handle.version)


def _fragments_of(tables: Tables, handle: Handle) -> list[int]:
    return [each.fragment_id for each in tables.find_fragments(handle)]
