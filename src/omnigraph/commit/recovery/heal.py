"""Recovering operations whose writer is gone: before every write, and when a graph is opened.

A sidecar without a live writer is resolved (`resolve`) under the queues and leases of every table
that it names, taken over from its writer. No operator and no restart is needed. A reader resolves
nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.fences import write_fence
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.holder import AcquireMode
from omnigraph.commit.leases.lease import LeaseAbandoned
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.recovery.audit import Recovery
from omnigraph.commit.recovery.resolve import resolve
from omnigraph.commit.recovery.sidecar_store import find_sidecars, lock_keys_of, read_sidecar
from omnigraph.ids import OperationId
from omnigraph.storage.objects import Listed


def heal(context: WriteContext, listed: Sequence[Listed] | None = None) -> tuple[Recovery, ...]:
    """Resolve every sidecar whose writer is gone, oldest first.

    Costs one listing, and none if the caller passes `listed`. Raises SidecarCorrupt, SidecarTooNew,
    InvariantViolated; the sidecar then stays.
    """
    # This process is removing the sidecars of its own published writes. Ask before the listing.
    ending = context.afterwards.names
    left = [each for each in find_sidecars(context.stores.objects, listed) if each not in ending]
    resolved = [recover(context, each) for each in left]
    return tuple(each for each in resolved if each is not None)


def recover(context: WriteContext, operation_id: OperationId) -> Recovery | None:
    """Resolve one operation, if it left a sidecar and its writer is gone."""
    sidecar = read_sidecar(context.stores.objects, operation_id)
    if sidecar is None:
        return None
    lock_keys = lock_keys_of(sidecar)
    if any(context.leases.is_alive(each, operation_id) for each in lock_keys):
        return None
    paused = context.leases.find_paused_owner(lock_keys, operation_id)
    if paused is not None:
        # Before the leases are taken over: afterwards they no longer name the paused process.
        write_fence(context.stores.objects, operation_id, lock_keys, paused)
    with (
        context.queues.hold(lock_keys),
        context.leases.hold(lock_keys, operation_id, AcquireMode.TAKE_OVER) as held,
    ):
        # Another process may have resolved the sidecar while this one waited for the leases.
        sidecar = read_sidecar(context.stores.objects, operation_id)
        if sidecar is None:
            return None
        recovery = resolve(context, held, sidecar)
        context.meter.recovered("none" if recovery is None else recovery.kind.value)
        return recovery


@contextmanager
def lease(
    context: WriteContext,
    lock_key: LockKey,
    operation_id: OperationId | None = None,
    *,
    wait_ms_max: int,
) -> Iterator[HeldLeases]:
    """Hold the lease of one lock key, for a new operation if none is named. Raises LeaseHeld.

    Recovers the operation that abandoned the lease, if there is one.
    """
    operation_id = operation_id or OperationId(context.stores.effects.new_id())
    while True:
        try:
            with (
                context.queues.hold([lock_key]),
                context.leases.hold([lock_key], operation_id, wait_ms_max=wait_ms_max) as held,
            ):
                yield held
                return
        except LeaseAbandoned as abandoned:
            late = abandoned
        clear_abandoned(context, late)


def clear_abandoned(context: WriteContext, abandoned: LeaseAbandoned) -> None:
    """Recover the operation that abandoned a lease, and release the lease."""
    recover(context, abandoned.operation_id)
    lock_key = abandoned.lock_key
    with (
        context.queues.hold([lock_key]),
        context.leases.hold([lock_key], abandoned.operation_id, AcquireMode.TAKE_OVER),
    ):
        pass
