"""The protocol between a merge and the workers that do its bulk work. The engine imports no Spark.

1. Workers plan with the same code: each takes a share of the ids and plans their rows. A worker
   returns row refs and conflicts, never rows.
2. Workers write the rows of a plan, and deletion marks for the rows it replaces or deletes, into
   files that no version refers to. All pieces of a table become one commit of the attempt.
3. A merge starts workers only if a table has more than `rows_max` rows to compare or write. Rows
   with a ruling are few and are planned in this process. If no workers can be started, this
   process does the work: slower, with the same result.
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
    """What workers need to know about one merge."""

    operation_id: OperationId
    catalog: Catalog
    rulings: Rulings
    root: Root
    storage_options: Mapping[str, str] = field(repr=False)
    durability: Durability


class Workers(Protocol):
    """Running workers of one merge."""

    def draft(self, sides: Sides) -> Iterator[PlanDraft]:
        """(1) Plan all rows, share by share. Raises JobFailed."""
        ...

    def write(self, plan: TablePlan, onto: Handle) -> tuple[Pieces, ...]:
        """(2) Write the rows of a plan onto a version, and mark the rows that the plan replaces.

        Edits are not written: the caller writes them. Raises JobFailed.
        """
        ...


class BulkMerge(Protocol):
    """Starts workers."""

    @property
    def rows_max(self) -> int:
        """(3) Up to this many rows of a table, no workers are used."""
        ...

    def open(self, job: MergeJob) -> AbstractContextManager[Workers]:
        """Start workers; their scratch files are deleted when the context ends.

        Raises JavaMissing, SparkUnusable.
        """
        ...


@dataclass
class MergeWorkers:
    """The workers of one merge, started on first use and stopped when the context ends."""

    tables: Tables
    bulk: BulkMerge | None
    job: MergeJob
    marker: AbstractContextManager[object]
    """The staging record that protects their files from cleanup; held before they start."""
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
        """(3) Workers to plan a table, if it is large enough."""
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
                stack.enter_context(self.marker)
                try:
                    self._found = stack.enter_context(bulk.open(self.job))
                except (JavaMissing, SparkUnusable) as error:
                    logger.warning("merging without workers: %s", error)
                    self.bulk = None
                    return None
                self._stack = stack.pop_all()
        return self._found
