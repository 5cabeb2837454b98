"""Watching a running operation, and cancelling it.

A write in a `watched` block reports each step to the watcher, in the thread that takes the step. A
watcher may raise: before tables move the write leaves nothing behind, afterwards it rolls back.

A `CancelToken` cancels work from another thread, or at a deadline. A write registers how its work
in other processes is stopped (`stoppable`). A read calls `check_cancelled` between steps of well
under a second: a call of Lance, Arrow or NumPy cannot be interrupted.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from math import inf
from threading import Lock, RLock
from typing import Final

from omnigraph.errors import QueryCancelled, QueryTimeout, UsageError

Watcher = Callable[[str], None]

Stop = Callable[[], None]
Clock = Callable[[], float]

LOCK_POLL_S: Final = 0.05
"""How often a read that waits for a lock checks whether it was cancelled."""


class CancelToken:
    """Cancels running work, from another thread or at a deadline, and all work begun later."""

    def __init__(
        self,
        seconds: float | None = None,
        parent: "CancelToken | None" = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Cancelling the parent cancels this token too."""
        self.seconds = seconds
        self._parent = parent
        self._clock = clock
        self._lock = Lock()
        self._stops: list[Stop] = []
        self._is_cancelled = False
        self._began = clock()

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            stops = list(self._stops)
        for stop in stops:
            stop()

    def renew(self) -> None:
        """Restart the time limit, because the work made progress."""
        self._began = self._clock()

    def check(self) -> None:
        """Raises QueryCancelled, QueryTimeout."""
        if self._is_cancelled:
            raise QueryCancelled
        if self.seconds is not None and self._clock() - self._began >= self.seconds:
            raise QueryTimeout(self.seconds)
        if self._parent is not None:
            self._parent.check()

    @contextmanager
    def over(self, stop: Stop) -> Iterator[None]:
        """While this lasts, `cancel` calls `stop`."""
        with self._lock:
            self._stops.append(stop)
            is_cancelled = self._is_cancelled
        try:
            if is_cancelled:
                stop()
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)


_token: ContextVar[CancelToken | None] = ContextVar("cancel_token", default=None)
"""Cancels a read."""
_work_token: ContextVar[CancelToken | None] = ContextVar("work_token", default=None)
"""Stops the work of a write in other processes. The watcher stops the write itself, at its steps
only: a read of the write after its tables moved must not fail because of a late cancellation.
"""
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def tell(step: str) -> None:
    """Report a step to the watcher before taking it."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(step)


def current_token() -> CancelToken | None:
    return _token.get()


def check_cancelled() -> None:
    """Call this between two steps of a read. Raises QueryCancelled, QueryTimeout."""
    token = _token.get()
    if token is not None:
        token.check()


@contextmanager
def waiting_for(lock: "Lock | RLock") -> Iterator[None]:
    """Hold a lock. While another read holds it, raises QueryCancelled, QueryTimeout."""
    if _token.get() is None:
        lock.acquire()
    else:
        while not lock.acquire(timeout=LOCK_POLL_S):
            check_cancelled()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """While this lasts, cancelling the write calls `stop`."""
    token = _work_token.get()
    if token is None:
        yield
        return
    with token.over(stop):
        yield


@contextmanager
def cancellable(token: CancelToken | None) -> Iterator[None]:
    """Reads inside this block obey the token."""
    before = _token.set(token)
    try:
        yield
    finally:
        _token.reset(before)


def time_limit(seconds: float | None) -> AbstractContextManager[None]:
    """Reads inside this block raise QueryTimeout after so many seconds; None sets no limit."""
    if seconds is None:
        return _NO_LIMIT
    return cancellable(CancelToken(check_timeout(seconds), _token.get()))


_NO_LIMIT: Final = nullcontext()


def check_timeout(seconds: float) -> float:
    """Raises UsageError for a number that is not a positive, finite time."""
    if not 0 < seconds < inf:
        raise UsageError(f"a timeout is a number of seconds above 0, not {seconds}")
    return seconds


@contextmanager
def watched(watcher: Watcher, token: CancelToken | None = None) -> Iterator[None]:
    before = _watcher.set(watcher), _work_token.set(token)
    try:
        yield
    finally:
        _watcher.reset(before[0])
        _work_token.reset(before[1])
