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

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from threading import Lock
from types import MappingProxyType

from omnigraph.commit.leases.fair_queue import FairBackoff, FairQueue
from omnigraph.commit.leases.heartbeat import Heartbeat, StoreClock
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.lease import (
    DEFAULT_TIMING,
    FIRST_EPOCH,
    Lease,
    LeaseAbandoned,
    OwnedLease,
    Timing,
    decode_lease,
    path_of,
)
from omnigraph.commit.leases.lease_cache import LeaseCache
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.owner import Owner, is_dead, this_process
from omnigraph.effects import Effects
from omnigraph.errors import (
    LeaseCorrupt,
    LeaseHeld,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
)
from omnigraph.ids import OperationId
from omnigraph.storage.layout import lease_line_prefix
from omnigraph.storage.objects import Objects, StoredObject
from omnigraph.storage.together import run_together


@dataclass(frozen=True, slots=True)
class LeaseLook:
    """What one look at a lease found."""

    found: tuple[Lease, StoredObject] | None
    """None if no operation has ever held it: leases are released, and never deleted."""
    is_unwanted: bool
    """Is no process in its queue?"""


class AcquireMode(Enum):
    """Which leases may be acquired."""

    IF_FREE = "if_free"
    TAKE_OVER = "take_over"
    """Also abandoned ones. For recovery alone."""


class Leases:
    """Acquires and releases the leases of one graph, for one process.

    With `is_caching` the process keeps the leases of a write that succeeded (`lease_cache`).
    """

    def __init__(
        self,
        objects: Objects,
        effects: Effects,
        timing: Timing = DEFAULT_TIMING,
        owner: Owner | None = None,
        *,
        is_caching: bool = False,
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
        self._cache = (
            LeaseCache(effects, timing, release=self._release, is_wanted=self._is_wanted)
            if is_caching
            else None
        )

    @contextmanager
    def hold(
        self,
        lock_keys: Iterable[LockKey],
        operation_id: OperationId,
        mode: AcquireMode = AcquireMode.IF_FREE,
        *,
        wait_ms_max: int | None = None,
        has_successor: Callable[[], bool] = lambda: False,
        confirms: bool = False,
        looks: Mapping[LockKey, LeaseLook] = MappingProxyType({}),
    ) -> Iterator[HeldLeases]:
        """Acquire the lease of every lock key, in order, and release them at the end.

        A caller that `confirms` writes its operation into leases from the cache by itself. `looks`
        is what the caller saw of some leases just before; a lease that has changed is read again.

        Waits in the fair queue of a lease that a live process holds. (6) Passes the leases on if
        `has_successor` says so at the end. Raises LeaseHeld after `wait_ms_max`, and
        LeaseAbandoned for an abandoned lease unless the mode is to take over.
        """
        wait_ms = self.timing.wait_ms_max if wait_ms_max is None else wait_ms_max
        wanted = sorted(set(lock_keys))
        held = HeldLeases(self._objects, self._effects, operation_id)
        try:
            # The wait for the next lease may take longer than the time to live of the last.
            self._heartbeat.add(held)
            for lock_key in wanted:
                self._add(held, lock_key, mode, wait_ms, looks.get(lock_key))
            if not confirms:
                held.check()
            yield held
            self._heartbeat.remove(held)
            if self._cache is not None:
                renewed_ms = held.renewed_ms
                self._cache.keep(held.surrender().items(), renewed_ms)
            elif has_successor():
                self._pass_on(held)
        finally:
            self._heartbeat.remove(held)
            if self._cache is not None:
                self._cache.forget(wanted)
            held.release()

    def _add(
        self,
        held: HeldLeases,
        lock_key: LockKey,
        mode: AcquireMode,
        wait_ms: int,
        look: LeaseLook | None,
    ) -> None:
        cached = None if self._cache is None else self._cache.take(lock_key)
        if cached is not None:
            held.add(lock_key, cached.owned, unconfirmed_since_ms=cached.renewed_ms)
            return
        held.add(lock_key, self._take(lock_key, held.operation_id, mode, wait_ms, look))
        if self._cache is not None:
            self._cache.begin(lock_key)

    def find_cached(self, lock_keys: Iterable[LockKey]) -> dict[LockKey, int]:
        """The epochs of those of these leases that this process has cached."""
        return {} if self._cache is None else self._cache.find_epochs(lock_keys)

    def look(self, lock_key: LockKey) -> LeaseLook:
        """What the store holds of a lease and of its queue, read together."""
        is_empty: list[bool] = []
        seen: list[tuple[Lease, StoredObject] | None] = []
        run_together(
            [
                lambda: is_empty.append(self.queue(lock_key).is_empty()),
                lambda: seen.append(self._read(lock_key)),
            ]
        )
        return LeaseLook(seen[0], is_empty[0])

    def give_up(self, lock_keys: Iterable[LockKey]) -> None:
        """Release cached leases at once, because a sidecar of ours names their tables."""
        if self._cache is not None:
            self._cache.give_up(lock_keys)

    def close(self) -> None:
        """Release every cached lease."""
        if self._cache is not None:
            self._cache.close()

    def _release(self, lock_key: LockKey, owned: OwnedLease) -> None:
        late = HeldLeases(self._objects, self._effects, owned.lease.operation_id)
        late.add(lock_key, owned)
        late.release()

    def _is_wanted(self, lock_key: LockKey) -> bool:
        return not self.queue(lock_key).is_empty()

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
                self._release(lock_key, owned)

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
        self,
        lock_key: LockKey,
        operation_id: OperationId,
        mode: AcquireMode,
        wait_ms: int,
        look: LeaseLook | None,
    ) -> OwnedLease:
        passed_on = self._take_passed_on(lock_key, operation_id)
        if passed_on is not None:
            return passed_on
        if self._cache is None:
            if self.queue(lock_key).is_empty():
                owned = self._try(lock_key, operation_id, mode)
                if owned is not None:
                    return owned
            return self._wait(lock_key, operation_id, mode, wait_ms)
        look = look or self.look(lock_key)
        owned = self._put(lock_key, operation_id, mode, look.found) if look.is_unwanted else None
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
        return self._put(lock_key, operation_id, mode, self._read(lock_key))

    def _put(
        self,
        lock_key: LockKey,
        operation_id: OperationId,
        mode: AcquireMode,
        found: tuple[Lease, StoredObject] | None,
    ) -> OwnedLease | None:
        """Acquire a lease that was found so; None if it is held, or has changed since."""
        owner = self._owner or this_process()
        if found is None:
            lease = Lease(owner, operation_id, FIRST_EPOCH, self.timing.ttl_ms)
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
