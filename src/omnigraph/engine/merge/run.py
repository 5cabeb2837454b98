"""A merge, from the question to the commit.

    heal → heads and base → plan every table → validate → hold what was read → Change

1. Planning holds nothing, so nobody waits for it. If the target moved by the time its tables are
   held, the merge is planned once more, while they are held.
2. What is held is what was read: no table the plan stands on can move before it is visible.
3. Already up to date writes nothing, unless there is a key to remember (`once`). Everything else
   writes a commit with two parents, even if no row changes: the next merge starts from there.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.staging import staging
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.records import Commit, Idempotency
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.commit.manifest.updates import SetVersion, Update
from omnigraph.commit.recovery.heal import heal
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.history.table_diff import count_at_most
from omnigraph.engine.load.bulk import type_of
from omnigraph.engine.merge.bases import Ancestry, find_ancestry
from omnigraph.engine.merge.broken_rules import BrokenRules
from omnigraph.engine.merge.check import MergedGraph
from omnigraph.engine.merge.classify import Outcome, TableStep, decide_table, may_point
from omnigraph.engine.merge.conflicts import Conflict, ConflictFile
from omnigraph.engine.merge.plan_rows import apply_rulings, plan_table
from omnigraph.engine.merge.rulings import Rulings
from omnigraph.engine.merge.table_plan import PlanDraft, Sides, TablePlan
from omnigraph.engine.merge.workers import BulkMerge, MergeJob, MergeWorkers
from omnigraph.engine.merge.writes import stages_by, stages_of
from omnigraph.engine.settings import DEFAULTS, Settings
from omnigraph.engine.stages import stage
from omnigraph.engine.tables.row_refs import estimate_row_bytes
from omnigraph.engine.write.idempotency import Done, IdempotencyKey, find_done
from omnigraph.errors import Contention, ExpectedVersionMismatch, HeadMoved, MergeConflicts
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, TableKey, Version
from omnigraph.storage.allocator import releasing_memory
from omnigraph.storage.tables import Handle

HEAVY_BYTES: Final = 64 * 1024 * 1024
"""Of vectors and blobs: where a merge has more of them, memory that was used for some is given back
at once. Without them rows are small, and it is not worth its time."""

ROUNDS_MAX: Final = 5
"""How often a merge is planned anew because the target moved."""


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """What to merge, where to, and what was decided about conflicts."""

    source: BranchName
    into: BranchName = MAIN
    actor: str | None = None
    rulings: Rulings = field(default_factory=Rulings)
    resolved: ConflictFile | None = None
    """The file the rulings on rows came from; its heads must still be the heads."""
    base: CommitId | None = None
    dry_run: bool = False
    idempotency: IdempotencyKey | None = None
    """The key that makes asking again harmless."""
    message: str | None = None
    """Why the merge is made; kept in the commit."""


@dataclass(frozen=True, slots=True)
class TableCounts:
    """How many rows of the target a merge inserts, updates and deletes."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did, or would do."""

    source: BranchName
    target: BranchName
    outcome: Outcome
    actor: str | None
    commit: Commit | None
    """None when there was nothing to merge, and after a dry run."""
    source_commit: CommitId
    target_commit: CommitId
    """The heads that were merged."""
    base_commits: tuple[CommitId, ...]
    counts: Mapping[TableKey, TableCounts]
    """For every table whose rows change."""
    conflicts: tuple[Conflict, ...] = ()
    """Only of a dry run; otherwise they are raised."""
    tables: tuple[TableKey, ...] = ()
    """The tables that moved."""
    branch_deleted: bool | None = None
    """Is the source gone? None when nobody asked for that."""
    branch_delete_error: str | None = None
    """Why it is not; the merge stands all the same."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What a merge does to every table."""

    ancestry: Ancestry
    outcome: Outcome
    target: Base
    plans: Mapping[TableKey, TablePlan]
    pointers: Mapping[TableKey, Update]
    """Tables of which the target is to show the source's own version."""
    reads: Mapping[TableKey, Version]
    """Every table of the target that was looked at."""
    conflicts: tuple[Conflict, ...]

    @property
    def counts(self) -> dict[TableKey, TableCounts]:
        return {
            key: TableCounts(each.inserted_count, each.updated_count, len(each.deletes))
            for key, each in sorted(self.plans.items())
        }


def merge(
    context: WriteContext,
    schema: ActiveSchema,
    request: MergeRequest,
    settings: Settings = DEFAULTS,
    bulk: BulkMerge | None = None,
) -> MergeResult:
    """Make the target show what the source changed since they last agreed.

    Where there is much to do, `bulk` finds workers for it; never for a dry run, which writes
    nothing, not even aside. Raises JobFailed, MergeConflicts, MergeBaseUnavailable,
    HeadMoved, BranchNotFound, SchemaLocked, and whatever `commit.attempt.phases` raises.
    """
    if not request.dry_run:
        heal(context)
        check_unlocked(context)
    done = find_done(
        context.bases.current(request.into).manifest, request.idempotency, request.actor
    )
    if done is not None:
        return _recall(request, done)
    with _gather(context, schema, request, settings, bulk) as workers:
        return _merge(
            _Planner(context, schema, request, context.bases.current(request.source), workers)
        )


def _gather(
    context: WriteContext,
    schema: ActiveSchema,
    request: MergeRequest,
    settings: Settings,
    bulk: BulkMerge | None,
) -> MergeWorkers:
    operation_id = OperationId(context.stores.effects.new_id())
    pins = context.bases.current(request.into).manifest.pins
    job = MergeJob(
        operation_id,
        schema.catalog,
        request.rulings,
        context.stores.root,
        settings.storage_options,
        settings.durability,
    )
    note = staging(
        context.stores.objects,
        operation_id,
        request.into,
        {key: pin.version for key, pin in pins.items()},
        settings.timing,
    )
    return MergeWorkers(context.stores.tables, None if request.dry_run else bulk, job, note)


def _merge(planner: "_Planner") -> MergeResult:
    context, request = planner.context, planner.request
    plan = planner.plan(context.bases.current(request.into))
    keys = frozenset(plan.reads)
    for _ in range(ROUNDS_MAX):
        if plan.outcome is Outcome.ALREADY_UP_TO_DATE or request.dry_run:
            return _result(request, plan, _remember(context, request, plan))
        if plan.conflicts:
            raise MergeConflicts(request.source, request.into, plan.conflicts)
        with acquire_write_locks(context, request.into, keys) as lock:
            done = find_done(lock.base.manifest, request.idempotency, request.actor)
            if done is not None:
                return _recall(request, done)
            if _head_of(lock.base.manifest) != plan.ancestry.target.id:
                plan = planner.plan(lock.base)  # (1)
            if keys >= plan.reads.keys() and _is_ready(plan):
                parts = [(each.row_count, each.sides) for each in plan.plans.values()]
                with stage("committing"), release_memory(*parts):
                    commit = run(lock, planner.change(plan)).commits[-1]
                return _result(request, plan, commit)
            keys |= plan.reads.keys()
    raise Contention(request.into, attempts=ROUNDS_MAX)


def release_memory(*parts: tuple[int, Sides]) -> AbstractContextManager[None]:
    """For so many rows of each table."""
    is_heavy = sum(rows * estimate_row_bytes(sides.type) for rows, sides in parts) > HEAVY_BYTES
    return releasing_memory() if is_heavy else nullcontext()


def _remember(context: WriteContext, request: MergeRequest, plan: MergePlan) -> Commit | None:
    """(3) A commit that moves nothing, and holds the answer."""
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
    """What a commit is to say about the merge that made it."""
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
    """The answer that was given when this was asked for before."""
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
            TableKey(key): TableCounts(*numbers)
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


@dataclass(frozen=True, slots=True)
class _Planner:
    context: WriteContext
    schema: ActiveSchema
    request: MergeRequest
    source: Base
    workers: MergeWorkers

    def plan(self, target: Base) -> MergePlan:
        """Decide about every table, against the target as it was read."""
        ancestry = find_ancestry(
            self.context.stores, self.source.manifest, target.manifest, base=self.request.base
        )
        self._check_heads(ancestry)
        outcome = ancestry.outcome
        if outcome is Outcome.ALREADY_UP_TO_DATE:
            return MergePlan(ancestry, outcome, target, {}, {}, {}, ())
        plans: dict[TableKey, TablePlan] = {}
        conflicts: list[Conflict] = []
        reads: dict[TableKey, Version] = {}
        for sides, pin in self._sides(ancestry, target):
            reads[pin.key] = pin.version
            with stage(f"comparing {pin.key}"):
                plan, found = self._plan_table(sides)
            conflicts += found
            if not plan.is_empty:  # a table that was changed there and back moves nothing
                plans[pin.key] = plan
        merged = MergedGraph(
            self.context.stores.tables,
            self.schema.catalog,
            target.manifest,
            lambda pin: self.context.open_pin(pin, target),
            plans,
        )
        broken = BrokenRules(
            merged, plans, self.request.rulings, partial(self._sides_of, ancestry, target)
        )
        with stage("checking"):
            conflicts += broken.resolve()
        pointers: dict[TableKey, Update] = {
            key: SetVersion(self.source.manifest.latest[key])
            for key, plan in plans.items()
            if key not in broken.decided
            and self._may_point(ancestry, target.manifest.pins[key], plan)
        }
        ordered = tuple(sorted(conflicts, key=lambda each: each.place))
        return MergePlan(
            ancestry, outcome, target, plans, pointers, {**reads, **broken.reads}, ordered
        )

    def _plan_table(self, sides: Sides) -> tuple[TablePlan, tuple[Conflict, ...]]:
        tables, rulings = self.context.stores.tables, self.request.rulings
        workers = self.workers.find_for_planning(sides)
        if workers is None:
            rows = sum(count_at_most(tables, each, sides.source) for each in sides.bases)
            with release_memory((rows, sides)):
                return plan_table(tables, sides, rulings)
        draft = PlanDraft()
        for each in workers.draft(sides):
            draft.add(each)
        apply_rulings(tables, sides, rulings, draft)
        return draft.plan(sides), tuple(draft.conflicts)

    def _stages(self, plan: TablePlan) -> tuple[Stage, ...]:
        tables = self.context.stores.tables
        workers = self.workers.find_for_writing(plan)
        return stages_of(tables, plan) if workers is None else stages_by(workers, tables, plan)

    def change(self, plan: MergePlan) -> Change:
        manifest = plan.target.manifest
        writes = tuple(
            TableWrite(key, manifest.pins[key].version, self._stages(each))
            for key, each in sorted(plan.plans.items())
            if key not in plan.pointers
        )
        written = {each.key for each in writes}

        def recheck(moved: Manifest) -> None:
            # (2) Cannot happen while all of them are held, and must not be waved through.
            for key, version in plan.reads.items():
                if (actual := moved.version_of(key)) != version:
                    raise ExpectedVersionMismatch(key, expected=version, actual=actual)

        return Change(
            kind=WriterKind.BRANCH_MERGE,
            branch=self.request.into,
            writes=writes,
            actor=self.request.actor,
            message=self.request.message,
            updates=tuple(plan.pointers[key] for key in sorted(plan.pointers)),
            reads={key: version for key, version in plan.reads.items() if key not in written},
            recheck=recheck,
            merged_parent=plan.ancestry.source.id,
            carried=plan.ancestry.carried,
            idempotency=_record(self.request, plan),
            schema_hash=self.schema.schema_hash,
        )

    def _check_heads(self, ancestry: Ancestry) -> None:
        """Resolutions are for two heads, and for no others. Raises HeadMoved."""
        resolved = self.request.resolved
        if resolved is None:
            return
        pairs = (
            (self.request.source, resolved.source_commit, ancestry.source.id),
            (self.request.into, resolved.target_commit, ancestry.target.id),
        )
        for branch, expected, actual in pairs:
            if expected != actual:
                raise HeadMoved(branch, expected=expected, actual=actual)

    def _sides(self, ancestry: Ancestry, target: Base) -> Iterator[tuple[Sides, Pin]]:
        """Every table that the source moved, in the order of their keys."""
        sources, targets = self.source.manifest.pins, target.manifest.pins
        ruled = self.request.rulings.rows
        for key in sorted(sources.keys() & targets.keys()):
            bases = [each.get(key) for each in ancestry.base_pins]
            pin = targets[key]
            step = decide_table(bases, pin, sources[key])
            if step is TableStep.KEEP and key not in ruled:
                continue
            yield self._sides_of(ancestry, target, key), pin

    def _sides_of(self, ancestry: Ancestry, target: Base, key: TableKey) -> Sides:
        bases = [each.get(key) for each in ancestry.base_pins]
        return Sides(
            type_of(self.schema.catalog, key),
            tuple(self._open_all(bases)),
            self.context.open_pin(self.source.manifest.pins[key], self.source),
            self.context.open_pin(target.manifest.pins[key], target),
        )

    def _open_all(self, pins: Collection[Pin | None]) -> Iterator[Handle | None]:
        for pin in pins:
            yield None if pin is None else open_pin(self.context.stores, pin)

    def _may_point(self, ancestry: Ancestry, pin: Pin, plan: TablePlan) -> bool:
        """(D6) Only a table that the source alone moved, and nobody ruled on."""
        source = self.source.manifest.pins[pin.key]
        bases = [each.get(pin.key) for each in ancestry.base_pins]
        is_adopted = decide_table(bases, pin, source) is TableStep.ADOPT
        is_plain = pin.key not in self.request.rulings.rows and not plan.edits
        return is_adopted and is_plain and may_point(pin, source, self.request.into)
