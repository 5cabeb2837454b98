"""Optimize: compacts small fragments of a branch and brings its indexes up to date.

Optimize deletes nothing: every commit still shows the same rows. A run is one change with one
sidecar and one commit, for all tables of the branch that need it. Each table goes through the same
steps: compact its fragments, remove settings that would purge versions, extend its indexes to new
rows, and store the totals of its texts. The manifest is not optimized; publishers keep it small.

Texts of large tables are counted before any lock, and fragments are written before the sidecar.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit, JsonObject, JsonValue
from omnigraph.commit.recovery.heal import heal
from omnigraph.engine.maintain.indexes import (
    IndexReport,
    IndexRequest,
    IndexState,
    IndexSurvey,
    Surveyor,
    open_surveyor,
)
from omnigraph.engine.schema.rewriting import RewriterFactory, Rewriting, in_process
from omnigraph.engine.stages import stage
from omnigraph.engine.write.idempotency import IdempotencyKey, find_done, run_idempotent
from omnigraph.errors import DriftFound
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraph.storage.tables import Handle, Mark, Staged, StagedCompaction, TableSettings

AUTO_CLEANUP: Final = "lance.auto_cleanup."
"""Settings by which the table format would purge versions by itself, even shown ones."""

DRIFT: Final = "drift_needs_repair"


@dataclass(frozen=True, slots=True)
class OptimizeRequest:
    branch: BranchName = MAIN
    actor: str | None = None
    idempotency: IdempotencyKey | None = None
    """A repeated request with this key returns the first result."""
    message: str | None = None
    """Why; kept in the commit."""


@dataclass(frozen=True, slots=True)
class OptimizedTable:
    key: TableKey
    fragments_removed: int
    fragments_added: int
    is_committed: bool
    version: Version
    """The version the branch shows afterwards."""
    head: Version
    """The newest version of the table; it differs only if another tool moved the table."""
    skipped: str | None = None
    pending: tuple[IndexReport, ...] = ()
    """Indexes that cannot be built yet."""

    def to_json(self) -> JsonObject:
        return {
            "table_key": self.key,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "committed": self.is_committed,
            "skipped": self.skipped,
            "manifest_version": self.version,
            "lance_head_version": self.head,
            "pending_indexes": [
                {"column": each.column, "index": each.kind, "reason": each.reason}
                for each in self.pending
            ],
        }


def decode_table(document: Mapping[str, Any]) -> OptimizedTable:
    """The inverse of `OptimizedTable.to_json`. Raises KeyError, TypeError."""
    key = TableKey(document["table_key"])
    return OptimizedTable(
        key,
        document["fragments_removed"],
        document["fragments_added"],
        is_committed=document["committed"],
        version=Version(document["manifest_version"]),
        head=Version(document.get("lance_head_version", document["manifest_version"])),
        skipped=document["skipped"],
        pending=tuple(
            IndexReport(key, each["column"], each["index"], IndexState.PENDING, each["reason"])
            for each in document["pending_indexes"]
        ),
    )


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    branch: BranchName
    tables: tuple[OptimizedTable, ...]
    commits: tuple[Commit, ...]
    """One commit, or none if no table needed it."""


def optimize(
    context: WriteContext,
    catalog: Catalog,
    request: OptimizeRequest,
    rewriter_for: RewriterFactory = in_process,
) -> OptimizeResult:
    """Optimize every table that a branch owns; `rewriter_for` names who compacts a large one.

    Raises BranchNotFound, SchemaLocked, LeaseHeld, KeyReused and what `commit.attempt` raises.
    """
    heal(context)

    def act() -> OptimizeResult:
        result = _optimize(context, catalog, request, rewriter_for)
        if request.idempotency is not None:
            _remember(context, request, request.idempotency, result)
        return result

    return run_idempotent(lambda: _find_optimized(context, request), act)


def _optimize(
    context: WriteContext, catalog: Catalog, request: OptimizeRequest, rewriter_for: RewriterFactory
) -> OptimizeResult:
    before = context.bases.current(request.branch)
    surveyor = open_surveyor(context, catalog, IndexRequest(request.branch, request.actor))
    work = _Run(context, request, surveyor, Rewriting(context.stores.tables, rewriter_for))
    work.count_texts(before)
    commits = work.carry_out()
    after = context.bases.current(request.branch)
    tables = []
    for key, pin in after.manifest.pins.items():
        known = before.manifest.pins.get(key)
        was, now = work.fragments_of(key), work.fragments_now(pin, after)
        tables.append(
            OptimizedTable(
                key,
                len(was - now),
                len(now - was),
                is_committed=known is not None and known.version != pin.version,
                version=pin.version,
                head=work.drifted.get(key, pin.version),
                skipped=DRIFT if key in work.drifted else None,
                pending=work.pending_of(key),
            )
        )
    return OptimizeResult(request.branch, tuple(tables), commits)


def _remember(
    context: WriteContext,
    request: OptimizeRequest,
    idempotency: IdempotencyKey,
    result: OptimizeResult,
) -> None:
    """Record the result under the idempotency key, in a second commit.

    The result is known only after the first commit is published. If a crash separates the two, the
    repeated request finds nothing left to optimize.
    """
    with acquire_write_locks(context, request.branch, ()) as lock:
        record = idempotency.record(_encode(result))
        run(
            lock,
            Change(
                WriterKind.OPTIMIZE,
                request.branch,
                (),
                actor=request.actor,
                message=request.message,
                idempotency=record,
            ),
        )


def _find_optimized(context: WriteContext, request: OptimizeRequest) -> OptimizeResult | None:
    """The result of an earlier request with the same key. Raises KeyReused."""
    if request.idempotency is None:
        return None
    manifest = context.bases.current(request.branch).manifest
    done = find_done(manifest, request.idempotency, request.actor)
    if done is None:
        return None
    listed = _list(done.result.get("commits"))
    commits = [manifest.log.find(CommitId(str(each))) for each in listed]
    return OptimizeResult(
        request.branch,
        tuple(map(decode_table, _list(done.result.get("tables")))),
        tuple(each for each in commits if each is not None),
    )


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []


def _encode(result: OptimizeResult) -> JsonObject:
    tables: list[JsonValue] = [each.to_json() for each in result.tables]
    commits: list[JsonValue] = [each.id for each in result.commits]
    return {"tables": tables, "commits": commits}


@dataclass
class _Run:
    context: WriteContext
    request: OptimizeRequest
    surveyor: Surveyor
    rewriting: Rewriting
    drifted: dict[TableKey, Version] = field(default_factory=dict)
    """Tables that another tool moved, and their newest version. They are skipped."""
    surveys: Mapping[TableKey, IndexSurvey] = field(default_factory=dict)
    """The surveys of the tables before the run."""

    def count_texts(self, base: Base) -> None:
        """Count the texts of large tables before any lock is taken."""
        for pin in base.manifest.pins.values():
            if pin.row_count > self.surveyor.request.rows_together_max:
                self.surveyor.count_texts(pin, base)

    def carry_out(self) -> tuple[Commit, ...]:
        """One commit for all tables; none if no table needs it."""
        branch = self.request.branch
        while True:
            pins = self.context.bases.current(branch).manifest.pins
            keys = {key for key, pin in pins.items() if pin.owner == branch} - self.drifted.keys()
            if not keys:
                self._survey(self.context.bases.current(branch))
                return ()
            try:
                with (
                    acquire_write_locks(self.context, branch, keys) as lock,
                    self.rewriting.protected(lock),
                ):
                    writes = self._plan(lock, keys)
                    if not writes:
                        return ()
                    change = Change(
                        WriterKind.OPTIMIZE,
                        branch,
                        writes,
                        actor=self.request.actor,
                        message=self.request.message,
                        counts={},
                    )
                    with stage("indexing and committing"):
                        return tuple(run(lock, change).commits)
            except DriftFound as drift:
                self.drifted[TableKey(drift.table_key)] = Version(drift.head)

    def _plan(self, lock: WriteLock, keys: set[TableKey]) -> tuple[TableWrite, ...]:
        shown = lock.base.manifest.pins
        surveys = self._survey(lock.base)
        planned = [
            TableWrite(
                key,
                shown[key].version,
                self._stages(lock, shown[key], surveys[key]),
                is_named=False,
            )
            for key in sorted(keys & shown.keys())
        ]
        return tuple(each for each in planned if each.stages)

    def _survey(self, base: Base) -> Mapping[TableKey, IndexSurvey]:
        pins = base.manifest.pins
        self.surveys = {key: self.surveyor.survey(pin, base) for key, pin in pins.items()}
        return self.surveys

    def _stages(self, lock: WriteLock, pin: Pin, survey: IndexSurvey) -> tuple[Stage, ...]:
        """The stages of a table. Compacted fragments are written here, before any table moves."""
        handle = self.context.open_pin(pin, lock.base)
        stages: list[Stage] = []
        with stage(f"compacting {pin.key}"):
            staged = self.rewriting.compact(handle)
        if staged is not None:
            self.surveyor.ledger.carry_over(handle, survey.stats, survey.totalled, staged)
            stages.append(_Compacted(staged))
        doomed = {name: None for name in handle.config if name.startswith(AUTO_CLEANUP)}
        if doomed:
            stages.append(partial(self._strip, TableSettings(config=doomed)))
        # Totals are stored per fragment, and a compaction replaces the fragments.
        totals = survey.uncounted if staged is None else survey.totalled
        return (*stages, *survey.write(None, totals).stages)

    def fragments_of(self, key: TableKey) -> frozenset[int]:
        """The fragments before the run."""
        survey = self.surveys.get(key)
        fragments = () if survey is None else survey.stats.fragments
        return frozenset(each.fragment_id for each in fragments)

    def fragments_now(self, pin: Pin, base: Base) -> frozenset[int]:
        parts = self.context.stores.tables.find_fragments(self.context.open_pin(pin, base))
        return frozenset(each.fragment_id for each in parts)

    def pending_of(self, key: TableKey) -> tuple[IndexReport, ...]:
        survey = self.surveys.get(key)
        reports = () if survey is None else survey.reports
        return tuple(each for each in reports if each.state is IndexState.PENDING)

    def _strip(self, settings: TableSettings, handle: Handle, mark: Mark) -> Staged:
        return self.context.stores.tables.stage_settings(handle, settings, mark)


@dataclass(frozen=True, slots=True)
class _Compacted:
    staged: StagedCompaction

    def __call__(self, handle: Handle, mark: Mark) -> StagedCompaction:  # noqa: ARG002
        return self.staged
