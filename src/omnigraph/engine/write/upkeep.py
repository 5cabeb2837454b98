"""Upkeep: keeps writes cheap by compacting small fragments and extending the indexes of writes.

Every write adds a fragment to its table, and the checks of the next write must scan fragments that
no index covers. So a writer that finds too many of them runs upkeep after its own commit, as an
operation with its own sidecar and its own commit. Upkeep does not wait: a table that another writer
locks is left for later (D10). With `OVERDUE` times too many fragments, upkeep waits in the queue
like every writer, because a busy table would never be free.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from cachetools import LRUCache

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.commit.manifest.records import UPKEEP
from omnigraph.errors import OmnigraphError
from omnigraph.ids import BranchName, TableKey, split_table_key
from omnigraph.storage.tables import (
    Handle,
    IndexKind,
    IndexScope,
    IndexSpec,
    Mark,
    Staged,
    StagedCompaction,
    TableStats,
)

FRAGMENTS_MAX: Final = 32
"""How many small or uncovered fragments a table may have before upkeep."""

OVERDUE: Final = 4
"""With so many times `FRAGMENTS_MAX`, upkeep waits for the lock."""

WAIT_MS_MAX: Final = 2_000
"""How long upkeep then waits for other processes."""

SMALL_ROWS: Final = 10_000
"""A fragment of fewer rows is compacted."""

SEGMENTS_MAX: Final = 16
"""How many segments an index may have before it is rebuilt as one."""

PLACES_KEPT_MAX: Final = 4_096
"""For how many tables the next inspection is remembered; a forgotten one costs a read."""

logger = logging.getLogger(__name__)


def write_indexes(catalog: Catalog, key: TableKey) -> tuple[IndexSpec, ...]:
    """The indexes that writes use for their look-ups."""
    kind, name = split_table_key(key)
    declared: NodeType | EdgeType | None = (
        catalog.node(name) if kind == "node" else catalog.edge(name)
    )
    columns = ("id",) if isinstance(declared, NodeType) else ("id", "src", "dst")
    return tuple(IndexSpec(column, IndexKind.BTREE) for column in columns)


@dataclass
class Upkeep:
    """Decides when a table needs upkeep, and runs it."""

    context: WriteContext
    catalog: Catalog
    _due: LRUCache[tuple[BranchName, str, TableKey], int] = field(
        default_factory=lambda: LRUCache(PLACES_KEPT_MAX)
    )
    """The table version at which the table is inspected next."""
    _lock: Lock = field(default_factory=Lock)

    def after(self, branch: BranchName, keys: Collection[TableKey]) -> None:
        """Called after every published commit. A failure of upkeep is logged, never raised."""
        for key in sorted(keys):
            try:
                untidy = self._look(branch, key)
                if untidy >= FRAGMENTS_MAX:
                    self.tidy(branch, key, is_overdue=untidy >= OVERDUE * FRAGMENTS_MAX)
            except OmnigraphError as trouble:
                # The write is acknowledged; a later write repeats the upkeep.
                logger.info("left %s on %s untidied: %s", key, branch, trouble)

    def _look(self, branch: BranchName, key: TableKey) -> int:
        """How many fragments need upkeep; 0 if the table is not inspected now.

        An inspection costs a read. A version adds at most one small fragment, so the version of
        the next inspection is known.
        """
        base = self.context.bases.known(branch)
        pin = None if base is None else base.manifest.pins.get(key)
        if base is None or pin is None or pin.owner != branch:
            return 0
        place = (branch, base.identifier, key)
        with self._lock:
            if pin.version < self._due.get(place, 0):
                return 0
        stats = self.context.stores.tables.inspect(self.context.open_pin(pin, base))
        untidy = count_untidy(stats, write_indexes(self.catalog, key))
        missing = FRAGMENTS_MAX - untidy
        with self._lock:
            self._due[place] = pin.version + (missing if missing > 0 else FRAGMENTS_MAX)
        return untidy

    def tidy(self, branch: BranchName, key: TableKey, *, is_overdue: bool = False) -> bool:
        """Compact and extend the indexes, if enough fragments need it."""
        if not is_overdue and not self.context.queues.is_free(LockKey(key, branch)):
            return False
        wait_ms_max = WAIT_MS_MAX if is_overdue else 0
        with acquire_write_locks(self.context, branch, [key], wait_ms_max=wait_ms_max) as lock:
            return self.tidy_held(lock, key)

    def tidy_held(self, lock: WriteLock, key: TableKey) -> bool:
        """The same, for a caller that holds the lock of the table."""
        base = lock.base
        pin, branch = base.manifest.pins[key], base.manifest.branch
        if pin.owner != branch:
            return False
        specs = write_indexes(self.catalog, key)
        stats = self.context.stores.tables.inspect(self.context.open_pin(pin, base))
        if not needs_upkeep(stats, specs):
            return False
        steps = _Steps(self.context, specs, index_scope(stats))
        write = TableWrite(key, pin.version, (steps.compact, steps.index), is_named=False)
        run(lock, Change(WriterKind.OPTIMIZE, branch, (write,), actor=UPKEEP))
        return True


def needs_upkeep(stats: TableStats, specs: tuple[IndexSpec, ...]) -> bool:
    """Are too many fragments small, or uncovered by an index?"""
    return count_untidy(stats, specs) >= FRAGMENTS_MAX


def count_untidy(stats: TableStats, specs: tuple[IndexSpec, ...]) -> int:
    """The number of small fragments, or of fragments that some index lacks, if greater."""
    small = sum(each.row_count < SMALL_ROWS for each in stats.fragments)
    everything = {each.fragment_id for each in stats.fragments}
    known = {each.column: each.covered for each in stats.indices}
    uncovered = (len(everything - known.get(spec.column, frozenset())) for spec in specs)
    return max(small, *uncovered)


def index_scope(stats: TableStats) -> IndexScope:
    pieces = max((each.segment_count for each in stats.indices), default=0)
    return IndexScope.REBUILD if pieces >= SEGMENTS_MAX else IndexScope.UNCOVERED


@dataclass(frozen=True, slots=True)
class _Steps:
    context: WriteContext
    specs: tuple[IndexSpec, ...]
    scope: IndexScope

    def compact(self, handle: Handle, mark: Mark) -> StagedCompaction | None:  # noqa: ARG002
        return self.context.stores.tables.stage_compaction(handle)

    def index(self, handle: Handle, mark: Mark) -> Staged | None:
        return self.context.stores.tables.stage_indices(handle, self.specs, self.scope, mark)
