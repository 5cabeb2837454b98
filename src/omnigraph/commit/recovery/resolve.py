"""Resolving a sidecar: looking at its tables, reaching a verdict, carrying it out.

All tables go forward, or all of them go back. The caller holds their leases.

1. A sidecar is resolved once. The commit of its recovery has an id that follows from the operation,
   so whoever comes second finds it, and so does the writer, should it wake up: it is fenced (D2).
2. Forward publishes the very commit that was meant, and the recovery commit on top. Back restores
   what moved and publishes the restored versions, so that what a branch shows is always the newest.
3. Forward needs everything the writer had read to be as it was; its checks cannot be made again
   here. Otherwise back.
4. A table in which somebody else's commit moved rows loses what the operation did there, if that is
   on top, and nothing else: it is restored to right below, and not published. Repair decides (D38).
5. The commit row holds the audit; the audit table and the removal of the sidecar follow, and are
   made up for by the next one who looks.
6. A sidecar whose commit is on the branch was only not removed. It is, and nothing is recorded: its
   writer has nothing left to do that could do harm (D31).
7. A newest version that nobody shows and that a power cut left unreadable is removed before its
   table is judged; what it was part of goes back (D31).
"""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.commit.compat.old_sidecar import OldPin, OldSidecar
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.holder import HeldLeases
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.base import Base, find_incarnation
from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.commit.manifest.records import Extension
from omnigraph.commit.manifest.schema_files import promote
from omnigraph.commit.manifest.snapshot import describe_table
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion, Update
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.commit.recovery.classify import (
    MAINTENANCE,
    RECOVERS,
    Decision,
    PinClass,
    classify,
    classify_by_number,
    decide,
    find_below,
    find_held,
    is_part,
    operation_of,
)
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.commit.recovery.sidecar_store import AnySidecar, remove_sidecar
from omnigraph.errors import (
    AlreadyDone,
    BranchNotFound,
    DriftFound,
    ExpectedVersionMismatch,
    Fenced,
    HeadMoved,
    InvariantViolated,
    TableCorrupt,
    TableNotFound,
    VersionNotFound,
)
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, TableKey, Version, lance_branch
from omnigraph.storage.tables import Branch, Handle, Landed, Mark, TableRef, TransactionRecord

ACTOR: Final = "omnigraph:recovery"
CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

logger = logging.getLogger(__name__)


def recovery_commit_id(operation_id: OperationId) -> CommitId:
    """The id of the commit that recovers an operation: its time, and a hash instead of chance."""
    digest = int.from_bytes(hashlib.sha256(f"recovery:{operation_id}".encode()).digest()[:10])
    tail = "".join(CROCKFORD[digest >> shift & 31] for shift in range(75, -1, -5))
    return CommitId(f"{operation_id[:10]}{tail}")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What became of one table."""

    key: TableKey
    branch: BranchName
    expected: Version
    shown: Version
    head: Handle | None
    """The newest version on the branch the writer used; None if it never made the fork."""
    since: tuple[TransactionRecord, ...]
    """What made the versions after the one that is shown."""
    is_fork: bool
    """Is the fork unknown to the branch's manifest?"""
    verdict: PinClass
    write: PinnedWrite | None = None
    """What a sidecar of ours says of the table."""
    fork: Branch | None = None
    """The fork as it was when it was looked at."""

    @property
    def lock_key(self) -> LockKey:
        return LockKey(self.key, self.branch)

    @property
    def is_new(self) -> bool:
        """Was the operation to make the table? `expected` is then what was there before."""
        return self.write is not None and self.write.is_new

    @property
    def shown_as(self) -> TableKey | None:
        """The key the operation was to show it by, if another one."""
        return None if self.write is None else self.write.shown_as


def resolve(context: WriteContext, held: HeldLeases, sidecar: AnySidecar) -> Recovery | None:
    """Finish or undo an operation. The caller holds its leases."""
    base = _find_base(context, sidecar)
    if base is None:
        return _finish(context, _publish(context, sidecar, RecoveryKind.ORPHANED, branch=MAIN))
    log = base.manifest.log
    if log.find(recovery_commit_id(sidecar.operation_id)) is not None:
        _promote(context, sidecar)
        return _finish(context, _read_recovery(base, sidecar))
    if isinstance(sidecar, Sidecar) and log.find(sidecar.intent.id) is not None:
        # (6)
        _promote(context, sidecar)
        remove_sidecar(context.stores.objects, sidecar.operation_id)
        return None
    found = [_look(context, base, sidecar, each) for each in _pins_of(sidecar)]
    if isinstance(sidecar, OldSidecar) and _has_landed(found):
        outcomes = tuple(TableOutcome(each.key, each.expected, each.shown) for each in found)
        return _finish(
            context, _publish(context, sidecar, RecoveryKind.ROLLED_FORWARD, outcomes=outcomes)
        )
    match decide([each.verdict for each in found]):
        case Decision.ABORT:
            raise _violation(sidecar, found)
        case Decision.ROLL_FORWARD if _may_go_forward(sidecar):
            try:
                return _finish(context, _roll_forward(context, held, sidecar, found))
            except (AlreadyDone, ExpectedVersionMismatch, HeadMoved):
                # (3) What the writer had read has moved, and with it the ground of its checks; or
                # its caller asked again, and was answered.
                return roll_back(context, held, sidecar, found)
        case Decision.ROLL_FORWARD | Decision.ROLL_BACK:
            return roll_back(context, held, sidecar, found)


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


def _find_base(context: WriteContext, sidecar: AnySidecar) -> Base | None:
    """The branch the operation was on; None if it is gone, or is another one by now."""
    try:
        identifier = find_incarnation(context.stores, sidecar.branch)
    except BranchNotFound:
        return None
    if isinstance(sidecar, Sidecar) and sidecar.branch_identifier != identifier:
        return None
    return context.bases.reread(sidecar.branch)


def _pins_of(sidecar: AnySidecar) -> Sequence[PinnedWrite | OldPin]:
    return sidecar.writes if isinstance(sidecar, Sidecar) else sidecar.pins


def _look(
    context: WriteContext, base: Base, sidecar: AnySidecar, pin: PinnedWrite | OldPin
) -> Inspection:
    if isinstance(pin, PinnedWrite) and pin.is_new:
        return _look_at_new(context, sidecar.operation_id, pin)
    manifest = base.manifest
    path = manifest.paths.get(pin.key)
    shown = manifest.version_of(pin.key)
    visible = manifest.pins.get(pin.key)
    is_fork = pin.branch != MAIN and (visible is None or visible.owner != pin.branch)
    if visible is not None and visible.owner == pin.branch:
        with suppress(VersionNotFound):
            clear_torn(context, context.open_pin(visible, base))
    fork = None
    if is_fork and path is not None:
        fork = context.stores.tables.find_branch(path, pin.branch)
    head = None if path is None else _open_head(context, path, pin.branch, is_fork=is_fork)
    since: tuple[TransactionRecord, ...] = ()
    if head is not None and head.version > shown:
        since = context.stores.tables.find_transactions(head, after=shown)
    if head is None:
        verdict = PinClass.NO_MOVEMENT
    elif isinstance(sidecar, OldSidecar):
        assert isinstance(pin, OldPin)
        verdict = classify_by_number(sidecar.mode, pin, head=head.version, shown=shown)
    elif head.version < shown:
        verdict = PinClass.INVARIANT_VIOLATION
    else:
        assert isinstance(pin, PinnedWrite)
        verdict = classify(pin, sidecar.operation_id, shown=shown, since=since)
    is_strange = verdict in (PinClass.INVARIANT_VIOLATION, PinClass.DRIFTED)
    if is_fork and is_strange and isinstance(sidecar, Sidecar):
        # A fork of a branch that had this name before: ours was never made. Whoever makes it will
        # find out that nobody shows the old one.
        head, since, verdict = None, (), PinClass.NO_MOVEMENT
    return Inspection(
        pin.key,
        pin.branch,
        pin.expected,
        shown,
        head,
        since,
        is_fork,
        verdict,
        pin if isinstance(pin, PinnedWrite) else None,
        fork,
    )


def _look_at_new(context: WriteContext, operation_id: OperationId, pin: PinnedWrite) -> Inspection:
    """A table that was to be made: no branch shows it, so what was there counts as shown."""
    tables, shown, verdict = context.stores.tables, pin.expected, PinClass.NO_MOVEMENT
    since: tuple[TransactionRecord, ...] = ()
    head: Handle | None = None
    if shown:
        clear_torn(context, tables.open_at(TableRef(pin.path), shown))
    try:
        head = tables.open_at(TableRef(pin.path))
    except TableNotFound:
        pass
    except TableCorrupt:
        # (7) Nothing was there before, so it goes as a whole.
        context.stores.objects.delete_prefix(pin.path)
    if head is not None:
        since = tables.find_transactions(head, after=shown)
        verdict = classify(pin, operation_id, shown=shown, since=since)
    return Inspection(
        pin.key, pin.branch, shown, shown, head, since, is_fork=False, verdict=verdict, write=pin
    )


def _open_head(
    context: WriteContext, path: str, branch: BranchName, *, is_fork: bool
) -> Handle | None:
    """The newest version; None for a fork that was never made, which only the list can tell."""
    tables, spelled = context.stores.tables, lance_branch(branch)
    if spelled is not None and tables.find_branch(path, spelled) is None:
        return None
    try:
        return tables.open_at(TableRef(path, spelled))
    except TableCorrupt:
        if not is_fork:
            raise
        # (7) Nobody shows the fork, so it goes as a whole.
        tables.clear_branch(path, branch)
        return None


def clear_torn(context: WriteContext, shown: Handle) -> None:
    """(7) Remove what a power cut left unreadable above the version that is shown."""
    tables = context.stores.tables
    while (torn := tables.find_torn(shown)) is not None:
        logger.warning("version %d of %s was torn by a power cut", torn, shown.ref.path)
        tables.remove_torn(shown, torn)


def _has_landed(found: Sequence[Inspection]) -> bool:
    """Is what an old sidecar wanted visible, and only the sidecar was left behind?"""
    unmoved = all(each.verdict is PinClass.NO_MOVEMENT for each in found)
    return unmoved and any(each.shown > each.expected for each in found)


def _may_go_forward(sidecar: AnySidecar) -> bool:
    """An old schema change goes forward with its schema files or not at all. A merge that had no
    table to move had not begun: whoever wanted it can ask again.
    """
    if isinstance(sidecar, OldSidecar):
        return sidecar.kind is not WriterKind.SCHEMA_APPLY
    return bool(sidecar.writes) or sidecar.kind is not WriterKind.BRANCH_MERGE


def _violation(sidecar: AnySidecar, found: Sequence[Inspection]) -> InvariantViolated:
    culprit = next(each for each in found if each.verdict is PinClass.INVARIANT_VIOLATION)
    head = 0 if culprit.head is None else culprit.head.version
    return InvariantViolated(
        sidecar.operation_id,
        table_key=culprit.key,
        reason=f"the branch shows version {culprit.shown}, the table is at {head}, "
        "and what lies between is not this operation's",
    )


# ── forward and back ─────────────────────────────────────────────────────────────────────────────


def _roll_forward(
    context: WriteContext, held: HeldLeases, sidecar: AnySidecar, found: Sequence[Inspection]
) -> Recovery:
    updates: list[Update] = []
    outcomes = []
    for each in found:
        assert each.head is not None, "what rolled past has a newest version"
        # The writer may have died between its commits and their flush (D11).
        context.stores.tables.fsync_version(each.head)
        key = each.shown_as or each.key
        updates.append(SetVersion(describe_table(context.stores, key, each.head)))
        outcomes.append(TableOutcome(each.key, each.expected, Version(each.head.version)))
    expected = {each.key: each.expected for each in found if not each.is_new}
    if isinstance(sidecar, Sidecar):
        updates += sidecar.updates
        expected |= sidecar.reads
    held.check()
    recovery = _publish(
        context,
        sidecar,
        RecoveryKind.ROLLED_FORWARD,
        updates=updates,
        expected=expected,
        outcomes=tuple(outcomes),
        finishes=True,
    )
    _promote(context, sidecar)
    return recovery


def _promote(context: WriteContext, sidecar: AnySidecar) -> None:
    """The files of a schema follow the commit it came into force with, and no other."""
    shift = sidecar.schema if isinstance(sidecar, Sidecar) else None
    if shift is None:
        return
    in_force = context.bases.current(sidecar.branch).manifest.log.schema_hash
    if in_force == shift.files.schema_hash:
        promote(context.stores.objects, shift.files)


def roll_back(
    context: WriteContext, held: HeldLeases, sidecar: AnySidecar, found: Sequence[Inspection]
) -> Recovery | None:
    """Undo whatever moved."""
    updates: list[Update] = []
    expected = {}
    outcomes = []
    for each in found:
        if each.head is None:
            continue
        held.check()
        if each.is_new:
            if each.verdict is PinClass.NO_MOVEMENT:
                continue
            _remove_new(context, each)
        elif each.is_fork:
            # Nobody shows the fork, so it goes as a whole.
            _clear_fork(context, each)
        elif each.verdict is PinClass.DRIFTED:
            below = _restore_below(context, sidecar, each)
            if below is not None:
                outcomes.append(TableOutcome(each.key, Version(each.head.version), below))
            continue
        elif each.head.version > each.shown and each.verdict is not PinClass.NO_MOVEMENT:
            restored = each.head
            if find_held(each.shown, each.since):
                restored = restore(
                    context, each.lock_key, each.head, to=each.shown, recovers=sidecar.operation_id
                )
            context.stores.tables.fsync_version(restored)
            updates.append(SetVersion(describe_table(context.stores, each.key, restored)))
            expected[each.key] = each.shown
        else:
            continue
        outcomes.append(TableOutcome(each.key, Version(each.head.version), each.shown))
    recovery = _publish(
        context,
        sidecar,
        RecoveryKind.ROLLED_BACK,
        updates=updates,
        expected=expected,
        outcomes=tuple(outcomes),
    )
    return _finish(context, recovery)


def _clear_fork(context: WriteContext, found: Inspection) -> None:
    """One who slept since it looked must not remove the fork that others made meanwhile."""
    assert found.head is not None, "what is removed is there"
    assert found.fork is not None, "what is removed was looked at"
    context.stores.tables.clear_branch(
        found.head.ref.path, found.branch, only=found.fork.identifier
    )


def _remove_new(context: WriteContext, found: Inspection) -> None:
    """A table that the operation made goes with it. One that was there is hidden, and may stay."""
    assert found.head is not None, "what moved is there"
    if found.expected == 0:
        context.stores.objects.delete_prefix(found.head.ref.path)


def _restore_below(context: WriteContext, sidecar: AnySidecar, found: Inspection) -> Version | None:
    """(4) The version a table went back to, if there was anything to take out of it."""
    write, operation_id = found.write, sidecar.operation_id
    assert write is not None, "only sidecars of ours tell commits apart"
    assert found.head is not None, "what drifted is there"
    held = find_held(found.shown, found.since)
    below = find_below(found.shown, held, lambda each: is_part(each, write, operation_id))
    if below is None:
        return None
    restored = restore(
        context, found.lock_key, found.head, to=Version(below), recovers=operation_id
    )
    context.stores.tables.fsync_version(restored)
    return Version(below)


def restore(
    context: WriteContext, lock_key: LockKey, head: Handle, *, to: Version, recovers: OperationId
) -> Handle:
    """An older content as the newest version; done anew until nothing came between.

    Raises DriftFound rather than bury what is not ours.
    """
    tables = context.stores.tables
    while True:
        mark = Mark(context.stores.effects.new_id(), {RECOVERS: recovers})
        outcome = tables.restore(head, to=to, mark=mark)
        if isinstance(outcome, Landed):
            return outcome.handle
        newest = tables.open_at(head.ref)
        for each in tables.find_transactions(newest, after=head.version):
            if each.kind not in MAINTENANCE and not operation_of(each):
                raise DriftFound(
                    lock_key.table, branch=lock_key.branch, shown=to, head=newest.version
                )
        head = newest


def _leave_others(write: PinnedWrite, found: Inspection) -> Inspection:
    """A table that somebody else moved, and we did not, is none of our business."""
    ours = any(each.uuid in write.transactions for each in found.since)
    if found.verdict is PinClass.DRIFTED and not ours:
        return replace(found, verdict=PinClass.NO_MOVEMENT)
    return found


def undo(context: WriteContext, held: HeldLeases, sidecar: Sidecar) -> None:
    """Take an operation of our own back, while we hold its leases.

    If nothing has moved there is nothing to record: nobody took us for dead. Raises Fenced if
    somebody did.
    """
    base = _find_base(context, sidecar)
    if base is None:
        remove_sidecar(context.stores.objects, sidecar.operation_id)
        return
    fence = recovery_commit_id(sidecar.operation_id)
    if base.manifest.log.find(fence) is not None:
        raise Fenced(sidecar.branch, recovered_by=fence)
    found = [_leave_others(each, _look(context, base, sidecar, each)) for each in sidecar.writes]
    if PinClass.INVARIANT_VIOLATION in {each.verdict for each in found}:
        raise _violation(sidecar, found)
    if all(each.head is None or each.verdict is PinClass.NO_MOVEMENT for each in found):
        for each in found:
            if each.is_fork and each.head is not None:
                _clear_fork(context, each)
        remove_sidecar(context.stores.objects, sidecar.operation_id)
        return
    roll_back(context, held, sidecar, found)


# ── making it visible ────────────────────────────────────────────────────────────────────────────


def _publish(
    context: WriteContext,
    sidecar: AnySidecar,
    kind: RecoveryKind,
    *,
    branch: BranchName | None = None,
    updates: Sequence[Update] = (),
    expected: "dict[TableKey, Version] | None" = None,
    outcomes: tuple[TableOutcome, ...] = (),
    finishes: bool = False,
) -> Recovery:
    """Record a recovery; with the commit that was meant, where this is what finishes it."""
    effects = context.stores.effects
    recovery = Recovery(
        operation_id=sidecar.operation_id,
        kind=kind,
        writer=sidecar.kind,
        actor=sidecar.actor,
        commit_id=recovery_commit_id(sidecar.operation_id),
        outcomes=outcomes,
        created_at_us=effects.now_ms() * 1000,
    )
    own = CommitIntent(
        id=recovery.commit_id,
        created_at_us=recovery.created_at_us,
        actor=ACTOR,
        merged_parent=_merged_parent(sidecar, kind),
        extension=Extension(operation_id=sidecar.operation_id, recovery=recovery.encode()),
    )
    # A write with a key may have moved no table, and its commit is all there is to finish.
    intents = (sidecar.intent, own) if finishes and isinstance(sidecar, Sidecar) else (own,)
    published = publish(
        context.stores,
        context.bases,
        Publication(
            branch=sidecar.branch if branch is None else branch,
            intents=intents,
            updates=tuple(updates),
            expected=expected or {},
            on_top_of=sidecar.on_top_of if finishes and isinstance(sidecar, Sidecar) else None,
        ),
    )
    # The writer's clock may have been ahead of ours, and its commit comes before.
    return replace(recovery, created_at_us=published.commits[-1].created_at_us)


def _merged_parent(sidecar: AnySidecar, kind: RecoveryKind) -> CommitId | None:
    """A merge that an old sidecar finishes has no commit of its own to say what was merged."""
    if isinstance(sidecar, OldSidecar) and kind is RecoveryKind.ROLLED_FORWARD:
        return sidecar.merge_source if sidecar.kind is WriterKind.BRANCH_MERGE else None
    return None


def _read_recovery(base: Base, sidecar: AnySidecar) -> Recovery:
    """What an earlier recovery did, from its commit."""
    commit = base.manifest.log.find(recovery_commit_id(sidecar.operation_id))
    assert commit is not None, "the caller found it"
    return audit.decode_recovery(commit)


def _finish(context: WriteContext, recovery: Recovery) -> Recovery:
    """(5) Write the audit row and remove the note, in this order."""
    audit.record(context.stores, recovery)
    remove_sidecar(context.stores.objects, recovery.operation_id)
    return recovery
