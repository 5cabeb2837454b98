"""Leases that a process keeps between its writes (D30).

Acquiring a lease in a bucket takes three requests, and releasing it a fourth. A process that has
just written a table will probably write it again, so it keeps the lease for a moment.

1. A cached lease is held by this process and used by no operation. The next operation takes it from
   the cache without a request, and writes its own id into the lease in the wave that writes the
   sidecar. No table moves before both have been answered.
2. Another process that wants the lease writes a ticket into the queue of the lease. The keeper, a
   thread of its own, looks for tickets every `surrender_poll_ms`. On a store that answers in 30 ms
   the lease is free within 100 ms, also while writers of this process wait for other leases. So
   two processes of which each caches what the other wants do not wait for each other.
3. A wanted lease that an operation uses is released when the operation ends, unless this process
   acquired it less than `streak_ms` ago.
4. A lease is released `kept_ms` after its last use, and if more than `CACHED_MAX` are kept.
5. A lease that was not renewed for half its time to live is not taken from the cache: this process
   may have been paused, and another one may have taken the lease over.
"""

import atexit
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Condition, Thread
from typing import Final

from omnigraph.commit.leases.lease import OwnedLease, Timing
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.effects import Effects
from omnigraph.errors import StorageFailure
from omnigraph.storage.together import run_together

CACHED_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class CachedLease:
    owned: OwnedLease
    renewed_ms: int
    """When the store last confirmed it."""
    kept_ms: int
    """When the last operation ended that used it."""


class LeaseCache:
    """The cached leases of one graph in one process. Safe to share among threads."""

    def __init__(
        self,
        effects: Effects,
        timing: Timing,
        *,
        release: Callable[[LockKey, OwnedLease], None],
        is_wanted: Callable[[LockKey], bool],
    ) -> None:
        self._effects = effects
        self._timing = timing
        self._release = release
        self._is_wanted = is_wanted
        self._cached: dict[LockKey, CachedLease] = {}
        """In the order of their last use."""
        self._in_use: set[LockKey] = set()
        self._wanted: set[LockKey] = set()
        self._given_up: list[tuple[LockKey, OwnedLease]] = []
        self._changed = Condition()
        self._keeper: Thread | None = None
        self._is_releasing = False
        self._last_kept_ms = 0
        _close_at_exit(self)

    def take(self, lock_key: LockKey) -> CachedLease | None:
        """(1) Take a lease for an operation; None if it must be acquired."""
        with self._changed:
            found = self._cached.pop(lock_key, None)
            if found is None:
                return None
            age_ms = self._effects.monotonic_ms() - found.renewed_ms
            if lock_key not in self._wanted and age_ms < self._timing.ttl_ms // 2:
                self._in_use.add(lock_key)
                return found
            # (5), and (3): the other process gets its turn before this one.
            self._give_up(lock_key, found.owned)
        self._await_released(lock_key)
        return None

    def begin(self, lock_key: LockKey) -> None:
        """An operation has acquired a lease that was not cached."""
        with self._changed:
            self._in_use.add(lock_key)
            self._wanted.discard(lock_key)

    def keep(self, leases: Iterable[tuple[LockKey, OwnedLease]], renewed_ms: int) -> None:
        """Cache the leases of an operation that has ended, and left no sidecar."""
        now_ms = self._effects.monotonic_ms()
        with self._changed:
            self._last_kept_ms = now_ms
            for lock_key, owned in leases:
                self._in_use.discard(lock_key)
                is_turn_over = now_ms - owned.since_ms >= self._timing.streak_ms
                if lock_key in self._wanted and is_turn_over:
                    self._give_up(lock_key, owned)
                else:
                    self._cached[lock_key] = CachedLease(owned, renewed_ms, now_ms)
            while len(self._cached) > CACHED_MAX:
                oldest = next(iter(self._cached))
                self._give_up(oldest, self._cached.pop(oldest).owned)
            self._start()

    def find_epochs(self, lock_keys: Iterable[LockKey]) -> dict[LockKey, int]:
        """The epochs of those of these leases that are cached."""
        with self._changed:
            found = {each: self._cached.get(each) for each in lock_keys}
            return {key: each.owned.lease.epoch for key, each in found.items() if each}

    def forget(self, lock_keys: Iterable[LockKey]) -> None:
        """An operation ended whose leases it released itself."""
        with self._changed:
            self._in_use.difference_update(lock_keys)

    def give_up(self, lock_keys: Iterable[LockKey]) -> None:
        """Release cached leases at once: their tables have a sidecar that must be resolved."""
        with self._changed:
            for lock_key in lock_keys:
                found = self._cached.pop(lock_key, None)
                if found is not None:
                    self._give_up(lock_key, found.owned)
            self._start()

    def close(self) -> None:
        """Release every lease that no operation uses, and return when that is done."""
        with self._changed:
            for lock_key, found in self._cached.items():
                self._give_up(lock_key, found.owned)
            self._cached.clear()
        self._release_given_up()
        with self._changed:
            while self._is_releasing:
                self._changed.wait()

    def _give_up(self, lock_key: LockKey, owned: OwnedLease) -> None:
        """The caller holds the lock."""
        self._wanted.discard(lock_key)
        self._given_up.append((lock_key, owned))
        self._changed.notify_all()

    def _await_released(self, lock_key: LockKey) -> None:
        """A lease that is being released cannot be acquired yet."""
        self._release_given_up()
        with self._changed:
            while self._is_releasing and any(key == lock_key for key, _ in self._given_up):
                self._changed.wait()

    # ── the keeper ───────────────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        """The caller holds the lock."""
        if self._keeper is None or not self._keeper.is_alive():
            self._keeper = Thread(
                target=self._keep_watch, name="omnigraph-lease-cache", daemon=True
            )
            self._keeper.start()
        self._changed.notify_all()

    def _keep_watch(self) -> None:
        """(2, 4) Until nothing is cached and nothing must be released."""
        poll_ms = self._timing.surrender_poll_ms
        due_ms = self._effects.monotonic_ms() + poll_ms
        while True:
            self._release_given_up()
            with self._changed:
                if not self._given_up and self._is_idle():
                    self._keeper = None
                    return
                wait_ms = due_ms - self._effects.monotonic_ms()
                if wait_ms > 0 and not self._given_up:
                    self._changed.wait(wait_ms / 1_000)
                watched = [*self._cached, *self._in_use]
            if self._effects.monotonic_ms() >= due_ms:
                if watched:
                    run_together([partial(self._look, each) for each in watched])
                self._expire()
                due_ms = self._effects.monotonic_ms() + poll_ms

    def _look(self, lock_key: LockKey) -> None:
        with suppress(StorageFailure):
            if self._is_wanted(lock_key):
                self._surrender(lock_key)

    def _is_idle(self) -> bool:
        """Is there nothing to watch? A long operation is watched only for a moment."""
        idle_ms = self._effects.monotonic_ms() - self._last_kept_ms
        return not self._cached and (not self._in_use or idle_ms >= self._timing.kept_ms)

    def _surrender(self, lock_key: LockKey) -> None:
        with self._changed:
            found = self._cached.pop(lock_key, None)
            if found is not None:
                self._give_up(lock_key, found.owned)
            elif lock_key in self._in_use:
                self._wanted.add(lock_key)

    def _expire(self) -> None:
        now_ms = self._effects.monotonic_ms()
        with self._changed:
            for lock_key, found in list(self._cached.items()):
                if now_ms - found.kept_ms >= self._timing.kept_ms:
                    del self._cached[lock_key]
                    self._give_up(lock_key, found.owned)

    def _release_given_up(self) -> None:
        with self._changed:
            while self._is_releasing:
                self._changed.wait()
            due, self._is_releasing = list(self._given_up), True
        try:
            for lock_key, owned in due:
                self._release(lock_key, owned)
        finally:
            with self._changed:
                del self._given_up[: len(due)]
                self._is_releasing = False
                self._changed.notify_all()


def _close_at_exit(cache: LeaseCache) -> None:
    """A process that ends without closing its graph would leave leases that expire late."""
    reference = weakref.ref(cache)

    def close() -> None:
        found = reference()
        if found is not None:
            found.close()

    atexit.register(close)
    weakref.finalize(cache, atexit.unregister, close)
