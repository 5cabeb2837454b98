"""Admission: how many writes and bytes one actor may have under way in this process.

Reads are not counted. The limit is per actor, because it protects the other actors; all requests
without an actor share one limit.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from omnigraph.errors import TooManyRequests
from omnigraph.server.runtime.settings import Limits

ANONYMOUS: Final = "anonymous"
RETRY_AFTER_S: Final = 1
SMALL_BYTES: Final = 256
"""The size that a write without a body counts as."""


class Admission:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._requests: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._lock = Lock()

    @contextmanager
    def admitted(self, actor: str | None, size_bytes: int) -> Iterator[None]:
        """Raises TooManyRequests."""
        name = actor or ANONYMOUS
        size = max(size_bytes, SMALL_BYTES)
        self._enter(name, size)
        try:
            yield
        finally:
            with self._lock:
                self._requests[name] -= 1
                self._bytes[name] -= size

    def _enter(self, name: str, size: int) -> None:
        limits = self.limits
        with self._lock:
            if self._requests[name] >= limits.inflight_per_actor:
                limit = f"{limits.inflight_per_actor} writes"
                raise TooManyRequests(name, limit=limit, retry_after_s=RETRY_AFTER_S)
            if self._bytes[name] + size > limits.bytes_per_actor:
                limit = f"{limits.bytes_per_actor} bytes"
                raise TooManyRequests(name, limit=limit, retry_after_s=RETRY_AFTER_S)
            self._requests[name] += 1
            self._bytes[name] += size
