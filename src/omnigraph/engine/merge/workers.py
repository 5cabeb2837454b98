"""What a merge asks of whoever does its bulk work. The engine knows no Spark.

1. Workers decide by the same rules, and with the same code: each takes some of the ids, and says
   what becomes of their rows. What comes back are places and conflicts, never rows.
2. Workers write the rows a plan names, and mark those it replaces or removes, as files that nothing
   refers to. All pieces of a table become one commit, which the attempt makes.
3. Nothing of this is asked for, or started, before a table has more rows to look at than
   `rows_max`. Rows on which somebody ruled are few, and settled here. Where there are no workers
   to be found the merge is done without them: it takes longer, and comes to the same.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from omnigraph.catalog.model import Catalog
from omnigraph.engine.history.table_diff import exceeds
from omnigraph.engine.merge.rulings import Rulings
from omnigraph.engine.merge.table_plan import PlanDraft, Sides, TablePlan
from omnigraph.errors import JavaMissing, SparkUnusable
from omnigraph.ids import OperationId
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import Root
from omnigraph.storage.tables import Handle, Pieces, Tables

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MergeJob:
    """One merge, as workers have to know it."""

    operation_id: OperationId
    catalog: Catalog
    rulings: Rulings
    root: Root
    storage_options: Mapping[str, str] = field(repr=False)
    durability: Durability


class Workers(Protocol):
    """Workers that are there, for one merge."""

    def draft(self, sides: Sides) -> Iterator[PlanDraft]:
        """(1) What becomes of all rows, share by share. Raises JobFailed."""
        ...

    def write(self, plan: TablePlan, onto: Handle) -> tuple[Pieces, ...]:
        """(2) Have rows written for the version they go on, and all that a plan replaces marked.

        Edits are not written: whoever asks has them. Raises JobFailed.
        """
        ...


class BulkMerge(Protocol):
    """Finds workers."""

    @property
    def rows_max(self) -> int:
        """(3) How many rows of a table are no work for workers."""
        ...

    def open(self, job: MergeJob) -> AbstractContextManager[Workers]:
        """What they put aside is gone when the context ends. Raises JavaMissing, SparkUnusable."""
        ...


@dataclass
class MergeWorkers:
    """The workers of one merge, if it needs any. As a context, it sends them home."""

    tables: Tables
    bulk: BulkMerge | None
    job: MergeJob
    note: AbstractContextManager[object]
    """Speaks for what they write, from before they begin."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _found: Workers | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def find_for_planning(self, sides: Sides) -> Workers | None:
        """(3) Workers to decide about a table, if it is worth it."""
        if self.bulk is None:
            return None
        rows_max = self.bulk.rows_max
        is_much = any(exceeds(self.tables, each, sides.source, rows_max) for each in sides.bases)
        return self._find(self.bulk) if is_much else None

    def find_for_writing(self, plan: TablePlan) -> Workers | None:
        if self.bulk is None or plan.row_count <= self.bulk.rows_max:
            return None
        return self._find(self.bulk)

    def _find(self, bulk: BulkMerge) -> Workers | None:
        if self._found is None:
            with ExitStack() as stack:
                stack.enter_context(self.note)
                try:
                    self._found = stack.enter_context(bulk.open(self.job))
                except (JavaMissing, SparkUnusable) as error:
                    logger.warning("merging without workers: %s", error)
                    self.bulk = None
                    return None
                self._stack = stack.pop_all()
        return self._found
