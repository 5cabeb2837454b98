"""Classifying what an unfinished operation did to a table, and deciding about the operation.

Values in, values out; no I/O. The input is the version that the branch shows and the transactions
after it. A version 3 sidecar names its transactions by uuid (D3):

| effective transactions after the shown version | class |
|---|---|
| none, or only maintenance | NoMovement |
| all of the operation's, in order, with or without maintenance | RolledPastExpected |
| some of the operation's, or a restore of its recovery | IncompletePhaseB |
| any other transaction that moves rows | Drifted |

A sidecar of version 1 or 2 names version numbers only, and is classified by number.
"""

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Final, assert_never

from omnigraph.commit.compat.old_sidecar import OldMode, OldPin
from omnigraph.commit.recovery.sidecar import PinnedWrite
from omnigraph.ids import OperationId
from omnigraph.storage.tables import TransactionKind, TransactionRecord

OPERATION: Final = "operation_id"
"""The property of a table transaction that names its operation."""

RECOVERS: Final = "recovers"
"""The property of a restore that names the operation it recovers."""

MAINTENANCE: Final = frozenset(
    {
        TransactionKind.INDEX,
        TransactionKind.CONFIG,
        TransactionKind.COMPACTION,
        TransactionKind.UNREADABLE,
    }
)
"""The kinds that change no rows. An unreadable transaction is a compaction: no other kind is
written in a form that cannot be read back."""


def operation_of(transacted: TransactionRecord) -> OperationId:
    """Our operation that the transaction is part of, or recovers; empty if it is foreign."""
    properties = transacted.properties
    return OperationId(properties.get(OPERATION) or properties.get(RECOVERS) or "")


def find_effective(shown: int, since: Sequence[TransactionRecord]) -> tuple[TransactionRecord, ...]:
    """The transactions after `shown` whose work the newest version contains, oldest first.

    A restore cancels every transaction after the version that it restores.
    """
    effective: list[TransactionRecord] = []
    at = len(since)
    while at > 0:
        transacted = since[at - 1]
        if transacted.restores is not None and transacted.restores >= shown:
            at = transacted.restores - shown
        else:
            effective.append(transacted)
            at -= 1
    return tuple(reversed(effective))


def find_restore_version(
    shown: int,
    effective: Sequence[TransactionRecord],
    is_undone: Callable[[TransactionRecord], bool],
) -> int | None:
    """The version directly below the transactions to undo, and above every foreign one (D38).

    None if there is nothing to undo, or if a foreign commit lies on top.
    """
    below = None
    for at in reversed(range(len(effective))):
        if is_undone(effective[at]):
            below = effective[at - 1].version if at else shown
        elif effective[at].kind not in MAINTENANCE:
            break
    return below


class PinClass(StrEnum):
    """What happened to a table since its sidecar was written."""

    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST = "RolledPastExpected"
    UNEXPECTED_ONE = "UnexpectedAtP1"
    UNEXPECTED_MANY = "UnexpectedMultistep"
    INCOMPLETE = "IncompletePhaseB"
    DRIFTED = "Drifted"
    """A transaction of another program moved rows."""
    INVARIANT_VIOLATION = "InvariantViolation"
    """The newest version is behind the one that the branch shows."""


class Decision(StrEnum):
    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"
    ABORT = "abort"


def belongs_to(
    transacted: TransactionRecord, write: PinnedWrite, operation_id: OperationId
) -> bool:
    """Is this a commit of the operation, or of the operation's recovery?"""
    return transacted.uuid in write.transactions or operation_of(transacted) == operation_id


def classify(
    write: PinnedWrite, operation_id: OperationId, *, shown: int, since: Sequence[TransactionRecord]
) -> PinClass:
    """What an operation did to a table, from the transactions since the version that is shown."""
    effective = find_effective(shown, since)
    moved = [each for each in effective if each.kind not in MAINTENANCE]
    if not all(belongs_to(each, write, operation_id) for each in moved):
        return PinClass.DRIFTED
    if any(each.properties.get(RECOVERS) == operation_id for each in since):
        # An earlier recovery began to roll back and died. A rollback is never reversed.
        return PinClass.INCOMPLETE
    ours = [each.uuid for each in effective if each.uuid in write.transactions]
    if shown != write.expected:
        return PinClass.NO_MOVEMENT if not since else PinClass.UNEXPECTED_MANY
    if not write.transactions:
        return _classify_confirmed(write, shown=shown, since=since)
    if not ours:
        return PinClass.NO_MOVEMENT
    complete = tuple(ours) == write.transactions
    return PinClass.ROLLED_PAST if complete else PinClass.INCOMPLETE


def _classify_confirmed(
    write: PinnedWrite, *, shown: int, since: Sequence[TransactionRecord]
) -> PinClass:
    """A writer that cannot choose its uuids confirms the version it reached (phase B')."""
    if not since:
        return PinClass.NO_MOVEMENT
    reached = shown + len(since)
    return PinClass.ROLLED_PAST if write.confirmed == reached else PinClass.INCOMPLETE


def classify_by_number(mode: OldMode, pin: OldPin, *, head: int, shown: int) -> PinClass:
    """Classify a table of an old sidecar: `head` is its newest version, `shown` the branch's.

    The writer moves the table from `expected` to `post_commit`; some writers confirm the version
    they reached.
    """
    if head < shown:
        return PinClass.INVARIANT_VIOLATION
    if head == shown:
        return PinClass.NO_MOVEMENT
    unexpected = PinClass.UNEXPECTED_ONE if head == shown + 1 else PinClass.UNEXPECTED_MANY
    match mode:
        case OldMode.STRICT:
            fits = head == shown + 1 and pin.expected == shown and pin.post_commit == head
            return PinClass.ROLLED_PAST if fits else unexpected
        case OldMode.LOOSE:
            return PinClass.ROLLED_PAST if pin.expected == shown else unexpected
        case OldMode.CONFIRMED:
            if pin.confirmed is None:
                return PinClass.INCOMPLETE
            fits = pin.confirmed == head and pin.expected == shown
            return PinClass.ROLLED_PAST if fits else PinClass.UNEXPECTED_MANY
    assert_never(mode)


def decide(classes: Collection[PinClass]) -> Decision:
    """Roll every table forward, or every table back. Abort if an invariant is violated."""
    if PinClass.INVARIANT_VIOLATION in classes:
        return Decision.ABORT
    if all(each is PinClass.ROLLED_PAST for each in classes):
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK
