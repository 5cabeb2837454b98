"""Maintenance and recovery of an open graph."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.engine.gate import Action
from omnigraph.engine.graph.state import Mode, OpenGraph
from omnigraph.engine.query.columns.table_cache import TableCache
from omnigraph.engine.query.target import Target
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.ids import MAIN, BranchName
from omnigraph.lang.source import Source
from omnigraph.storage.layout import RECOVERY

if TYPE_CHECKING:
    from omnigraph.commit.recovery.audit import Recovery
    from omnigraph.commit.relocation import RelocateResult
    from omnigraph.engine.maintain.cleanup import CleanupRequest, CleanupResult
    from omnigraph.engine.maintain.doctor import DoctorFinding
    from omnigraph.engine.maintain.indexes import IndicesResult
    from omnigraph.engine.maintain.inspection import PastRecovery, PendingWrite
    from omnigraph.engine.maintain.optimize import OptimizeResult
    from omnigraph.engine.maintain.repair import RepairRequest, RepairResult
    from omnigraph.engine.query.columns.view import View
    from omnigraph.engine.schema.rewriting import RewriterFactory
    from omnigraph.engine.write.idempotency import IdempotencyKey


class GraphMaintenance(OpenGraph):
    def ensure_indices(
        self,
        branch: BranchName = MAIN,
        *,
        actor: str | None = None,
        queries: Source | None = None,
        message: str | None = None,
    ) -> IndicesResult:
        """Build the missing indexes, as a commit of their own; no commit if none is missing.

        A property that `queries` search with `contains` gets a text index. Raises BranchNotFound,
        SchemaLocked, LeaseHeld, QueryInvalid.
        """
        from omnigraph.engine.maintain.indexes import IndexRequest, ensure_indices
        from omnigraph.engine.maintain.wanted_indexes import find_substrings

        self._check_signer(actor, message)
        self._gate(actor, Action.ADMIN, branch)
        catalog = self.active_schema().catalog
        used = frozenset() if queries is None else find_substrings(queries, catalog)
        request = IndexRequest(branch, actor, used, message=message)
        return ensure_indices(self._context, catalog, request)

    def optimize(
        self,
        branch: BranchName = MAIN,
        *,
        actor: str | None = None,
        idempotency: IdempotencyKey | None = None,
        message: str | None = None,
        rewriter_for: RewriterFactory | None = None,
    ) -> OptimizeResult:
        """Compact small fragments, and bring indexes, mapped files and statistics up to date.

        Removes nothing.

        Raises BranchNotFound, SchemaLocked, LeaseHeld, KeyReused, Forbidden.
        """
        from omnigraph.engine.maintain.mapping import map_tables
        from omnigraph.engine.maintain.optimize import OptimizeRequest, optimize
        from omnigraph.engine.maintain.statistics import keep_statistics
        from omnigraph.engine.schema.rewriting import in_process

        self._check_signer(actor, message)
        self._gate(actor, Action.ADMIN, branch)
        request = OptimizeRequest(branch, actor, idempotency, message)
        catalog = self.active_schema().catalog
        result = optimize(self._context, catalog, request, rewriter_for or in_process)
        with suppress(OmnigraphError):  # the commit stands, and readers do without these files
            map_tables(lambda: self._view_apart(branch), self._stores.mapped)
            if branch == MAIN:  # the branches that start from it have graphs of a like shape
                keep_statistics(self._stores.mapped, lambda: self._view_apart(branch))
        return result

    def _view_apart(self, branch: BranchName) -> View:
        """The branch as it is now, with a cache that ends with the view."""
        seen, catalog = self._targets.see(Target(branch))
        cache = TableCache(self.settings.query_cache_bytes_max)
        return replace(self._reader, cache=cache).view(catalog, seen)

    def cleanup(self, request: CleanupRequest, *, actor: str | None = None) -> CleanupResult:
        """Remove what no retained commit shows; unless confirmed, only list it.

        Raises SchemaLocked, UsageError, Forbidden.
        """
        from omnigraph.engine.maintain.cleanup import cleanup

        if request.policy.keep is None and request.policy.older_than_ms is None:
            raise UsageError("say what to keep: a number of commits, an age, or both")
        if request.is_confirmed:
            self._check_signer(actor)
        self._gate(actor, Action.ADMIN, None)
        return cleanup(self._context, request)

    def repair(self, request: RepairRequest, *, actor: str | None = None) -> RepairResult:
        """Find tables that another tool moved, and show or undo that, if it is confirmed.

        Raises UsageError, SchemaLocked, RecoveryPending, Forbidden.
        """
        from omnigraph.engine.maintain.repair import repair

        if request.is_confirmed:
            self._check_signer(actor)
        self._gate(actor, Action.ADMIN, None)
        return repair(self._context, request)

    def examine(self, *, is_deep: bool = False) -> list[DoctorFinding]:
        """Every problem of the graph, and the remedy of each.

        Changes nothing, except that fenced or torn bytes are undone first if the graph was opened
        for writing (D38).
        """
        from omnigraph.commit.recovery.drift import undo_ended
        from omnigraph.engine.maintain.doctor import examine

        if self.mode is Mode.READ_WRITE:
            undo_ended(self._context)
        return examine(self._context, is_deep=is_deep)

    def refresh(self) -> tuple[Recovery, ...]:
        """Roll forward or roll back the writes of dead writers, and undo fenced bytes.

        Every write does this first, so calling it is never necessary. Raises SidecarCorrupt,
        SidecarTooNew, InvariantViolated, OpenedReadOnly.
        """
        from omnigraph.commit.attempt.schema_lock import clear_stale
        from omnigraph.commit.recovery.drift import heal_fenced
        from omnigraph.commit.recovery.heal import heal

        self.check_writable()
        listed = self._stores.objects.list(RECOVERY)
        recovered = heal(self._context, listed)
        clear_stale(self._context)
        heal_fenced(self._context, listed)
        if recovered:
            self.active_schema()
        return recovered

    def relocate(self, *, actor: str | None = None) -> RelocateResult:
        """Make every branch read its files from here, also branches that were synced here later.

        Opening a moved graph for writing does this, so calling it is rarely necessary. Raises
        LeaseHeld, GraphRelocated, OpenedReadOnly, Forbidden.
        """
        from omnigraph.commit.relocation import relocate
        from omnigraph.engine.stages import advance_stage, stage

        self._check_signer(actor)
        self._gate(actor, Action.ADMIN, None)
        with stage("re-rooting"):
            return relocate(self._context, advance_stage)

    def pending_writes(self) -> tuple[PendingWrite, ...]:
        """Writes that are under way, or wait for recovery; oldest first."""
        from omnigraph.engine.maintain.inspection import find_pending

        return find_pending(self._context)

    def recoveries(self) -> tuple[PastRecovery, ...]:
        """The recoveries of the past; newest first."""
        from omnigraph.engine.maintain.inspection import find_recoveries

        return find_recoveries(self._context)
