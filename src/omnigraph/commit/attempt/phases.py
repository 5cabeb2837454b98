"""The phases of an attempt. Each phase takes the value that the phase before it returns.

    prepare          mint ids, stage files; nothing moves
    arm              A: write the sidecar; from here another process can finish or undo the attempt
    apply            B: commit to every table
    confirm          B': record the versions reached, if their uuids could not be chosen
    publish          C: the one write that readers see
    promote_schema   C': write the files of a schema that came into force with the commit
    disarm           D: remove the sidecar; if this fails, the next writer removes it

The caller holds a `WriteLock`. `undo` has the rules for a phase that fails.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from omnigraph.commit.attempt.locks import WriteLock, acquire_missing_leases
from omnigraph.commit.attempt.sidecar_plan import plan_sidecar
from omnigraph.commit.attempt.table_commits import (
    AnyStaged,
    apply_table,
    first_stages,
    fork_reads,
)
from omnigraph.commit.attempt.undo import find_recovered, undo
from omnigraph.commit.leases.fair_queue import FairBackoff
from omnigraph.commit.leases.lock_key import manifest_queue_key
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.change import Change, WriterKind, counts_of
from omnigraph.commit.manifest.groups import write_group_file
from omnigraph.commit.manifest.publish import Publication, Published, publish
from omnigraph.commit.manifest.records import RowCounts
from omnigraph.commit.manifest.schema_files import write_schema_files
from omnigraph.commit.manifest.snapshot import describe_table
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion, Update
from omnigraph.commit.recovery.recovery_commit import recovery_commit_id
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.commit.recovery.sidecar_store import remove_sidecar, write_sidecar
from omnigraph.errors import (
    ExpectedVersionMismatch,
    Fenced,
    LeaseLost,
    OmnigraphError,
    OutcomeUnknown,
    StorageFailure,
)
from omnigraph.ids import TableKey, Version
from omnigraph.storage.durability import FlushWaves
from omnigraph.storage.tables import ForkFiles, Handle, Staged

T = TypeVar("T")

RECHECKS_MAX: Final = 5
"""How often the tables that a change only read may move before the attempt fails (D5)."""

SHARED_KINDS: Final = frozenset({WriterKind.MUTATION, WriterKind.OPTIMIZE})
"""Changes that the next write of this process builds on, whenever it was called (D29)."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Every id is minted. No table has moved."""

    change: Change
    sidecar: Sidecar
    staged: Mapping[TableKey, AnyStaged]
    """The first commit of each table that exists and needs no fork."""
    waves: FlushWaves


@dataclass(frozen=True, slots=True)
class Armed:
    """The sidecar is written."""

    prepared: Prepared
    forks: Mapping[TableKey, ForkFiles | None] = field(default_factory=dict)
    """What was read ahead of each fork."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Every table has moved."""

    armed: Armed
    reached: Mapping[TableKey, Handle]
    counts: Mapping[TableKey, RowCounts]
    backoff: FairBackoff
    seen: Base | None
    """The branch as it was while the tables moved, if the store was asked then."""

    @property
    def intents(self) -> tuple[CommitIntent, ...]:
        """The commits to publish. Only now are rows of a forked table counted."""
        return self.armed.prepared.sidecar.with_counts(self.counts).intents


def run(lock: WriteLock, change: Change) -> Published:
    """Make one change visible, or leave the graph as it was.

    Raises ExpectedVersionMismatch and other conflicts, after the attempt was undone; and
    OutcomeUnknown, after which the change may be visible now or later.
    """
    prepared = prepare(lock, change)
    with acquire_missing_leases(lock, prepared.sidecar):
        try:
            published = _run_phases(lock, prepared)
        except (Fenced, LeaseLost) as lost:
            return find_recovered(lock, prepared.sidecar, lost)
        if published.base.manifest.log.find(recovery_commit_id(lock.operation_id)) is not None:
            # Another process rolled this forward. It writes its audit row, then removes the
            # sidecar; if it has died meanwhile, the next recovery does.
            return published
        try:
            _finish(lock, prepared)
        except KeyboardInterrupt:
            # The change is visible and cannot be undone. Remove the sidecar all the same.
            _finish(lock, prepared)
            raise
        return published


def prepare(lock: WriteLock, change: Change) -> Prepared:
    """Mint every id, check every expectation, stage what needs no fork."""
    lock.context.observe("prepare")
    base = lock.base
    base.manifest.check_expected(_expected(change))
    base.manifest.check_schema(change.schema_hash)
    sidecar = plan_sidecar(lock, change)
    waves = lock.context.stores.tables.begin_waves()
    if lock.context.stores.is_remote and (change.counts is not None or change.group):
        return Prepared(change, sidecar, {}, waves)
    staged = dict(each() for each in first_stages(lock, change, sidecar))
    if all(each.key in staged and each.commit_count == 1 for each in change.writes):
        sidecar = sidecar.with_counts({key: counts_of([each]) for key, each in staged.items()})
    return Prepared(change, sidecar, staged, waves)


def arm(lock: WriteLock, prepared: Prepared) -> Armed:
    """Phase A: write the sidecar. The first wave of flushes: the sidecar and the staged files."""
    lock.context.observe("arm")
    stores = lock.context.stores
    if stores.is_remote:
        return _arm_together(lock, prepared)
    lock.leases.check()
    files = [each for each in prepared.staged.values() if isinstance(each, Staged)]
    with stores.tables.flush_staged(files, prepared.waves):
        write_sidecar(stores.objects, prepared.sidecar)
    return Armed(prepared)


def _arm_together(lock: WriteLock, prepared: Prepared) -> Armed:
    """Stage what is not staged yet, read ahead of forks, write the sidecar, and confirm leases from
    the cache (D30).

    No table moves before all of it was answered.
    """
    stores, sidecar, staged = lock.context.stores, prepared.sidecar, dict(prepared.staged)
    forks: dict[TableKey, ForkFiles | None] = {}

    def keep(into: dict[TableKey, T], call: Callable[[], tuple[TableKey, T]]) -> None:
        key, found = call()
        into[key] = found

    stages = [] if staged else first_stages(lock, prepared.change, sidecar)
    reads = fork_reads(lock, prepared.change, sidecar)
    try:
        with lock.leases.confirming() as confirmations:
            calls: list[Callable[[], None]] = [
                partial(write_sidecar, stores.objects, sidecar),
                *confirmations,
                *(partial(keep, staged, each) for each in stages),
                *(partial(keep, forks, each) for each in reads),
            ]
            stores.together(calls)
        lock.leases.check()
    except LeaseLost:
        # Nothing has moved, so the sidecar of this operation describes nothing.
        remove_sidecar(stores.objects, sidecar.operation_id)
        raise
    return Armed(replace(prepared, staged=staged), forks)


def apply(lock: WriteLock, armed: Armed) -> Applied:
    """Phase B: commit to every table, in the order of their keys; together in a remote store.

    A remote store is asked at the same time what the publish needs to know.
    """
    prepared, change, context = armed.prepared, armed.prepared.change, lock.context
    backoff = _backoff(lock, change)
    writes = {each.key: each for each in change.writes}

    def move(pinned: PinnedWrite) -> None:
        write, waves = writes[pinned.key], prepared.waves
        files = armed.forks.get(pinned.key)
        moved[pinned.key] = apply_table(
            lock, write, pinned, prepared.staged, waves, fork_files=files
        )

    pinned = sorted(prepared.sidecar.writes, key=lambda each: each.key)
    moved: dict[TableKey, tuple[Handle, RowCounts]] = {}
    seen: list[Base] = []
    looks: list[Callable[[], None]] = []
    if context.stores.is_remote:
        looks = [backoff.look, lambda: seen.append(context.bases.current(change.branch))]
    moves: list[Callable[[], None]] = [partial(move, each) for each in pinned]
    context.stores.together([*moves, *looks])
    return Applied(
        armed,
        {key: handle for key, (handle, _) in moved.items()},
        {key: counts for key, (_, counts) in moved.items()},
        backoff,
        seen[0] if seen else None,
    )


def confirm(lock: WriteLock, applied: Applied) -> Applied:
    """Phase B': record the versions reached, for a writer that cannot choose its uuids."""
    prepared = applied.armed.prepared
    if all(each.is_named for each in prepared.change.writes):
        return applied
    lock.context.observe("confirm")
    lock.leases.check()
    reached = {key: Version(handle.version) for key, handle in applied.reached.items()}
    write_sidecar(lock.context.stores.objects, prepared.sidecar.confirm(reached))
    return applied


def publish_applied(lock: WriteLock, applied: Applied) -> Published:
    """Phase C. If a table that the change only read has moved, recheck and try again (D5).

    The tables are the second wave of flushes; the publish flushes the third, the manifest.
    """
    lock.context.observe("publish")
    change = applied.armed.prepared.change
    stores, bases = lock.context.stores, lock.context.bases
    updates: tuple[Update, ...] = tuple(
        SetVersion(describe_table(stores, each.shown_as or each.key, applied.reached[each.key]))
        for each in change.writes
    )
    expected = _expected(change)
    write_group_file(stores.objects, applied.intents)
    reached = [(applied.reached[each.key], each.expected) for each in change.writes]
    lock.context.flush_versions(applied.armed.prepared.waves, reached, lock.base)
    reads, seen, backoff = dict(change.reads), applied.seen, applied.backoff
    for rechecks_left in reversed(range(1 + RECHECKS_MAX)):
        lock.leases.check()
        try:
            return publish(
                stores,
                bases,
                Publication(
                    branch=change.branch,
                    intents=applied.intents,
                    updates=(*updates, *change.updates),
                    expected={**reads, **expected},
                    on_top_of=change.on_top_of,
                    schema_hash=change.schema_hash,
                    fence=recovery_commit_id(lock.operation_id),
                ),
                backoff,
                seen=seen,
            )
        except ExpectedVersionMismatch as mismatch:
            if mismatch.table_key not in reads or not rechecks_left:
                raise
            seen, backoff = bases.current(change.branch), _backoff(lock, change)
            change.recheck(seen.manifest)
            reads = {key: seen.manifest.version_of(key) for key in reads}
    raise AssertionError("the last round returns or raises")


def promote_schema(lock: WriteLock, prepared: Prepared) -> bool:
    """Phase C': write the files of a new schema. False if the sidecar must stay to do it."""
    shift = prepared.change.schema
    if shift is None:
        return True
    lock.context.observe("promote")
    try:
        # A process that took over wrote the files, and perhaps those of a later schema.
        lock.leases.check()
        write_schema_files(lock.context.stores.objects, shift.files)
    except StorageFailure:
        logger.warning("the schema files could not be written; the next writer writes them")
        return False
    except LeaseLost:
        return False
    return True


def disarm(lock: WriteLock, prepared: Prepared) -> None:
    """Phase D: remove the sidecar. If that fails, the next writer resolves it.

    In a remote store the writer does not wait for the removal (D30).
    """
    lock.context.observe("disarm")
    context, lock_keys = lock.context, lock.leases.lock_keys

    def remove() -> None:
        objects, operation_id = context.stores.objects, prepared.sidecar.operation_id
        try:
            remove_sidecar(objects, operation_id, is_flushed=False)
        except StorageFailure:
            logger.warning("the sidecar of %s could not be removed", operation_id)
            context.leases.give_up(lock_keys)

    context.afterwards.run(remove, prepared.sidecar.operation_id)


# ── phases in sequence ───────────────────────────────────────────────────────────────────────────


def _run_phases(lock: WriteLock, prepared: Prepared) -> Published:
    """Phases A to C. Undoes the attempt if one of them fails."""
    try:
        # Arming is inside: the sidecar may exist though writing it failed.
        applied = confirm(lock, apply(lock, arm(lock, prepared)))
        published = publish_applied(lock, applied)
    except (Fenced, LeaseLost):
        raise
    except OutcomeUnknown as unknown:
        # `publish` does not know the operation.
        raise OutcomeUnknown(
            unknown.branch, commit_id=unknown.commit_id, operation_id=lock.operation_id
        ) from unknown
    except (OmnigraphError, KeyboardInterrupt) as failure:
        undo(lock, prepared.sidecar, failure)
        raise
    for handle in applied.reached.values():
        lock.context.keep(handle, published.base)
    change = prepared.change
    if change.is_shared or change.kind in SHARED_KINDS:
        for each in change.writes:
            lock.context.record_move(applied.reached[each.key], published.base, onto=each.expected)
    return published


def _finish(lock: WriteLock, prepared: Prepared) -> None:
    if promote_schema(lock, prepared):
        disarm(lock, prepared)


def _backoff(lock: WriteLock, change: Change) -> FairBackoff:
    return lock.context.leases.backoff(manifest_queue_key(change.branch))


def _expected(change: Change) -> dict[TableKey, Version]:
    """The versions that the branch must show of the written tables. It shows no new table."""
    return {each.key: each.expected for each in change.writes if each.creation is None}
