"""Rolling an operation back: every table that it moved returns to the version its branch shows.

1. A restore is a new version with the old content, and it is published with the recovery commit.
   The newest version of a table therefore stays the one that its branch shows.
2. A fork that no branch shows is removed. A table that the operation created is removed.
3. If a foreign transaction moved rows of a table, the operation's own commits on top are undone by
   restoring the version directly below them, and nothing else. That version is not published;
   `omnigraph repair` decides (D38).
"""

from collections.abc import Sequence

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.snapshot import describe_table
from omnigraph.commit.manifest.updates import SetVersion, Update
from omnigraph.commit.recovery.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.commit.recovery.classify import (
    MAINTENANCE,
    RECOVERS,
    PinClass,
    belongs_to,
    find_effective,
    find_restore_version,
    operation_of,
)
from omnigraph.commit.recovery.inspect import Inspection
from omnigraph.commit.recovery.recovery_commit import complete_recovery, publish_recovery
from omnigraph.commit.recovery.sidecar_store import AnySidecar
from omnigraph.errors import DriftFound
from omnigraph.ids import OperationId, Version
from omnigraph.storage.tables import Handle, Landed, Mark


def roll_back(
    context: WriteContext, held: HeldLeases, sidecar: AnySidecar, found: Sequence[Inspection]
) -> Recovery:
    """Undo every table that moved, publish the recovery commit and remove the sidecar."""
    updates: list[Update] = []
    expected = {}
    outcomes = []
    for each in found:
        if each.head is None:
            continue
        held.check()
        if each.is_new:
            if each.pin_class is PinClass.NO_MOVEMENT:
                continue
            _remove_new(context, each)
        elif each.is_fork:
            clear_fork(context, each)
        elif each.pin_class is PinClass.DRIFTED:
            below = _restore_below(context, sidecar, each)
            if below is not None:
                outcomes.append(TableOutcome(each.key, Version(each.head.version), below))
            continue
        elif each.head.version > each.shown and each.pin_class is not PinClass.NO_MOVEMENT:
            restored = each.head
            if find_effective(each.shown, each.since):
                restored = restore(
                    context, each.lock_key, each.head, to=each.shown, recovers=sidecar.operation_id
                )
            context.stores.tables.fsync_version(restored)
            updates.append(SetVersion(describe_table(context.stores, each.key, restored)))
            expected[each.key] = each.shown
        else:
            continue
        outcomes.append(TableOutcome(each.key, Version(each.head.version), each.shown))
    recovery = publish_recovery(
        context,
        sidecar,
        RecoveryKind.ROLLED_BACK,
        updates=updates,
        expected=expected,
        outcomes=tuple(outcomes),
    )
    return complete_recovery(context, recovery)


def clear_fork(context: WriteContext, found: Inspection) -> None:
    """(2) Remove exactly the inspected fork. A process that was paused since then must not
    remove a fork that another writer made later.
    """
    assert found.head is not None, "the fork existed at the inspection"
    assert found.fork is not None, "the inspection read the fork"
    context.stores.tables.clear_branch(
        found.head.ref.path, found.branch, only=found.fork.identifier
    )


def _remove_new(context: WriteContext, found: Inspection) -> None:
    """(2) A table over an older, hidden one stays: no branch shows it."""
    assert found.head is not None, "a table that moved has a newest version"
    if found.expected == 0:
        context.stores.objects.delete_prefix(found.head.ref.path)


def _restore_below(context: WriteContext, sidecar: AnySidecar, found: Inspection) -> Version | None:
    """(3) The version that was restored; None if no commit of the operation lies on top."""
    write, operation_id = found.write, sidecar.operation_id
    assert write is not None, "only a version 3 sidecar names its transactions"
    assert found.head is not None, "a table that moved has a newest version"
    effective = find_effective(found.shown, found.since)
    below = find_restore_version(
        found.shown, effective, lambda each: belongs_to(each, write, operation_id)
    )
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
    """Commit the content of an older version as the newest, again if another commit came between.

    Raises DriftFound if that commit is foreign and moved rows: a restore would bury them.
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
