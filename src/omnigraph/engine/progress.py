"""Watching a write from outside while it runs, and stopping it before it is too late.

Whoever runs a write in a `watched` block is told of its steps, in the thread that takes them. A
watcher may raise: up to the moment tables move this leaves nothing behind, and after it the write
undoes itself. A step that takes long has something to stop it by, if whoever watches has a `Brake`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

Watcher = Callable[[str], None]

Stop = Callable[[], None]


class Brake:
    """Stops what is under way, from another thread; and whatever is begun after that."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stops: list[Stop] = []
        self._is_pulled = False

    def pull(self) -> None:
        with self._lock:
            self._is_pulled = True
            stops = list(self._stops)
        for stop in stops:
            stop()

    @contextmanager
    def over(self, stop: Stop) -> Iterator[None]:
        """What is done inside is stopped by this."""
        with self._lock:
            self._stops.append(stop)
            is_pulled = self._is_pulled
        try:
            if is_pulled:
                stop()
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)


_brake: ContextVar[Brake | None] = ContextVar("brake", default=None)
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def tell(step: str) -> None:
    """A step is about to be taken."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(step)


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """What is done inside can be stopped by this, if anybody has the means to."""
    brake = _brake.get()
    if brake is None:
        yield
        return
    with brake.over(stop):
        yield


@contextmanager
def watched(watcher: Watcher, brake: Brake | None = None) -> Iterator[None]:
    tokens = _watcher.set(watcher), _brake.set(brake)
    try:
        yield
    finally:
        _watcher.reset(tokens[0])
        _brake.reset(tokens[1])
