"""A merge, from the request to the commit.

    heal → find heads and base → plan every table → validate → lock every table read → Change

1. Planning takes no lock, so no writer waits for it. If the target moved before its tables were
   locked, the merge is planned once more under the locks.
2. The merge locks every table that the plan read: none of them can move before the commit.
   A merge of a proposal is vetted: approvals and checks hold for the heads that it merges, and it
   is published on top of that head of the target only (D39).
3. A merge that is already up to date makes no commit, except to record an idempotency key. Every
   other merge makes a commit with two parents, even if no row changes: the next merge starts there.
   A commit that is picked or reverted gives one parent, so it makes a commit only if rows change.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.staging import staging
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.change import Change, WriterKind
from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.records import Commit, Idempotency, RowCounts
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.merge.classify import Outcome
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.engine.merge.entry import MergeEntry, enter_merge
from omnigraph.engine.merge.plan import (
    MergePlan,
    MergePlanner,
    MergeRequest,
    release_memory,
)
from omnigraph.engine.merge.sources import BranchSource, MergeSource
from omnigraph.engine.merge.staged_result import staged_result, table_writes
from omnigraph.engine.merge.workers import BulkMerge, MergeJob, MergeWorkers
from omnigraph.engine.settings import DEFAULTS, Settings
from omnigraph.engine.stages import stage
from omnigraph.engine.write.idempotency import Done, find_done
from omnigraph.errors import Contention, ExpectedVersionMismatch, HeadMoved, MergeConflicts
from omnigraph.errors.base import counted
from omnigraph.ids import BranchName, CommitId, OperationId, TableKey

ROUNDS_MAX: Final = 5
"""How often a merge is planned again because the target moved."""


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did; for a dry run, what it would do."""

    source: BranchName
    target: BranchName
    outcome: Outcome
    actor: str | None
    commit: Commit | None
    """None if there was nothing to merge, and after a dry run."""
    source_commit: CommitId
    target_commit: CommitId
    """The heads that were merged."""
    base_commits: tuple[CommitId, ...]
    counts: Mapping[TableKey, RowCounts]
    """By table, for every table whose rows change."""
    conflicts: tuple[Conflict, ...] = ()
    """The conflicts of a dry run; any other merge raises them."""
    tables: tuple[TableKey, ...] = ()
    """The tables that the merge wrote."""
    branch_deleted: bool | None = None
    """Was the source branch deleted? None if the request did not ask for it."""
    branch_delete_error: str | None = None
    """Why the source branch was not deleted; the merge is committed all the same."""

    def __repr__(self) -> str:
        made = "no commit" if self.commit is None else f"commit {self.commit.id}"
        merged = f"{self.source} into {self.target}: {self.outcome.value}"
        return f"<MergeResult {merged}, {counted(len(self.conflicts), 'conflict')}, {made}>"


Vet = Callable[[MergePlan, Callable[[], AbstractContextManager[ManifestSnapshot]]], None]
"""Raises if a plan must not be carried out. It may open the merged graph that the plan describes,
which no other reader can see."""


def merge(
    context: WriteContext,
    schema: ActiveSchema,
    request: MergeRequest,
    settings: Settings = DEFAULTS,
    bulk: BulkMerge | None = None,
    *,
    picked: MergeSource | None = None,
    vet: Vet | None = None,
) -> MergeResult:
    """Apply to the target what the source changed since the merge base.

    `vet` is asked before anything moves, and again under the locks. `picked` takes the place of
    the source branch. `bulk` finds workers for large tables; never for a dry run, which writes no
    file at all.
    Raises JobFailed, MergeConflicts, MergeBaseUnavailable, HeadMoved, BranchNotFound,
    SchemaLocked, and what `commit.attempt.phases` raises.
    """
    entry = enter_merge(context, schema.catalog, request, is_picked=picked is not None)
    target = entry.target
    done = find_done(target.manifest, request.idempotency, request.actor)
    if done is not None:
        return _recall(request, done)
    if not request.dry_run:
        target.manifest.check_schema(schema.schema_hash)
    source = picked or BranchSource(
        context, entry.source or context.bases.current(request.source), request.base
    )
    with _find_workers(context, schema, request, target, settings, bulk=bulk) as workers:
        return _merge(MergePlanner(context, schema, request, source, workers), entry, vet)


def _find_workers(
    context: WriteContext,
    schema: ActiveSchema,
    request: MergeRequest,
    target: Base,
    settings: Settings = DEFAULTS,
    *,
    bulk: BulkMerge | None = None,
) -> MergeWorkers:
    operation_id = OperationId(context.stores.effects.new_id())
    pins = target.manifest.pins
    job = MergeJob(
        operation_id,
        schema.catalog,
        request.rulings,
        context.stores.root,
        settings.storage_options,
        settings.durability,
    )
    marker = staging(
        context.stores.objects,
        operation_id,
        request.into,
        {key: pin.version for key, pin in pins.items()},
        settings.timing,
    )
    return MergeWorkers(context.stores.tables, None if request.dry_run else bulk, job, marker)


def inspect_merge(
    context: WriteContext, schema: ActiveSchema, request: MergeRequest, vet: Vet
) -> MergeResult:
    """Vet what a merge would do, and publish nothing. Raises MergeConflicts, and what `vet` does.

    The files of the merged graph are written and removed again.
    """
    source = BranchSource(context, context.bases.current(request.source), request.base)
    target = context.bases.current(request.into)
    with _find_workers(context, schema, request, target) as workers:
        planner = MergePlanner(context, schema, request, source, workers)
        plan = planner.plan(target)
        if plan.conflicts:
            raise MergeConflicts(request.source, request.into, plan.conflicts)
        vet(plan, partial(staged_result, planner, plan))
    return _result(request, plan, None)


def _merge(planner: MergePlanner, entry: MergeEntry, vet: Vet | None) -> MergeResult:
    context, request = planner.context, planner.request
    plan, looked = planner.plan(entry.target), entry.write
    keys = frozenset(plan.reads)
    for _ in range(ROUNDS_MAX):
        if request.dry_run or (plan.outcome is Outcome.ALREADY_UP_TO_DATE and vet is None):
            return _result(request, plan, _remember(context, request, plan))
        if plan.conflicts:
            raise MergeConflicts(request.source, request.into, plan.conflicts)
        _vet(planner, plan, vet)
        known = None if looked is None else looked.narrowed_to(keys)
        with acquire_write_locks(context, request.into, keys, entry=known) as lock:
            done = find_done(lock.base.manifest, request.idempotency, request.actor)
            if done is not None:
                return _recall(request, done)
            if _head_of(lock.base.manifest) != plan.ancestry.target.id:
                plan = planner.plan(lock.base)  # (1)
            if keys >= plan.reads.keys() and _is_ready(plan):
                _vet(planner, plan, vet)
                commit = _publish(lock, planner, plan)
                if commit is not None:
                    return _result(request, plan, commit)
            keys, looked = keys | plan.reads.keys(), None
    raise Contention(request.into, attempts=ROUNDS_MAX)


def _vet(planner: MergePlanner, plan: MergePlan, vet: Vet | None) -> None:
    if vet is not None:
        vet(plan, partial(staged_result, planner, plan))


def _publish(lock: WriteLock, planner: MergePlanner, plan: MergePlan) -> Commit | None:
    """None if the target got another head meanwhile, under which a proposal was not vetted."""
    parts = [(each.row_count, each.sides) for each in plan.plans.values()]
    try:
        with stage("committing"), release_memory(*parts):
            return run(lock, _change(planner, plan)).commits[-1]
    except HeadMoved:
        if planner.request.proposal is None:
            raise
        return None


def _change(planner: MergePlanner, plan: MergePlan) -> Change:
    request, writes = planner.request, table_writes(planner, plan)
    written = {each.key for each in writes}

    def recheck(moved: Manifest) -> None:
        # (2) The locks make this impossible; a violation must not be published all the same.
        for key, version in plan.reads.items():
            if (actual := moved.version_of(key)) != version:
                raise ExpectedVersionMismatch(key, expected=version, actual=actual)

    return Change(
        kind=WriterKind.BRANCH_MERGE,
        branch=request.into,
        writes=writes,
        actor=request.actor,
        message=request.message,
        updates=tuple(plan.pointers[key] for key in sorted(plan.pointers)),
        reads={key: version for key, version in plan.reads.items() if key not in written},
        recheck=recheck,
        merged_parent=plan.ancestry.source.id if planner.source.is_branch else None,
        carried=plan.ancestry.carried,
        idempotency=_record(request, plan),
        proposal=request.proposal,
        on_top_of=None if request.proposal is None else plan.ancestry.target.id,
        schema_hash=planner.schema.schema_hash,
        counts=plan.counts,
    )


def _remember(context: WriteContext, request: MergeRequest, plan: MergePlan) -> Commit | None:
    """(3) Record the result under the idempotency key, in a commit that moves no table."""
    if request.idempotency is None or request.dry_run:
        return None
    with acquire_write_locks(context, request.into, ()) as lock:
        change = Change(
            WriterKind.BRANCH_MERGE,
            request.into,
            (),
            actor=request.actor,
            message=request.message,
            idempotency=_record(request, plan),
        )
        return run(lock, change).commits[-1]


def _record(request: MergeRequest, plan: MergePlan) -> Idempotency | None:
    """What the commit records about the merge, for a repeated request."""
    if request.idempotency is None:
        return None
    return request.idempotency.record(
        {
            "outcome": plan.outcome.value,
            "source_commit": plan.ancestry.source.id,
            "target_commit": plan.ancestry.target.id,
            "base_commits": [each.id for each in plan.ancestry.bases],
            "counts": {
                str(key): [each.inserted, each.updated, each.deleted]
                for key, each in plan.counts.items()
            },
        }
    )


def _recall(request: MergeRequest, done: Done) -> MergeResult:
    """The result of an earlier merge with the same idempotency key."""
    said = done.result
    bases, counts = said.get("base_commits"), said.get("counts")
    return MergeResult(
        source=request.source,
        target=request.into,
        outcome=Outcome(str(said.get("outcome"))),
        actor=request.actor,
        commit=done.commit,
        source_commit=CommitId(str(said.get("source_commit"))),
        target_commit=CommitId(str(said.get("target_commit"))),
        base_commits=tuple(CommitId(each) for each in (bases if isinstance(bases, list) else ())),
        counts={
            TableKey(key): RowCounts(*numbers)
            for key, numbers in (counts if isinstance(counts, dict) else {}).items()
        },
    )


def _is_ready(plan: MergePlan) -> bool:
    return plan.outcome is not Outcome.ALREADY_UP_TO_DATE and not plan.conflicts


def _head_of(manifest: Manifest) -> CommitId | None:
    return None if manifest.head is None else manifest.head.id


def _result(request: MergeRequest, plan: MergePlan, commit: Commit | None) -> MergeResult:
    return MergeResult(
        source=request.source,
        target=request.into,
        outcome=plan.outcome,
        actor=request.actor,
        commit=commit,
        source_commit=plan.ancestry.source.id,
        target_commit=plan.ancestry.target.id,
        base_commits=tuple(each.id for each in plan.ancestry.bases),
        counts=plan.counts,
        conflicts=plan.conflicts if request.dry_run else (),
        tables=tuple(plan.plans),
    )
