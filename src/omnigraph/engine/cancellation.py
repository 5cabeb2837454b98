"""Watching work from outside while it runs, and stopping it before it is too late.

Whoever runs a write in a `watched` block is told of its steps, in the thread that takes them. A
watcher may raise: up to the moment tables move this leaves nothing behind, and after it the write
undoes itself.

A `CancelToken` stops work from another thread, or when its time is over. What a write has running
elsewhere says how it is stopped (`stoppable`). A read asks between two steps that take well below
a second (`check_cancelled`): a call of Lance, Arrow or numpy cannot be interrupted, so a read is
cut into such steps.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from threading import Lock, RLock
from typing import Final

from omnigraph.errors import QueryCancelled, QueryTimeout, UsageError

Watcher = Callable[[str], None]

Stop = Callable[[], None]
Clock = Callable[[], float]

LOCK_POLL_S: Final = 0.05
"""How often a read that waits for another one looks whether it was cancelled."""


class CancelToken:
    """Stops what is under way, from another thread or at a deadline; and what begins after that."""

    def __init__(
        self,
        seconds: float | None = None,
        parent: "CancelToken | None" = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """What cancels the parent cancels this token, too."""
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
        """There was progress: the time begins again."""
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
        """What is done inside is stopped by this."""
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
"""Ends a read."""
_work_token: ContextVar[CancelToken | None] = ContextVar("work_token", default=None)
"""Stops what a write runs elsewhere. A write itself is stopped by its watcher, at its steps only:
what it reads after its tables moved must not fail because somebody asked too late.
"""
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def tell(step: str) -> None:
    """A step is about to be taken."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(step)


def current_token() -> CancelToken | None:
    return _token.get()


def check_cancelled() -> None:
    """To be called between two steps of a read. Raises QueryCancelled, QueryTimeout."""
    token = _token.get()
    if token is not None:
        token.check()


@contextmanager
def waiting_for(lock: "Lock | RLock") -> Iterator[None]:
    """Hold a lock. Raises QueryCancelled, QueryTimeout while another read holds it."""
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
    """What is done inside can be stopped by this, if anybody has the means to."""
    token = _work_token.get()
    if token is None:
        yield
        return
    with token.over(stop):
        yield


@contextmanager
def cancellable(token: CancelToken | None) -> Iterator[None]:
    """What is done inside ends when the token says so."""
    before = _token.set(token)
    try:
        yield
    finally:
        _token.reset(before)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """What is done inside ends after so many seconds; without a number, as it would anyway."""
    token = _token.get()
    if seconds is not None:
        token = CancelToken(check_timeout(seconds), token)
    with cancellable(token):
        yield


def check_timeout(seconds: float) -> float:
    """Raises UsageError for a number that is no time."""
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
