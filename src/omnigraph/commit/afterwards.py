"""Work that follows an acknowledged write, and that its caller does not wait for (D30)."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from threading import Lock


class Afterwards:
    """Runs calls in the background if the store is remote, and at once otherwise.

    A call must not raise. `close` waits for every call; so does the end of the process, because the
    interpreter joins the threads of a pool.
    """

    def __init__(self, *, is_remote: bool) -> None:
        self._pool = ThreadPoolExecutor(1, "omnigraph-afterwards") if is_remote else None
        self._running: dict[Future[None], str] = {}
        self._lock = Lock()

    @property
    def names(self) -> frozenset[str]:
        """The names of the calls that have not ended."""
        with self._lock:
            return frozenset(self._running.values())

    def run(self, call: Callable[[], None], name: str) -> None:
        if self._pool is None:
            call()
            return
        with self._lock:
            started = self._pool.submit(copy_context().run, call)
            self._running[started] = name
        started.add_done_callback(self._forget)

    def _forget(self, ended: "Future[None]") -> None:
        with self._lock:
            self._running.pop(ended, None)

    def close(self) -> None:
        """Wait for everything that was started. More may be started later."""
        with self._lock:
            running = list(self._running)
        wait(running)
