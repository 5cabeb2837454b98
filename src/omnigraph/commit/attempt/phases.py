"""Carrying out a change: the one way anything becomes visible.

    hold      queues, then leases, of every table to be written; the branch as it is under them
    prepare   ids are minted, files are staged; nothing has moved
    arm       A: the note is left; from here on a stranger can finish or undo us
    apply     B: the tables move
    publish   C: the one write readers can see
    settle    C': a schema that came into force with it is put into its files
    disarm    D: the note is removed; losing this step costs the next writer a look, not data

1. No table moves, and no fork is made, before the note is there.
2. A writer that fails after its first table moved, and still holds its leases, undoes its work
   before it says so; what it says is then safe to retry. If it cannot, it says that the outcome is
   unknown, and the note stays for whoever comes next (D4).
3. A writer that was taken for dead finds out at its next step: its leases are gone, or the recovery
   of its operation is on the branch. It must not go on, and has nothing to undo. What it says is
   what its heir did: finished work is acknowledged, undone work is refused, and as long as the note
   is there neither can be told.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar, assert_never

from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.holder import HeldLeases
from omnigraph.commit.leases.lease import LeaseAbandoned
from omnigraph.commit.leases.lock_key import (
    BRANCHES_LOCK_KEY,
    SCHEMA_LOCK_KEY,
    LockKey,
    branch_lock_key,
    manifest_queue_key,
)
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.branches import fork_table
from omnigraph.commit.manifest.change import Change, Creation, TableWrite
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.publish import Publication, Published, publish
from omnigraph.commit.manifest.records import Extension
from omnigraph.commit.manifest.schema_files import promote
from omnigraph.commit.manifest.snapshot import describe_table
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion, Update
from omnigraph.commit.recovery.classify import MAINTENANCE, OPERATION, operation_of
from omnigraph.commit.recovery.drift import heal_drift
from omnigraph.commit.recovery.heal import clear_abandoned, lease
from omnigraph.commit.recovery.resolve import recovery_commit_id, undo
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.commit.recovery.sidecar_store import (
    has_sidecar,
    lock_keys_of,
    remove_sidecar,
    write_sidecar,
)
from omnigraph.errors import (
    DriftFound,
    ExpectedVersionMismatch,
    Fenced,
    LeaseLost,
    OmnigraphError,
    OutcomeUnknown,
    StorageFailure,
)
from omnigraph.ids import BranchName, CommitId, OperationId, TableKey, Version
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
"""How often the tables a change depends on may move under it before it gives up."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriteLock:
    """The right to write some tables of a branch, for one operation."""

    context: WriteContext
    leases: HeldLeases
    base: Base

    @property
    def operation_id(self) -> OperationId:
        return self.leases.operation_id


@contextmanager
def acquire_write_locks(
    context: WriteContext,
    branch: BranchName,
    keys: Collection[TableKey],
    *,
    wait_ms_max: int | None = None,
    is_schema_change: bool = False,
) -> Iterator[WriteLock]:
    """Take what is needed to write these tables, and read the branch as it is then.

    `wait_ms_max` is how long other processes may keep us waiting, if not as long as usual. Raises
    LeaseHeld when somebody else writes them for too long, SchemaLocked while the schema is being
    changed, DriftFound when one of them moved without us, BranchNotFound.
    """
    lock_keys = [LockKey(key, branch) for key in keys] or [branch_lock_key(branch)]
    if is_schema_change:
        lock_keys.append(SCHEMA_LOCK_KEY)
    else:
        check_unlocked(context)
    came_ms = context.stores.effects.monotonic_ms()

    def begin(leases: HeldLeases) -> WriteLock:
        context.meter.waited(context.stores.effects.monotonic_ms() - came_ms)
        base = heal_drift(context, leases, context.bases.current(branch), keys)
        return WriteLock(context, leases, base)

    with _acquire(context, lock_keys, begin, wait_ms_max) as lock:
        yield lock


@contextmanager
def lock_branches(context: WriteContext) -> Iterator[None]:
    """Be the only one who makes or deletes branches: both look first, and act on what they saw.

    Raises LeaseHeld when others do so for too long.
    """
    with _acquire(context, [BRANCHES_LOCK_KEY], lambda _: None):
        yield


@contextmanager
def _acquire(
    context: WriteContext,
    lock_keys: Collection[LockKey],
    begin: Callable[[HeldLeases], T],
    wait_ms_max: int | None = None,
) -> Iterator[T]:
    """Queues, then leases, and then whatever `begin` makes of them.

    Where a holder is gone, what it left is recovered, and everything taken anew.
    """
    while True:
        operation_id = OperationId(context.stores.effects.new_id())
        try:
            with (
                context.queues.hold(lock_keys),
                context.leases.hold(
                    lock_keys,
                    operation_id,
                    wait_ms_max=wait_ms_max,
                    has_successor=partial(context.queues.has_successor, lock_keys),
                ) as leases,
            ):
                yield begin(leases)
                return
        except LeaseAbandoned as abandoned:
            late = abandoned
        finally:
            context.leases.release_unclaimed(filter(context.queues.is_free, lock_keys))
        clear_abandoned(context, late)


# ── the steps ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything is decided; what can be staged is. Nothing has moved."""

    change: Change
    sidecar: Sidecar
    staged: Mapping[TableKey, Staged | StagedCompaction]
    """The first commit of each table that needs no fork."""


@dataclass(frozen=True, slots=True)
class Armed:
    """The note is there."""

    prepared: Prepared


@dataclass(frozen=True, slots=True)
class Applied:
    """Every table moved."""

    armed: Armed
    reached: Mapping[TableKey, Handle]


def run(lock: WriteLock, change: Change) -> Published:
    """Make one change visible, or leave everything as it was.

    Raises ExpectedVersionMismatch and other conflicts, after which nothing of the change is there;
    and OutcomeUnknown, after which it may be.
    """
    prepared = prepare(lock, change)
    with _acquire_rest(lock, prepared.sidecar):
        try:
            published = _carry_out(lock, prepared)
        except (Fenced, LeaseLost) as taken_over:
            return _find_out(lock, prepared, taken_over)
        try:
            _conclude(lock, prepared)
        except KeyboardInterrupt:
            # Too late to take anything back, and the note would only puzzle the next writer.
            _conclude(lock, prepared)
            raise
        return published


@contextmanager
def _acquire_rest(lock: WriteLock, sidecar: Sidecar) -> Iterator[None]:
    """Hold what whoever finds the note expects its writer to hold, too.

    A write that came to nothing holds the tables that it might have moved, and is looked for under
    its branch: while it lives nobody may take it for one of the dead.
    """
    with ExitStack() as stack:
        for lock_key in set(lock_keys_of(sidecar)) - lock.leases.lock_keys:
            wait_ms_max = lock.context.leases.timing.wait_ms_max
            stack.enter_context(
                lease(lock.context, lock_key, lock.operation_id, wait_ms_max=wait_ms_max)
            )
        yield


def prepare(lock: WriteLock, change: Change) -> Prepared:
    """Mint every id, check every expectation, stage what needs no fork."""
    lock.context.observe("prepare")
    base = lock.base
    base.manifest.check_expected(_expected(change))
    base.manifest.check_schema(change.schema_hash)
    sidecar = _draft(lock, change)
    staged = {}
    for write, pinned in zip(change.writes, sidecar.writes, strict=True):
        if not pinned.is_fork and not pinned.is_new and pinned.transactions:
            handle = lock.context.open_pin(base.manifest.pins[write.key], base)
            first = write.stages[0](handle, _mark(lock, pinned.transactions[0]))
            assert first is not None, "a write that names its commits makes them"
            staged[write.key] = first
    return Prepared(change, sidecar, staged)


def arm(lock: WriteLock, prepared: Prepared) -> Armed:
    """Phase A."""
    lock.context.observe("arm")
    lock.leases.check()
    write_sidecar(lock.context.stores.objects, prepared.sidecar)
    return Armed(prepared)


def apply(lock: WriteLock, armed: Armed) -> Applied:
    """Phase B: table after table, in the order of their keys."""
    reached = {}
    prepared = armed.prepared
    writes = {each.key: each for each in prepared.change.writes}
    for pinned in sorted(prepared.sidecar.writes, key=lambda each: each.key):
        lock.context.observe(f"apply {pinned.key}")
        reached[pinned.key] = _apply_table(lock, prepared, writes[pinned.key], pinned)
    return Applied(armed, reached)


def confirm(lock: WriteLock, applied: Applied) -> Applied:
    """Phase B': a writer whose commits cannot be named in advance says now how far they got."""
    prepared = applied.armed.prepared
    if all(each.is_named for each in prepared.change.writes):
        return applied
    lock.context.observe("confirm")
    lock.leases.check()
    reached = {key: Version(handle.version) for key, handle in applied.reached.items()}
    write_sidecar(lock.context.stores.objects, prepared.sidecar.confirm(reached))
    return applied


def publish_applied(lock: WriteLock, applied: Applied) -> Published:
    """Phase C. Tables the change only read may have moved; then it is checked again (D5)."""
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


def settle(lock: WriteLock, prepared: Prepared) -> bool:
    """Phase C': the files of a new schema follow its commit. False if the note must do it."""
    shift = prepared.change.schema
    if shift is None:
        return True
    lock.context.observe("settle")
    try:
        # Who took us over has put them there, and perhaps another schema after that.
        lock.leases.check()
        promote(lock.context.stores.objects, shift.files)
    except StorageFailure:
        logger.warning("the schema files will be written by the next one who comes")
        return False
    except LeaseLost:
        return False
    return True


def disarm(lock: WriteLock, prepared: Prepared) -> None:
    """Phase D. The change is visible; a note that cannot be removed is resolved by the next."""
    lock.context.observe("disarm")
    try:
        remove_sidecar(lock.context.stores.objects, prepared.sidecar.operation_id)
    except StorageFailure:
        logger.warning("the sidecar of %s could not be removed", prepared.sidecar.operation_id)


# ── how the steps are taken ──────────────────────────────────────────────────────────────────────


def _carry_out(lock: WriteLock, prepared: Prepared) -> Published:
    """Phases A to C, or back to where they began."""
    try:
        # Even the note may be there though writing it failed.
        applied = confirm(lock, apply(lock, arm(lock, prepared)))
        published = publish_applied(lock, applied)
    except (Fenced, LeaseLost):
        raise
    except OutcomeUnknown as unknown:
        # Publishing knows its commits, and not whose they are.
        raise OutcomeUnknown(
            unknown.branch, commit_id=unknown.commit_id, operation_id=lock.operation_id
        ) from unknown
    except (OmnigraphError, KeyboardInterrupt) as failure:
        _undo(lock, prepared, failure)
        raise
    for handle in applied.reached.values():
        lock.context.keep(handle, published.base)
    return published


def _find_out(lock: WriteLock, prepared: Prepared, taken_over: Fenced | LeaseLost) -> Published:
    """(3) What became of an operation that somebody else took over."""
    sidecar = prepared.sidecar
    context, operation_id = lock.context, sidecar.operation_id
    unknown = OutcomeUnknown(sidecar.branch, commit_id=sidecar.intent.id, operation_id=operation_id)
    try:
        # The note goes last, so what is not on the branch once it is gone will never be.
        is_settled = not has_sidecar(context.stores.objects, operation_id)
        base = context.bases.reread(sidecar.branch)
    except StorageFailure as blind:
        raise unknown from blind
    log = base.manifest.log
    finished = log.find(sidecar.intent.id)
    if finished is not None:
        return Published(base, (finished,))
    if is_settled or log.find(recovery_commit_id(operation_id)) is not None:
        raise taken_over
    raise unknown from taken_over


def _conclude(lock: WriteLock, prepared: Prepared) -> None:
    if settle(lock, prepared):
        disarm(lock, prepared)


def _expected(change: Change) -> dict[TableKey, Version]:
    """What the branch must show of the tables that are written. Of a new one it shows nothing."""
    return {each.key: each.expected for each in change.writes if each.creation is None}


def _draft(lock: WriteLock, change: Change) -> Sidecar:
    """The note this change will leave."""
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
    """The schema that is in force once the change is visible."""
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
    assert pin is not None, "what is written is shown, or made"
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
    """The commits of one table, each on top of the one before."""
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
            assert not write.is_named, "a write that names its commits makes them"
    return handle


def _create(lock: WriteLock, write: TableWrite, creation: Creation, mark: Mark) -> Handle:
    """The empty table; over a hidden one of before, if there is one, so that numbers only rise."""
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
            _check_company(lock, write, change, handle)
            return handle
        case Refused():
            actual = tables.open_at(change.ref).version
            raise ExpectedVersionMismatch(write.key, expected=change.read_version, actual=actual)
    assert_never(outcome)


def _check_company(
    lock: WriteLock, write: TableWrite, change: Staged | StagedCompaction, handle: Handle
) -> None:
    """Raises DriftFound if rows came in below our commit that nobody here knows of (D38)."""
    for each in lock.context.stores.tables.find_transactions(handle, after=change.read_version):
        if each.kind not in MAINTENANCE and operation_of(each) != lock.operation_id:
            raise DriftFound(
                write.key,
                branch=lock.base.manifest.branch,
                shown=write.expected,
                head=handle.version,
            )


def _undo(lock: WriteLock, prepared: Prepared, failure: BaseException) -> None:
    """(2) Leave nothing behind of what failed. Raises OutcomeUnknown if that fails too; Fenced or
    LeaseLost if it is no longer ours to do.
    """
    lock.context.observe("undo")
    sidecar = prepared.sidecar
    lock.leases.check()
    try:
        undo(lock.context, lock.leases, sidecar)
    except (Fenced, LeaseLost):
        raise
    except (OmnigraphError, KeyboardInterrupt) as worse:
        worse.__context__ = failure
        raise OutcomeUnknown(
            sidecar.branch, commit_id=sidecar.intent.id, operation_id=sidecar.operation_id
        ) from worse
