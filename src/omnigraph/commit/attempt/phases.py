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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from omnigraph.commit.attempt.locks import WriteLock, acquire_missing_leases
from omnigraph.commit.attempt.undo import find_recovered, undo
from omnigraph.commit.leases.lock_key import manifest_queue_key
from omnigraph.commit.manifest.branches import fork_table
from omnigraph.commit.manifest.change import Change, Creation, TableWrite
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.publish import Publication, Published, publish
from omnigraph.commit.manifest.records import Extension
from omnigraph.commit.manifest.schema_files import write_schema_files
from omnigraph.commit.manifest.snapshot import describe_table
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion, Update
from omnigraph.commit.recovery.classify import MAINTENANCE, OPERATION, operation_of
from omnigraph.commit.recovery.recovery_commit import recovery_commit_id
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.commit.recovery.sidecar_store import remove_sidecar, write_sidecar
from omnigraph.errors import (
    DriftFound,
    ExpectedVersionMismatch,
    Fenced,
    LeaseLost,
    OmnigraphError,
    OutcomeUnknown,
    StorageFailure,
)
from omnigraph.ids import CommitId, TableKey, Version
from omnigraph.storage.tables import (
    Handle,
    Landed,
    LandedLater,
    Mark,
    Refused,
    Staged,
    StagedCompaction,
    TableRef,
)

RECHECKS_MAX: Final = 5
"""How often the tables that a change only read may move before the attempt fails (D5)."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Every id is minted. No table has moved."""

    change: Change
    sidecar: Sidecar
    staged: Mapping[TableKey, Staged | StagedCompaction]
    """The first commit of each table that exists and needs no fork."""


@dataclass(frozen=True, slots=True)
class Armed:
    """The sidecar is written."""

    prepared: Prepared


@dataclass(frozen=True, slots=True)
class Applied:
    """Every table has moved."""

    armed: Armed
    reached: Mapping[TableKey, Handle]


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
    sidecar = _plan_sidecar(lock, change)
    staged = {}
    for write, pinned in zip(change.writes, sidecar.writes, strict=True):
        if not pinned.is_fork and not pinned.is_new and pinned.transactions:
            handle = lock.context.open_pin(base.manifest.pins[write.key], base)
            first = write.stages[0](handle, _mark(lock, pinned.transactions[0]))
            assert first is not None, "a named write makes every commit"
            staged[write.key] = first
    return Prepared(change, sidecar, staged)


def arm(lock: WriteLock, prepared: Prepared) -> Armed:
    """Phase A: write the sidecar."""
    lock.context.observe("arm")
    lock.leases.check()
    write_sidecar(lock.context.stores.objects, prepared.sidecar)
    return Armed(prepared)


def apply(lock: WriteLock, armed: Armed) -> Applied:
    """Phase B: commit to every table, in the order of their keys."""
    reached = {}
    prepared = armed.prepared
    writes = {each.key: each for each in prepared.change.writes}
    for pinned in sorted(prepared.sidecar.writes, key=lambda each: each.key):
        lock.context.observe(f"apply {pinned.key}")
        reached[pinned.key] = _apply_table(lock, prepared, writes[pinned.key], pinned)
    return Applied(armed, reached)


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
    """Phase C. If a table that the change only read has moved, recheck and try again (D5)."""
    lock.context.observe("publish")
    change, sidecar = applied.armed.prepared.change, applied.armed.prepared.sidecar
    stores, bases = lock.context.stores, lock.context.bases
    updates: tuple[Update, ...] = tuple(
        SetVersion(describe_table(stores, each.shown_as or each.key, applied.reached[each.key]))
        for each in change.writes
    )
    expected = _expected(change)
    for each in change.writes:
        lock.context.fsync_version(applied.reached[each.key], lock.base, onto=each.expected)
    reads = dict(change.reads)
    for rechecks_left in reversed(range(1 + RECHECKS_MAX)):
        lock.leases.check()
        try:
            return publish(
                stores,
                bases,
                Publication(
                    branch=change.branch,
                    intents=(sidecar.intent,),
                    updates=(*updates, *change.updates),
                    expected={**reads, **expected},
                    on_top_of=change.on_top_of,
                    schema_hash=change.schema_hash,
                    fence=recovery_commit_id(lock.operation_id),
                ),
                lock.context.leases.backoff(manifest_queue_key(change.branch)),
            )
        except ExpectedVersionMismatch as mismatch:
            if mismatch.table_key not in reads or not rechecks_left:
                raise
            manifest = bases.current(change.branch).manifest
            change.recheck(manifest)
            reads = {key: manifest.version_of(key) for key in reads}
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
    """Phase D: remove the sidecar. If that fails, the next writer resolves it."""
    lock.context.observe("disarm")
    try:
        remove_sidecar(lock.context.stores.objects, prepared.sidecar.operation_id)
    except StorageFailure:
        logger.warning("the sidecar of %s could not be removed", prepared.sidecar.operation_id)


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
    return published


def _finish(lock: WriteLock, prepared: Prepared) -> None:
    if promote_schema(lock, prepared):
        disarm(lock, prepared)


def _expected(change: Change) -> dict[TableKey, Version]:
    """The versions that the branch must show of the written tables. It shows no new table."""
    return {each.key: each.expected for each in change.writes if each.creation is None}


def _plan_sidecar(lock: WriteLock, change: Change) -> Sidecar:
    """The sidecar of this change."""
    effects, manifest = lock.context.stores.effects, lock.base.manifest
    now_us = effects.now_ms() * 1000
    return Sidecar(
        operation_id=lock.operation_id,
        kind=change.kind,
        branch=change.branch,
        branch_identifier=lock.base.identifier,
        started_at_us=now_us,
        writes=tuple(_pin(lock, each, manifest.pins.get(each.key)) for each in change.writes),
        updates=change.updates,
        reads=change.reads,
        on_top_of=change.on_top_of,
        intent=CommitIntent(
            id=CommitId(effects.new_id()),
            created_at_us=now_us,
            actor=change.actor,
            merged_parent=change.merged_parent,
            extension=Extension(
                operation_id=lock.operation_id,
                idempotency=change.idempotency,
                schema_hash=_schema_hash(change),
                message=change.message,
            ),
            carried=change.carried,
        ),
        schema=change.schema,
    )


def _schema_hash(change: Change) -> str | None:
    """The schema in force once the change is visible."""
    return change.schema_hash if change.schema is None else change.schema.files.schema_hash


def _pin(lock: WriteLock, write: TableWrite, pin: Pin | None) -> PinnedWrite:
    branch = lock.base.manifest.branch
    new_id = lock.context.stores.effects.new_id
    uuids = tuple(new_id() for _ in range(write.commit_count)) if write.is_named else ()
    if write.creation is not None:
        return PinnedWrite(
            key=write.key,
            path=write.creation.path,
            branch=branch,
            expected=write.expected,
            is_fork=False,
            transactions=uuids,
            is_new=True,
        )
    assert pin is not None, "the branch shows the table, or the change creates it"
    return PinnedWrite(
        key=write.key,
        path=pin.path,
        branch=branch,
        expected=write.expected,
        is_fork=pin.owner != branch,
        transactions=uuids,
        shown_as=write.shown_as,
    )


def _mark(lock: WriteLock, uuid: str) -> Mark:
    return Mark(uuid, {OPERATION: lock.operation_id})


def _apply_table(
    lock: WriteLock, prepared: Prepared, write: TableWrite, pinned: PinnedWrite
) -> Handle:
    """Commit to one table, each commit on top of the one before."""
    context, base = lock.context, lock.base
    lock.leases.check()
    uuids = pinned.transactions or tuple(context.stores.effects.new_id() for _ in write.stages)
    if write.creation is not None:
        handle = _create(lock, write, write.creation, _mark(lock, uuids[0]))
        uuids = uuids[1:]
    elif pinned.is_fork:
        handle = fork_table(
            context.stores, context.bases, write.key, pinned.branch, check=lock.leases.check
        )
    else:
        handle = context.open_pin(base.manifest.pins[write.key], base)
    staged = prepared.staged.get(write.key)
    for stage, uuid in zip(write.stages, uuids, strict=True):
        change = stage(handle, _mark(lock, uuid)) if staged is None else staged
        staged = None
        if change is not None:
            lock.leases.check()
            handle = _commit(lock, write, change)
        else:
            assert not write.is_named, "a named write makes every commit"
    return handle


def _create(lock: WriteLock, write: TableWrite, creation: Creation, mark: Mark) -> Handle:
    """The empty table; on top of a hidden older one, if any, so that versions only rise."""
    tables, ref = lock.context.stores.tables, TableRef(creation.path)
    if write.expected == 0:
        return _commit(lock, write, tables.stage_create(ref, creation.schema, mark))
    hidden = tables.open_at(ref, write.expected)
    return _commit(lock, write, tables.stage_overwrite(hidden, creation.schema, mark))


def _commit(lock: WriteLock, write: TableWrite, change: Staged | StagedCompaction) -> Handle:
    tables = lock.context.stores.tables
    if isinstance(change, StagedCompaction):
        outcome = tables.single_step.commit_compaction(change)
    else:
        outcome = tables.commit_exact(change)
    match outcome:
        case Landed(handle):
            return handle
        case LandedLater(handle):
            _check_between(lock, write, change, handle)
            return handle
        case Refused():
            actual = tables.open_at(change.ref).version
            raise ExpectedVersionMismatch(write.key, expected=change.read_version, actual=actual)
    assert_never(outcome)


def _check_between(
    lock: WriteLock, write: TableWrite, change: Staged | StagedCompaction, handle: Handle
) -> None:
    """Raises DriftFound if a foreign transaction moved rows below our commit (D38)."""
    for each in lock.context.stores.tables.find_transactions(handle, after=change.read_version):
        if each.kind not in MAINTENANCE and operation_of(each) != lock.operation_id:
            raise DriftFound(
                write.key,
                branch=lock.base.manifest.branch,
                shown=write.expected,
                head=handle.version,
            )
