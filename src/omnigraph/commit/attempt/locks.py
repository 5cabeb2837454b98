"""The locks of an operation: the queues of its tables in the process, then their leases."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from omnigraph.commit.attempt.entry import WriteEntry, look_again
from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.holder import LeaseLook
from omnigraph.commit.leases.lease import LeaseAbandoned
from omnigraph.commit.leases.lock_key import (
    BRANCHES_LOCK_KEY,
    SCHEMA_LOCK_KEY,
    LockKey,
    lock_keys_for,
)
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.recovery.drift import heal_drift
from omnigraph.commit.recovery.heal import clear_abandoned, lease
from omnigraph.commit.recovery.sidecar import Sidecar
from omnigraph.commit.recovery.sidecar_store import lock_keys_of
from omnigraph.ids import BranchName, OperationId, TableKey, Version

T = TypeVar("T")


class _DriftHealed(Exception):
    """The operation had a sidecar while it healed drift, so it starts over with another id.

    An operation has one sidecar in its life: a removal that arrives late must not meet a second.
    """


@dataclass(frozen=True, slots=True)
class WriteLock:
    """The right of one operation to write some tables of a branch."""

    context: WriteContext
    leases: HeldLeases
    base: Base
    """The branch, read under the leases."""

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
    queue_ms_max: int | None = None,
    is_schema_change: bool = False,
    entry: WriteEntry | None = None,
) -> Iterator[WriteLock]:
    """Lock these tables of a branch, heal their drift, and read the branch.

    `entry` is what the caller looked at before; it saves look-ups if the leases were cached since.

    `wait_ms_max` limits the wait for other processes; None means the limit of the settings.
    `queue_ms_max` limits the wait for other operations of this process; None means no limit. Raises
    LeaseHeld after such a wait, SchemaLocked during a schema change, DriftFound if another program
    moved one of the tables, BranchNotFound.
    """
    lock_keys = lock_keys_for(branch, keys)
    if is_schema_change:
        lock_keys.append(SCHEMA_LOCK_KEY)
    elif entry is None:
        check_unlocked(context)
    started_ms = context.stores.effects.monotonic_ms()

    def begin(leases: HeldLeases) -> WriteLock:
        context.meter.waited(context.stores.effects.monotonic_ms() - started_ms)
        read, newest = _read_under(leases, entry) or look_again(context, branch, keys)
        base = heal_drift(context, leases, read, keys, newest)
        if base is not read and not context.stores.is_remote:
            raise _DriftHealed
        return WriteLock(context, leases, base)

    looks = {} if entry is None else entry.looks
    with _acquire(
        context, lock_keys, begin, wait_ms_max, queue_ms_max, confirms=True, looks=looks
    ) as lock:
        yield lock


def _read_under(
    leases: HeldLeases, entry: WriteEntry | None
) -> tuple[Base, Mapping[TableKey, Version]] | None:
    """What the caller read before, if it counts as read under the leases."""
    if entry is None or not entry.was_read_under(leases):
        return None
    return entry.base, entry.newest


@contextmanager
def lock_branches(context: WriteContext) -> Iterator[None]:
    """Exclude every other creation and deletion of a branch. Raises LeaseHeld.

    Both read the list of branches first and act on it.
    """
    with _acquire(context, [BRANCHES_LOCK_KEY], lambda _: None):
        yield


@contextmanager
def acquire_missing_leases(lock: WriteLock, sidecar: Sidecar) -> Iterator[None]:
    """Hold every lease by which recovery decides whether the writer of this sidecar is alive.

    A write without effect locked the tables that it might have moved; its sidecar names the branch.
    """
    with ExitStack() as stack:
        for lock_key in set(lock_keys_of(sidecar)) - lock.leases.lock_keys:
            wait_ms_max = lock.context.leases.timing.wait_ms_max
            stack.enter_context(
                lease(lock.context, lock_key, lock.operation_id, wait_ms_max=wait_ms_max)
            )
        yield


@contextmanager
def _acquire(
    context: WriteContext,
    lock_keys: Collection[LockKey],
    begin: Callable[[HeldLeases], T],
    wait_ms_max: int | None = None,
    queue_ms_max: int | None = None,
    *,
    confirms: bool = False,
    looks: Mapping[LockKey, LeaseLook] = MappingProxyType({}),
) -> Iterator[T]:
    """Queues, then leases, then `begin`. A caller that `confirms` arms an attempt.

    After LeaseAbandoned, recovers the operation of the abandoned lease and starts over. Starts over
    after healed drift, too.
    """
    while True:
        operation_id = OperationId(context.stores.effects.new_id())
        late: LeaseAbandoned | None = None
        try:
            with (
                context.queues.hold(lock_keys, wait_ms_max=queue_ms_max),
                context.leases.hold(
                    lock_keys,
                    operation_id,
                    wait_ms_max=wait_ms_max,
                    has_successor=partial(context.queues.has_successor, lock_keys),
                    confirms=confirms,
                    looks=looks,
                ) as leases,
            ):
                yield begin(leases)
                return
        except LeaseAbandoned as abandoned:
            late = abandoned
        except _DriftHealed:
            pass
        finally:
            context.leases.release_unclaimed(filter(context.queues.is_free, lock_keys))
        if late is not None:
            clear_abandoned(context, late)
        looks = {}
