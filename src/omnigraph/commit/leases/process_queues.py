"""The queues inside one process: the writers of a table on a branch run one after the other.

1. Every queue is first in, first out.
2. A writer joins all its queues in one call and in the order of the lock keys. Two writers that
   want the same tables therefore cannot deadlock.
3. A writer waits in the queue of its process before it acquires the lease. At most one writer of a
   process stands in the fair queue of a lease.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock

from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.errors import LeaseHeld


@dataclass(eq=False, slots=True)
class Waiter:
    wanted: frozenset[LockKey]
    is_first: Event


class ProcessQueues:
    """One queue per lock key, created with its first waiter and dropped with its last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[LockKey, deque[Waiter]] = {}

    def is_free(self, lock_key: LockKey) -> bool:
        """Is the queue empty at this moment?"""
        with self._lock:
            return lock_key not in self._queues

    def has_successor(self, lock_keys: Iterable[LockKey]) -> bool:
        """Does the next waiter want exactly the one lock key that is held?"""
        wanted = frozenset(lock_keys)
        if len(wanted) != 1:
            return False
        (lock_key,) = wanted
        with self._lock:
            queue = self._queues.get(lock_key)
            return queue is not None and len(queue) > 1 and queue[1].wanted == wanted

    @contextmanager
    def hold(
        self, lock_keys: Iterable[LockKey], *, wait_ms_max: int | None = None
    ) -> Iterator[None]:
        """Wait until the caller is first in every queue; leave all queues at the end.

        Raises LeaseHeld after waiting so long in one of them; None waits without limit.
        """
        held: list[LockKey] = []
        wanted = frozenset(lock_keys)
        try:
            for lock_key in sorted(wanted):
                self._wait(lock_key, wanted, wait_ms_max)
                held.append(lock_key)
            yield
        finally:
            for lock_key in reversed(held):
                self._leave(lock_key)

    def _wait(self, lock_key: LockKey, wanted: frozenset[LockKey], wait_ms_max: int | None) -> None:
        waiter = Waiter(wanted, Event())
        with self._lock:
            queue = self._queues.setdefault(lock_key, deque())
            queue.append(waiter)
            if queue[0] is waiter:
                return
        try:
            is_first = waiter.is_first.wait(None if wait_ms_max is None else wait_ms_max / 1000)
        except BaseException:
            self._cancel(lock_key, waiter)
            raise
        if not is_first:
            self._cancel(lock_key, waiter)
            raise LeaseHeld(
                lock_key.table,
                branch=lock_key.branch,
                owner="another operation of this process",
                age_ms=0,
            )

    def _leave(self, lock_key: LockKey) -> None:
        with self._lock:
            queue = self._queues[lock_key]
            queue.popleft()
            self._wake_first(lock_key, queue)

    def _cancel(self, lock_key: LockKey, waiter: Waiter) -> None:
        """Stop waiting. The waiter may have become first since, and then wakes the next one."""
        with self._lock:
            queue = self._queues[lock_key]
            was_first = queue[0] is waiter
            queue.remove(waiter)
            if was_first:
                self._wake_first(lock_key, queue)

    def _wake_first(self, lock_key: LockKey, queue: deque[Waiter]) -> None:
        if queue:
            queue[0].is_first.set()
        else:
            del self._queues[lock_key]
