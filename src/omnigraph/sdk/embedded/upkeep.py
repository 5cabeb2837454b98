"""Looking after an embedded graph: schema, indexes, files, and what dead writers left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.engine.graph import Graph
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, parse_branch
from omnigraph.lang.source import Source
from omnigraph.sdk.files import read_text

if TYPE_CHECKING:
    from omnigraph.commit.recovery.audit import Recovery
    from omnigraph.commit.relocation import RelocateResult
    from omnigraph.engine.maintain.cleanup import CleanupResult
    from omnigraph.engine.maintain.doctor import DoctorFinding
    from omnigraph.engine.maintain.indexes import IndicesResult
    from omnigraph.engine.maintain.inspection import PastRecovery, PendingWrite
    from omnigraph.engine.maintain.optimize import OptimizeResult
    from omnigraph.engine.maintain.repair import RepairResult
    from omnigraph.engine.schema.apply import SchemaResult
    from omnigraph.engine.schema.plan import SchemaPlan, SchemaRequest
    from omnigraph.pipeline.settings import SparkSettings

AGE_S_MAX: Final = 36_525 * 24 * 60 * 60
"""A hundred years."""


class LocalUpkeep:
    """The part of an embedded graph for whoever runs it."""

    _graph: Graph

    # the schema

    def plan_schema(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        backfill: Mapping[str, str] | None = None,
    ) -> SchemaPlan:
        """What another schema would change: its steps, and what they do to which tables.

        Nothing is changed, and a plan may hold steps that cannot be taken. Raises SchemaInvalid,
        BackfillInvalid, FileUnreadable.
        """
        return self._graph.plan_schema(
            _schema_order(schema, allow_data_loss=allow_data_loss, backfill=backfill)
        )

    def apply_schema(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        backfill: Mapping[str, str] | None = None,
        portable: bool = False,
        actor: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
        spark: SparkSettings | None = None,
    ) -> SchemaResult:
        """Put another schema in force: one commit, or none if it changes nothing.

        `schema` is the text of a schema, or the path of one. `backfill` says what old rows get in
        a new property: `Type.property` to an SQL expression over their other columns. Drops hide;
        with `allow_data_loss` they purge older versions too. `portable` refuses a schema that the
        reference 0.8 does not understand. Large tables are filled and rewritten on Spark; where,
        `spark` says, or the environment.

        Raises UsageError, SchemaInvalid, MigrationUnsupported, BackfillInvalid; BranchesExist while
        there are other branches; SchemaLocked, SchemaChanged when another process changes it;
        OpenedReadOnly; JobFailed.
        """
        from omnigraph.catalog.portability import check_portable
        from omnigraph.engine.active_schema import compile_active_schema
        from omnigraph.engine.write.idempotency import parse_key
        from omnigraph.sdk.embedded.rewriting import spark_rewriters

        order = _schema_order(
            schema, allow_data_loss=allow_data_loss, backfill=backfill, actor=actor
        )
        if portable:
            check_portable(compile_active_schema(order.text, name=order.name).catalog)
        key = parse_key(
            idempotency_key, "schema apply", order.text, allow_data_loss, dict(order.backfill)
        )
        return self._graph.apply_schema(
            replace(order, idempotency=key, message=message), spark_rewriters(self._graph, spark)
        )

    # indexes

    def ensure_indices(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        queries: str | Path | None = None,
        message: str | None = None,
    ) -> IndicesResult:
        """Build the indexes that are missing, as commits of their own; nothing if none is.

        `queries` is the text or the path of a query file: properties it looks for pieces of words
        in (`contains`) are indexed for that too, from then on. What cannot be built yet, such as
        an index over vectors that are all null, is reported as pending.

        Raises BranchNotFound, SchemaLocked, LeaseHeld, QueryInvalid, OpenedReadOnly.
        """
        source = None
        if queries is not None:
            text, called = read_text(queries, "<queries>")
            source = Source(called, text)
        return self._graph.ensure_indices(
            parse_branch(branch), actor=actor, queries=source, message=message
        )

    # maintenance

    def optimize(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
        spark: SparkSettings | None = None,
    ) -> OptimizeResult:
        """Put small fragments together and bring the indexes up to date. Removes nothing.

        Large tables are compacted on Spark; where, `spark` says, or the environment. Raises
        BranchNotFound, SchemaLocked, LeaseHeld, OpenedReadOnly, JobFailed.
        """
        from omnigraph.engine.write.idempotency import parse_key
        from omnigraph.sdk.embedded.rewriting import spark_rewriters

        key = parse_key(idempotency_key, "optimize", branch)
        rewriters = spark_rewriters(self._graph, spark)
        return self._graph.optimize(
            parse_branch(branch),
            actor=actor,
            idempotency=key,
            message=message,
            rewriter_for=rewriters,
        )

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than_s: float | None = None,
        confirm: bool = False,
        actor: str | None = None,
    ) -> CleanupResult:
        """Remove what no branch shows and no retained commit does; without `confirm`, say what.

        Retained are the newest `keep` commits of each branch, and those younger than
        `older_than_s` seconds; with both, a commit goes when neither retains it. Raises UsageError,
        SchemaLocked, OpenedReadOnly.
        """
        from omnigraph.commit.retention import RetentionPolicy
        from omnigraph.engine.maintain.cleanup import CleanupRequest

        if keep is not None and keep < 1:
            raise UsageError("keep at least one commit")
        if older_than_s is not None and not 0 <= older_than_s <= AGE_S_MAX:
            raise UsageError(f"an age is from 0 to {AGE_S_MAX} seconds, which is a hundred years")
        age_ms = None if older_than_s is None else int(older_than_s * 1000)
        return self._graph.cleanup(
            CleanupRequest(RetentionPolicy(keep, age_ms), confirm), actor=actor
        )

    def repair(
        self,
        *,
        confirm: bool = False,
        force: bool = False,
        discard: bool = False,
        actor: str | None = None,
    ) -> RepairResult:
        """Look for tables that another tool moved. With `confirm`, maintenance is shown from now
        on; with `force`, anything is; with `discard`, all of it is taken back.

        Raises UsageError, SchemaLocked, RecoveryPending, OpenedReadOnly.
        """
        from omnigraph.engine.maintain.repair import RepairRequest

        return self._graph.repair(RepairRequest(confirm, force, discard), actor=actor)

    def doctor(self, *, deep: bool = False) -> list[DoctorFinding]:
        """Everything that is wrong with the graph, and what to do about it; `deep` reads all rows.

        Changes nothing.
        """
        return self._graph.examine(is_deep=deep)

    # recovery

    def refresh(self) -> tuple[Recovery, ...]:
        """Finish or undo whatever dead writers left behind; what was done about each.

        Every write does this first. Raises SidecarCorrupt, SidecarTooNew, InvariantViolated,
        OpenedReadOnly.
        """
        return self._graph.refresh()

    def pending_writes(self) -> tuple[PendingWrite, ...]:
        """Writes that are under way, or wait to be finished or undone; oldest first."""
        return self._graph.pending_writes()

    # moving

    def relocate(self, *, actor: str | None = None) -> RelocateResult:
        """Make every branch read its files from the place of this graph.

        Opening a moved graph for writing does that. This repeats it, for files that were copied
        here since; a graph that is where it was stays as it is.

        Raises LeaseHeld while another process writes, GraphRelocated, OpenedReadOnly.
        """
        return self._graph.relocate(actor=actor)

    def recoveries(self) -> tuple[PastRecovery, ...]:
        """What was done about writes that did not finish; newest first."""
        return self._graph.recoveries()


def _schema_order(
    schema: str | Path,
    *,
    allow_data_loss: bool,
    backfill: Mapping[str, str] | None,
    actor: str | None = None,
) -> SchemaRequest:
    from omnigraph.engine.schema.plan import SchemaRequest

    text, name = read_text(schema, "<schema>")
    return SchemaRequest(text, name, allow_data_loss, dict(backfill or {}), actor)
