"""The leases of one operation: checked before every write, renewed in the background.

A lease that the operation took from the cache of its process still names the operation before. The
operation writes its own id into the lease, *confirms* it, in the wave that writes its sidecar; any
other caller of `check` confirms it first (`lease_cache`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Lock

from omnigraph.commit.leases.lease import FIRST_EPOCH, Lease, OwnedLease, decode_lease, path_of
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.effects import Effects
from omnigraph.errors import (
    LeaseCorrupt,
    LeaseLost,
    ObjectChanged,
    ObjectNotFound,
    StorageFailure,
)
from omnigraph.ids import OperationId
from omnigraph.storage.objects import Objects


class HeldLeases:
    """The leases of one operation. Made by `Leases.hold`."""

    def __init__(self, objects: Objects, effects: Effects, operation_id: OperationId) -> None:
        self._objects = objects
        self._effects = effects
        self.operation_id = operation_id
        self._owned: dict[LockKey, OwnedLease] = {}
        self._unconfirmed: set[LockKey] = set()
        self._lock = Lock()
        self._renewed_ms = effects.monotonic_ms()
        self._is_lost = False

    @property
    def lock_keys(self) -> frozenset[LockKey]:
        return frozenset(self._owned)

    def check(self) -> None:
        """Raises LeaseLost if a lease was taken over. No I/O while the leases are fresh."""
        if self._unconfirmed:
            with self.confirming() as calls:
                for each in calls:
                    each()
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

    @contextmanager
    def confirming(self) -> Iterator[list[Callable[[], None]]]:
        """The calls that write the id of this operation into leases from the cache.

        The caller makes all of them in the block, in any order or at the same time. Each raises
        LeaseLost if the lease was taken over; no renewal runs in between.
        """
        with self._lock:
            yield [partial(self._confirm, each) for each in sorted(self._unconfirmed)]

    def _confirm(self, lock_key: LockKey) -> None:
        owned = self._owned[lock_key]
        try:
            try:
                confirmed = self._put_confirmed(lock_key, owned)
            except (ObjectChanged, StorageFailure):
                # (8) of `holder`: an earlier put of ours, or this one, may have landed unnoticed.
                confirmed = self._find_confirmed(lock_key, owned)
        except ObjectChanged:
            self._is_lost = True
            raise LeaseLost(self.operation_id) from None
        self._owned[lock_key] = confirmed
        self._unconfirmed.discard(lock_key)

    def _put_confirmed(self, lock_key: LockKey, owned: OwnedLease) -> OwnedLease:
        lease = self._confirmed(owned.lease)
        tag = self._objects.put_if_match(path_of(lock_key), lease.encode(), tag=owned.tag)
        return replace(owned, lease=lease, tag=tag)

    def _find_confirmed(self, lock_key: LockKey, owned: OwnedLease) -> OwnedLease:
        """Read the lease again: it names this operation, or still the one before."""
        with suppress(ObjectChanged):
            return self._find_own(lock_key, replace(owned, lease=self._confirmed(owned.lease)))
        return self._put_confirmed(lock_key, self._find_own(lock_key, owned))

    def _confirmed(self, was: Lease) -> Lease:
        return replace(was, operation_id=self.operation_id, epoch=was.epoch + 1, beats=0)

    def add(
        self, lock_key: LockKey, owned: OwnedLease, *, unconfirmed_since_ms: int | None = None
    ) -> None:
        """Add a lease. From the cache, it is unconfirmed, and was renewed at the given time."""
        renewed_ms = self._effects.monotonic_ms()
        with self._lock:
            self._owned[lock_key] = owned
            if unconfirmed_since_ms is not None:
                self._unconfirmed.add(lock_key)
                renewed_ms = unconfirmed_since_ms
            self._renewed_ms = min(self._renewed_ms, renewed_ms)

    @property
    def renewed_ms(self) -> int:
        """When the store last confirmed the oldest of the leases."""
        return self._renewed_ms

    def are_untouched_since(
        self, epochs: Mapping[LockKey, int], absent: Collection[LockKey] = ()
    ) -> bool:
        """Are these exactly the leases that were cached with these epochs, and are unconfirmed, or
        that did not exist then, and were created by this operation?
        """
        with self._lock:
            held = {key: owned.lease.epoch for key, owned in self._owned.items()}
            same = {**epochs, **dict.fromkeys(absent, FIRST_EPOCH)}
            return held == same and self._unconfirmed == epochs.keys()

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
