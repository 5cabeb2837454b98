"""Finishing or undoing what a writer left behind, at every write and when a graph is opened.

A sidecar without a living writer is resolved (`resolve`) under the queues and leases of every table
it names, taken over from the writer that is gone. It needs no operator and no restart. A reader
resolves nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.fences import leave_fence
from omnigraph.commit.leases.holder import Abandoned, HeldLeases, Taking
from omnigraph.commit.leases.queues import Place
from omnigraph.commit.recovery.audit import Recovery
from omnigraph.commit.recovery.resolve import resolve
from omnigraph.commit.recovery.sidecar_store import find_sidecars, places_of, read_sidecar
from omnigraph.ids import OperationId
from omnigraph.storage.objects import Listed


def heal(context: WriteContext, listed: Sequence[Listed] | None = None) -> tuple[Recovery, ...]:
    """Resolve every sidecar whose writer is gone, oldest first. Costs one listing if there is none,
    and nothing if the caller has listed them.

    Raises SidecarCorrupt, SidecarTooNew, InvariantViolated; the sidecar then stays.
    """
    left = find_sidecars(context.stores.objects, listed)
    resolved = [recover(context, each) for each in left]
    return tuple(each for each in resolved if each is not None)


def recover(context: WriteContext, operation_id: OperationId) -> Recovery | None:
    """Resolve one operation, if its writer is gone and it left a sidecar."""
    sidecar = read_sidecar(context.stores.objects, operation_id)
    if sidecar is None:
        return None
    places = places_of(sidecar)
    if any(context.leases.is_alive(place, operation_id) for place in places):
        return None
    sleeper = context.leases.find_sleeper(places, operation_id)
    if sleeper is not None:
        # Before the leases are taken over: whoever comes after us cannot see it in them any more.
        leave_fence(context.stores.objects, operation_id, places, sleeper)
    with (
        context.queues.hold(places),
        context.leases.hold(places, operation_id, Taking.OVER) as held,
    ):
        # Somebody may have resolved it while we waited for the leases.
        sidecar = read_sidecar(context.stores.objects, operation_id)
        if sidecar is None:
            return None
        recovery = resolve(context, held, sidecar)
        context.meter.recovered("none" if recovery is None else recovery.kind.value)
        return recovery


@contextmanager
def lease(
    context: WriteContext,
    place: Place,
    operation_id: OperationId | None = None,
    *,
    wait_ms_max: int,
) -> Iterator[HeldLeases]:
    """Hold one place, after clearing what its last holder left; for an operation of its own if none
    is named. Raises LeaseHeld.
    """
    operation_id = operation_id or OperationId(context.stores.effects.new_id())
    while True:
        try:
            with (
                context.queues.hold([place]),
                context.leases.hold([place], operation_id, wait_ms_max=wait_ms_max) as held,
            ):
                yield held
                return
        except Abandoned as abandoned:
            late = abandoned
        clear_abandoned(context, late)


def clear_abandoned(context: WriteContext, abandoned: Abandoned) -> None:
    """Resolve what the late holder of a place left, and free the place."""
    recover(context, abandoned.operation_id)
    place = abandoned.place
    with (
        context.queues.hold([place]),
        context.leases.hold([place], abandoned.operation_id, Taking.OVER),
    ):
        pass
