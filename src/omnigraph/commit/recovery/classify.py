"""Judging what an unfinished operation did, and what is to become of it. Facts in, verdict out.

Of a table it is known which version its branch shows, and what made the versions after that one. A
sidecar of ours names its transactions, so they are simply recognised (D3). Older sidecars name
numbers only, and are judged by the numbers.
"""

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Final, assert_never

from omnigraph.commit.compat.old_sidecar import OldMode, OldPin
from omnigraph.commit.recovery.sidecar import PinnedWrite
from omnigraph.ids import OperationId
from omnigraph.storage.tables import TransactionKind, TransactionRecord

OPERATION: Final = "operation_id"
"""The property of every table transaction that says whose it is."""

RECOVERS: Final = "recovers"
"""The property of a restore that is part of the recovery of an operation."""

MAINTENANCE: Final = frozenset(
    {
        TransactionKind.INDEX,
        TransactionKind.CONFIG,
        TransactionKind.COMPACTION,
        TransactionKind.UNREADABLE,
    }
)
"""What changes no rows. A transaction that cannot be read is a compaction: no other is written in a
way that cannot be read back."""


def operation_of(transacted: TransactionRecord) -> OperationId:
    """The operation of ours that a transaction is part of, or recovers; empty if it is foreign."""
    properties = transacted.properties
    return OperationId(properties.get(OPERATION) or properties.get(RECOVERS) or "")


def find_held(shown: int, since: Sequence[TransactionRecord]) -> tuple[TransactionRecord, ...]:
    """Those of the transactions since a version whose work the newest version holds, oldest first.

    A restore takes out what came after the version it brings back.
    """
    held: list[TransactionRecord] = []
    at = len(since)
    while at > 0:
        transacted = since[at - 1]
        if transacted.restores is not None and transacted.restores >= shown:
            at = transacted.restores - shown
        else:
            held.append(transacted)
            at -= 1
    return tuple(reversed(held))


def find_below(
    shown: int, held: Sequence[TransactionRecord], is_undone: Callable[[TransactionRecord], bool]
) -> int | None:
    """The version right below what is to be undone, and above everything foreign (D38).

    None if nothing of it can be undone, because there is none or a foreign commit stands on it.
    """
    below = None
    for at in reversed(range(len(held))):
        if is_undone(held[at]):
            below = held[at - 1].version if at else shown
        elif held[at].kind not in MAINTENANCE:
            break
    return below


class PinClass(StrEnum):
    """What happened to a table since a sidecar was written."""

    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST = "RolledPastExpected"
    UNEXPECTED_ONE = "UnexpectedAtP1"
    UNEXPECTED_MANY = "UnexpectedMultistep"
    INCOMPLETE = "IncompletePhaseB"
    DRIFTED = "Drifted"
    """Somebody else's commit moved rows."""
    INVARIANT_VIOLATION = "InvariantViolation"


class Decision(StrEnum):
    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"
    ABORT = "abort"


def is_part(transacted: TransactionRecord, write: PinnedWrite, operation_id: OperationId) -> bool:
    """Is this one of the commits an operation meant, or of its recovery?"""
    return transacted.uuid in write.transactions or operation_of(transacted) == operation_id


def classify(
    write: PinnedWrite, operation_id: OperationId, *, shown: int, since: Sequence[TransactionRecord]
) -> PinClass:
    """What an operation did to a table, from the transactions since the version that is shown."""
    held = find_held(shown, since)
    moved = [each for each in held if each.kind not in MAINTENANCE]
    if not all(is_part(each, write, operation_id) for each in moved):
        return PinClass.DRIFTED
    if any(each.properties.get(RECOVERS) == operation_id for each in since):
        # A recovery before us died on its way back; there is no way forward from there.
        return PinClass.INCOMPLETE
    ours = [each.uuid for each in held if each.uuid in write.transactions]
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
    """A writer that cannot name its transactions says afterwards how far it got."""
    if not since:
        return PinClass.NO_MOVEMENT
    reached = shown + len(since)
    return PinClass.ROLLED_PAST if write.confirmed == reached else PinClass.INCOMPLETE


def classify_by_number(mode: OldMode, pin: OldPin, *, head: int, shown: int) -> PinClass:
    """What a sidecar of old says of a table: `head` is its newest version, `shown` the branch's.

    A writer meant to get from `expected` to `post_commit`, and some confirm what they reached.
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
    """All tables forward, or all back; and nothing at all where the impossible was found."""
    if PinClass.INVARIANT_VIOLATION in classes:
        return Decision.ABORT
    if all(each is PinClass.ROLLED_PAST for each in classes):
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK
