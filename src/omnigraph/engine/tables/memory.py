"""The memory budget of one execution."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from omnigraph.commit.context import UNMETERED, Meter
from omnigraph.errors import QueryMemoryExceeded


class Sized(Protocol):
    """An object that knows its size in bytes."""

    @property
    def nbytes(self) -> int: ...


SizedT = TypeVar("SizedT", bound=Sized)

SETTING = "query_memory_bytes_max"


class Memory:
    """The bytes that one execution holds: rows that operators keep, not rows that pass through."""

    def __init__(self, bytes_max: int = sys.maxsize, meter: Meter = UNMETERED) -> None:
        self.bytes_max = bytes_max
        self.held = 0
        self.peak = 0
        self._meter = meter

    def begin(self) -> None:
        """Count one read, which calls `end` in whatever way it ends."""
        self._meter.reading(1, 0)

    def end(self) -> None:
        """Release all that the read holds."""
        self._meter.reading(-1, -self.held)
        self.held = 0

    def hold(self, operator: str, nbytes: int) -> None:
        """Charge bytes before they are allocated. Raises QueryMemoryExceeded."""
        self.check(operator, nbytes)
        self.held += nbytes
        self._meter.reading(0, nbytes)

    def check(self, operator: str, nbytes: int) -> None:
        """Check that so many more bytes fit for a moment. Raises QueryMemoryExceeded."""
        if self.held + nbytes > self.bytes_max:
            raise QueryMemoryExceeded(
                operator, needed=self.held + nbytes, allowed=self.bytes_max, setting=SETTING
            )
        self.peak = max(self.peak, self.held + nbytes)

    def release(self, nbytes: int) -> None:
        self.held -= nbytes
        self._meter.reading(0, -nbytes)

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        """Release at the end what was charged inside the block."""
        before = self.held
        try:
            yield
        finally:
            self.release(self.held - before)

    def hold_frame(self, operator: str, frame: SizedT) -> SizedT:
        self.hold(operator, frame.nbytes)
        return frame
