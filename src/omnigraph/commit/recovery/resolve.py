"""Resolving a sidecar: inspect its tables, classify them, roll all forward or all back.

The caller holds the leases of every table that the sidecar names.

1. Every table of an operation is rolled forward, or every table is rolled back.
2. An operation is resolved once: the id of its recovery commit follows from the operation (D2).
3. An operation is rolled forward only if every table that its writer read is unchanged.
4. A sidecar whose intended commit is on the branch is removed without a recovery commit (D31).
5. The sidecar is removed last. A recovery that dies before is repeated and finds what it did.
"""

from collections.abc import Sequence

from omnigraph.commit.compat.old_sidecar import OldSidecar
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.recovery.audit import Recovery, RecoveryKind, TableOutcome, decode_recovery
from omnigraph.commit.recovery.classify import Decision, PinClass, decide
from omnigraph.commit.recovery.inspect import Inspection, find_base, inspect, invariant_violation
from omnigraph.commit.recovery.recovery_commit import (
    complete_recovery,
    publish_recovery,
    recovery_commit_id,
)
from omnigraph.commit.recovery.roll_back import roll_back
from omnigraph.commit.recovery.roll_forward import (
    can_roll_forward,
    promote_recovered_schema,
    roll_forward,
)
from omnigraph.commit.recovery.sidecar import Sidecar
from omnigraph.commit.recovery.sidecar_store import AnySidecar, remove_sidecar
from omnigraph.errors import AlreadyDone, ExpectedVersionMismatch, HeadMoved
from omnigraph.ids import MAIN


def resolve(context: WriteContext, held: HeldLeases, sidecar: AnySidecar) -> Recovery | None:
    """Roll an operation forward or back. None if its commit was published already.

    Raises InvariantViolated; the sidecar then stays.
    """
    base = find_base(context, sidecar)
    if base is None:
        orphaned = publish_recovery(context, sidecar, RecoveryKind.ORPHANED, branch=MAIN)
        return complete_recovery(context, orphaned)
    log = base.manifest.log
    earlier = log.find(recovery_commit_id(sidecar.operation_id))
    if earlier is not None:
        # (5)
        promote_recovered_schema(context, sidecar)
        return complete_recovery(context, decode_recovery(earlier))
    if isinstance(sidecar, Sidecar) and log.find(sidecar.intent.id) is not None:
        # (4)
        promote_recovered_schema(context, sidecar)
        remove_sidecar(context.stores.objects, sidecar.operation_id)
        return None
    found = inspect(context, base, sidecar)
    if isinstance(sidecar, OldSidecar) and _is_published(found):
        outcomes = tuple(TableOutcome(each.key, each.expected, each.shown) for each in found)
        published = publish_recovery(
            context, sidecar, RecoveryKind.ROLLED_FORWARD, outcomes=outcomes
        )
        return complete_recovery(context, published)
    match decide([each.pin_class for each in found]):
        case Decision.ABORT:
            raise invariant_violation(sidecar, found)
        case Decision.ROLL_FORWARD if can_roll_forward(sidecar):
            try:
                return complete_recovery(context, roll_forward(context, held, sidecar, found))
            except (AlreadyDone, ExpectedVersionMismatch, HeadMoved):
                # (3) A table that the writer read has moved, or the caller repeated the write
                # with the same idempotency key.
                return roll_back(context, held, sidecar, found)
        case Decision.ROLL_FORWARD | Decision.ROLL_BACK:
            return roll_back(context, held, sidecar, found)


def _is_published(found: Sequence[Inspection]) -> bool:
    """Does the branch show what an old sidecar wanted? Then only its removal is missing."""
    unmoved = all(each.pin_class is PinClass.NO_MOVEMENT for each in found)
    return unmoved and any(each.shown > each.expected for each in found)
