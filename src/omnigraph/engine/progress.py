"""Watching a write from outside while it runs, and stopping it before it is too late.

Whoever runs a write in a `watched` block is told of its steps, in the thread that takes them. A
watcher may raise: up to the moment tables move this leaves nothing behind, and after it the write
undoes itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Watcher = Callable[[str], None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def tell(step: str) -> None:
    """A step is about to be taken."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(step)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
