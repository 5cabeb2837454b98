"""What a writer does when a phase fails: undo its own work, or find out what recovery did.

1. A writer that still holds its leases undoes its work and then reports the failure, which is safe
   to retry. If the undo fails too, it raises OutcomeUnknown and leaves its sidecar (D4).
2. A writer that lost its leases was recovered, or is being recovered. It undoes nothing. It reports
   that outcome: success if it was rolled forward, `Fenced` or `LeaseLost` if it was rolled back,
   `OutcomeUnknown` while the sidecar still exists.
"""

from dataclasses import replace

from omnigraph.commit.attempt.locks import WriteLock
from omnigraph.commit.manifest.publish import Published
from omnigraph.commit.recovery.classify import Decision, PinClass, decide
from omnigraph.commit.recovery.inspect import Inspection, find_base, inspect, invariant_violation
from omnigraph.commit.recovery.recovery_commit import recovery_commit_id
from omnigraph.commit.recovery.roll_back import clear_fork, roll_back
from omnigraph.commit.recovery.sidecar import Sidecar
from omnigraph.commit.recovery.sidecar_store import has_sidecar, remove_sidecar
from omnigraph.errors import Fenced, LeaseLost, OmnigraphError, OutcomeUnknown, StorageFailure


def undo(lock: WriteLock, sidecar: Sidecar, failure: BaseException) -> None:
    """(1) Undo an operation that failed. Raises OutcomeUnknown if the undo fails, and Fenced or
    LeaseLost if the operation was recovered.
    """
    lock.context.observe("undo")
    lock.leases.check()
    try:
        _undo(lock, sidecar)
    except (Fenced, LeaseLost):
        raise
    except (OmnigraphError, KeyboardInterrupt) as worse:
        worse.__context__ = failure
        raise OutcomeUnknown(
            sidecar.branch, commit_id=sidecar.intent.id, operation_id=sidecar.operation_id
        ) from worse


def _undo(lock: WriteLock, sidecar: Sidecar) -> None:
    """If no table moved there is no recovery commit: no process took this operation over."""
    context, objects = lock.context, lock.context.stores.objects
    base = find_base(context, sidecar)
    if base is None:
        remove_sidecar(objects, sidecar.operation_id)
        return
    fence = recovery_commit_id(sidecar.operation_id)
    if base.manifest.log.find(fence) is not None:
        raise Fenced(sidecar.branch, recovered_by=fence)
    found = [_ignore_foreign(each) for each in inspect(context, base, sidecar)]
    if decide([each.pin_class for each in found]) is Decision.ABORT:
        raise invariant_violation(sidecar, found)
    if all(each.head is None or each.pin_class is PinClass.NO_MOVEMENT for each in found):
        for each in found:
            if each.is_fork and each.head is not None:
                clear_fork(context, each)
        remove_sidecar(objects, sidecar.operation_id)
        return
    roll_back(context, lock.leases, sidecar, found)


def _ignore_foreign(found: Inspection) -> Inspection:
    """A table that only another program moved needs no undo."""
    assert found.write is not None, "a version 3 sidecar describes each write"
    ours = any(each.uuid in found.write.transactions for each in found.since)
    if found.pin_class is PinClass.DRIFTED and not ours:
        return replace(found, pin_class=PinClass.NO_MOVEMENT)
    return found


def find_recovered(lock: WriteLock, sidecar: Sidecar, lost: Fenced | LeaseLost) -> Published:
    """(2) The outcome of an operation that another process took over."""
    context, operation_id = lock.context, sidecar.operation_id
    unknown = OutcomeUnknown(sidecar.branch, commit_id=sidecar.intent.id, operation_id=operation_id)
    try:
        # Read in this order: recovery removes the sidecar last, so a commit that is not on the
        # branch once the sidecar is gone will never be.
        is_resolved = not has_sidecar(context.stores.objects, operation_id)
        base = context.bases.reread(sidecar.branch)
    except StorageFailure as blind:
        raise unknown from blind
    log = base.manifest.log
    finished = log.find_all([each.id for each in sidecar.intents])
    if len(finished) == len(sidecar.intents):
        return Published(base, finished)
    if is_resolved or log.find(recovery_commit_id(operation_id)) is not None:
        raise lost
    raise unknown from lost
