"""Acquiring, renewing and releasing leases: one writer per table and branch, among all processes.

1. A lease is alive while its holder renews it. The clock of the store measures its age; the clocks
   of the writers do not count.
2. A lease may be taken over if it was not renewed for its time to live, or if its process is known
   to be dead. Only recovery takes over, because the old holder may have left a sidecar. Any other
   writer gets `LeaseAbandoned` and runs the recovery before it tries again.
3. A writer that lost its lease finds out at its next step: it calls `check` before every write. At
   the latest the publish finds the recovery commit of its operation (D2).
4. Writers of several processes wait in a fair queue (`fair_queue`).
5. A renewal never touches a sidecar.
6. If the next writer in the queue of this process wants the same lease, the holder passes the lease
   on instead of releasing it. This costs one swap instead of two, and no other process has to read
   and flush what this process just wrote. After `streak_ms` the lease is released, so that other
   processes get their turn.
7. Leases are not flushed. A power cut may leave a lease empty or torn, and ends its holder. Such a
   lease is free once it is older than the time to live.
8. A renewal may land though its reply is lost. The tag then differs and the lease is still ours, so
   the holder reads the lease before it counts the lease as lost.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from threading import Lock

from omnigraph.commit.leases.fair_queue import FairBackoff, FairQueue
from omnigraph.commit.leases.heartbeat import Heartbeat, StoreClock
from omnigraph.commit.leases.lease import (
    DEFAULT_TIMING,
    Lease,
    LeaseAbandoned,
    OwnedLease,
    Timing,
    decode_lease,
    path_of,
)
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.owner import Owner, is_dead, this_process
from omnigraph.effects import Effects
from omnigraph.errors import (
    LeaseCorrupt,
    LeaseHeld,
    LeaseLost,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StorageFailure,
)
from omnigraph.ids import OperationId
from omnigraph.storage.layout import lease_line_prefix
from omnigraph.storage.objects import Objects, StoredObject


class AcquireMode(Enum):
    """Which leases may be acquired."""

    IF_FREE = "if_free"
    TAKE_OVER = "take_over"
    """Also abandoned ones. For recovery alone."""


class HeldLeases:
    """The leases of one operation. Made by `Leases.hold`."""

    def __init__(self, objects: Objects, effects: Effects, operation_id: OperationId) -> None:
        self._objects = objects
        self._effects = effects
        self.operation_id = operation_id
        self._owned: dict[LockKey, OwnedLease] = {}
        self._lock = Lock()
        self._renewed_ms = effects.monotonic_ms()
        self._is_lost = False

    @property
    def lock_keys(self) -> frozenset[LockKey]:
        return frozenset(self._owned)

    def check(self) -> None:
        """Raises LeaseLost if a lease was taken over. No I/O while the leases are fresh."""
        if not self._is_lost and self._age_ms() >= self._ttl_ms():
            # This process was paused for longer than the time to live. The lease is still ours
            # if no other process took it over.
            self.renew()
        if self._is_lost:
            raise LeaseLost(self.operation_id)

    def renew(self) -> None:
        """Renew every lease. A lost lease is remembered for `check`; this method does not raise."""
        with self._lock:
            started_ms = self._effects.monotonic_ms()
            for lock_key, owned in list(self._owned.items()):
                try:
                    self._owned[lock_key] = self._swap(lock_key, owned)
                except ObjectChanged:
                    self._is_lost = True
                    return
                except StorageFailure:
                    return
            self._renewed_ms = started_ms

    def _swap(self, lock_key: LockKey, owned: OwnedLease, *, is_free: bool = False) -> OwnedLease:
        """Renew or release one lease. Raises ObjectChanged if another process took it over."""
        try:
            return self._put(lock_key, owned, is_free=is_free)
        except ObjectChanged:
            # (8)
            return self._put(lock_key, self._find_own(lock_key, owned), is_free=is_free)

    def _put(self, lock_key: LockKey, owned: OwnedLease, *, is_free: bool) -> OwnedLease:
        lease = replace(owned.lease, beats=owned.lease.beats + 1, is_free=is_free)
        tag = self._objects.put_if_match(path_of(lock_key), lease.encode(), tag=owned.tag)
        return replace(owned, lease=lease, tag=tag)

    def _find_own(self, lock_key: LockKey, owned: OwnedLease) -> OwnedLease:
        """Read the lease again. Raises ObjectChanged if it is not this operation's."""
        key, ours = path_of(lock_key), owned.lease
        try:
            stored = self._objects.read(key)
            lease = decode_lease(stored.data, key=key)
        except (ObjectNotFound, LeaseCorrupt):
            raise ObjectChanged(key) from None
        # Every acquisition raises the epoch.
        if (lease.operation_id, lease.epoch, lease.is_free) != (
            ours.operation_id,
            ours.epoch,
            False,
        ):
            raise ObjectChanged(key)
        return replace(owned, lease=lease, tag=stored.tag)

    def add(self, lock_key: LockKey, owned: OwnedLease) -> None:
        with self._lock:
            self._owned[lock_key] = owned
            self._renewed_ms = min(self._renewed_ms, self._effects.monotonic_ms())

    def surrender(self) -> dict[LockKey, OwnedLease]:
        """Hand the leases to the caller without releasing them; none if one of them was lost."""
        with self._lock:
            handed, self._owned = dict(self._owned), {}
            return {} if self._is_lost else handed

    def release(self) -> None:
        """Release every lease. A lease that cannot be released expires."""
        with self._lock:
            for lock_key, owned in self._owned.items():
                with suppress(ObjectChanged, StorageFailure):
                    self._swap(lock_key, owned, is_free=True)
            self._owned.clear()

    def is_older_than(self, moment_ms: int) -> bool:
        """Did this process acquire any of the leases before then?"""
        return any(each.since_ms < moment_ms for each in self._owned.values())

    def _age_ms(self) -> int:
        return self._effects.monotonic_ms() - self._renewed_ms

    def _ttl_ms(self) -> int:
        return min((owned.lease.ttl_ms for owned in self._owned.values()), default=0)


class Leases:
    """Acquires and releases the leases of one graph, for one process."""

    def __init__(
        self,
        objects: Objects,
        effects: Effects,
        timing: Timing = DEFAULT_TIMING,
        owner: Owner | None = None,
    ) -> None:
        self._objects = objects
        self._effects = effects
        self.timing = timing
        self._owner = owner
        self._clock = StoreClock(objects, effects)
        self._heartbeat = Heartbeat(timing.heartbeat_ms)
        self._passed_on: dict[LockKey, OwnedLease] = {}
        """(6) Leases between two writers: this process holds them, and no operation uses them."""
        self._lock = Lock()

    @contextmanager
    def hold(
        self,
        lock_keys: Iterable[LockKey],
        operation_id: OperationId,
        mode: AcquireMode = AcquireMode.IF_FREE,
        *,
        wait_ms_max: int | None = None,
        has_successor: Callable[[], bool] = lambda: False,
    ) -> Iterator[HeldLeases]:
        """Acquire the lease of every lock key, in order, and release them at the end.

        Waits in the fair queue of a lease that a live process holds. (6) Passes the leases on if
        `has_successor` says so at the end. Raises LeaseHeld after `wait_ms_max`, and
        LeaseAbandoned for an abandoned lease unless the mode is to take over.
        """
        wait_ms = self.timing.wait_ms_max if wait_ms_max is None else wait_ms_max
        held = HeldLeases(self._objects, self._effects, operation_id)
        try:
            # The wait for the next lease may take longer than the time to live of the last.
            self._heartbeat.add(held)
            for lock_key in sorted(set(lock_keys)):
                held.add(lock_key, self._take(lock_key, operation_id, mode, wait_ms))
            yield held
            self._heartbeat.remove(held)
            if has_successor():
                self._pass_on(held)
        finally:
            self._heartbeat.remove(held)
            held.release()

    def _pass_on(self, held: HeldLeases) -> None:
        """(6) Keep the leases for the next writer of this process, for `streak_ms` in total."""
        now_ms = self._effects.monotonic_ms()
        if held.is_older_than(now_ms - self.timing.streak_ms):
            return
        with self._lock:
            self._passed_on.update(held.surrender())

    def release_unclaimed(self, lock_keys: Iterable[LockKey]) -> None:
        """(6) Release leases that were passed on and that no writer of this process acquired."""
        for lock_key in lock_keys:
            with self._lock:
                owned = self._passed_on.pop(lock_key, None)
            if owned is not None:
                late = HeldLeases(self._objects, self._effects, owned.lease.operation_id)
                late.add(lock_key, owned)
                late.release()

    def find_holder(self, lock_key: LockKey) -> OperationId | None:
        """The operation that holds the lease; None if it is free or abandoned."""
        found = self._read(lock_key)
        if found is None or found[0].is_free or self._is_abandoned(*found):
            return None
        return found[0].operation_id

    def find_paused_owner(
        self, lock_keys: Iterable[LockKey], operation_id: OperationId
    ) -> Owner | None:
        """The process that holds one of these leases for an operation and may only be paused.

        None if every lease was released, or if the process is known to be dead.
        """
        for lock_key in lock_keys:
            found = self._read(lock_key)
            if found is None or found[0].is_free or found[0].operation_id != operation_id:
                continue
            if not is_dead(found[0].owner):
                return found[0].owner
        return None

    def is_alive(self, lock_key: LockKey, operation_id: OperationId) -> bool:
        """Does the operation hold the lease, and is the lease not abandoned?"""
        found = self._read(lock_key)
        if found is None:
            return False
        lease, stored = found
        return (
            lease.operation_id == operation_id
            and not lease.is_free
            and not self._is_abandoned(lease, stored)
        )

    def _take(
        self, lock_key: LockKey, operation_id: OperationId, mode: AcquireMode, wait_ms: int
    ) -> OwnedLease:
        passed_on = self._take_passed_on(lock_key, operation_id)
        if passed_on is not None:
            return passed_on
        if self.queue(lock_key).is_empty():
            owned = self._try(lock_key, operation_id, mode)
            if owned is not None:
                return owned
        return self._wait(lock_key, operation_id, mode, wait_ms)

    def _take_passed_on(self, lock_key: LockKey, operation_id: OperationId) -> OwnedLease | None:
        """(6) The lease that the writer before us passed on; None if it was taken over."""
        with self._lock:
            passed = self._passed_on.pop(lock_key, None)
        if passed is None:
            return None
        was = passed.lease
        lease = replace(was, operation_id=operation_id, epoch=was.epoch + 1, beats=0)
        with suppress(ObjectChanged):
            tag = self._objects.put_if_match(path_of(lock_key), lease.encode(), tag=passed.tag)
            return OwnedLease(lease, tag, passed.since_ms)
        return None

    def _try(
        self, lock_key: LockKey, operation_id: OperationId, mode: AcquireMode
    ) -> OwnedLease | None:
        found = self._read(lock_key)
        owner = self._owner or this_process()
        if found is None:
            lease = Lease(owner, operation_id, 1, self.timing.ttl_ms)
            with suppress(ObjectExists):
                tag = self._objects.put_new(path_of(lock_key), lease.encode())
                return OwnedLease(lease, tag, self._effects.monotonic_ms())
            return None
        current, stored = found
        if not current.is_free:
            if not self._is_abandoned(current, stored):
                return None
            if mode is AcquireMode.IF_FREE:
                raise LeaseAbandoned(lock_key, current.operation_id)
        lease = Lease(owner, operation_id, current.epoch + 1, self.timing.ttl_ms)
        with suppress(ObjectChanged):
            tag = self._objects.put_if_match(path_of(lock_key), lease.encode(), tag=stored.tag)
            return OwnedLease(lease, tag, self._effects.monotonic_ms())
        return None

    def _read(self, lock_key: LockKey) -> tuple[Lease, StoredObject] | None:
        try:
            stored = self._objects.read(path_of(lock_key))
        except ObjectNotFound:
            return None
        try:
            return decode_lease(stored.data, key=path_of(lock_key)), stored
        except LeaseCorrupt:
            age_ms = self._clock.now_ms() - stored.modified_ms
            if stored.data.strip(b"\0") and age_ms <= self.timing.ttl_ms:
                raise
            # (7)
            return self._free_lease(), stored

    def _free_lease(self) -> Lease:
        return Lease(this_process(), OperationId(""), 0, self.timing.ttl_ms, is_free=True)

    def _is_abandoned(self, lease: Lease, stored: StoredObject) -> bool:
        """(2) Is the process of the holder dead, or the lease older than its time to live?"""
        if is_dead(lease.owner):
            return True
        return self._clock.now_ms() - stored.modified_ms > lease.ttl_ms

    # the fair queue (4)

    def queue(self, lock_key: LockKey) -> FairQueue:
        """The fair queue of a lock key."""
        timing = self.timing
        return FairQueue(
            self._objects,
            self._effects,
            self._owner or this_process(),
            lease_line_prefix(lock_key.table, lock_key.branch),
            patience_ms=timing.wait_ms_max + timing.ttl_ms,
            poll_ms=timing.poll_ms,
        )

    def backoff(self, lock_key: LockKey) -> FairBackoff:
        """How a publisher backs off after a refused swap: in the fair queue of the lock key."""
        return FairBackoff(self.queue(lock_key), wait_ms_max=self.timing.ttl_ms)

    def _wait(
        self, lock_key: LockKey, operation_id: OperationId, mode: AcquireMode, wait_ms: int
    ) -> OwnedLease:
        deadline_ms = self._effects.monotonic_ms() + wait_ms
        queue = self.queue(lock_key)
        with queue.join() as ticket:
            ahead = 1
            while True:
                # The first waiter stays first: later tickets have greater numbers.
                ahead = ahead and queue.count_ahead(ticket)
                owned = None if ahead else self._try(lock_key, operation_id, mode)
                if owned is not None:
                    return owned
                if self._effects.monotonic_ms() >= deadline_ms:
                    raise self._held_error(lock_key)
                queue.sleep(ahead)

    def _held_error(self, lock_key: LockKey) -> LeaseHeld:
        found = self._read(lock_key)
        if found is None:
            return LeaseHeld(lock_key.table, branch=lock_key.branch, owner="unknown", age_ms=0)
        lease, stored = found
        age_ms = self._objects.clock_ms() - stored.modified_ms
        return LeaseHeld(
            lock_key.table, branch=lock_key.branch, owner=str(lease.owner), age_ms=age_ms
        )
