"""How much memory one execution may hold, and who asked for too much."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from omnigraph.commit.context import UNMETERED, Meter
from omnigraph.errors import QueryMemoryExceeded


class Sized(Protocol):
    """Anything that knows how many bytes it takes."""

    @property
    def nbytes(self) -> int: ...


SizedT = TypeVar("SizedT", bound=Sized)

SETTING = "query_memory_bytes_max"


class Memory:
    """What an execution holds at a time, by its own account: rows it keeps, not those it passes."""

    def __init__(self, bytes_max: int = sys.maxsize, meter: Meter = UNMETERED) -> None:
        self.bytes_max = bytes_max
        self.held = 0
        self.peak = 0
        self._meter = meter

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One read, which lets go of all it holds however it ends."""
        self._meter.reading(1, 0)
        try:
            yield
        finally:
            self._meter.reading(-1, -self.held)
            self.held = 0

    def hold(self, operator: str, nbytes: int) -> None:
        """Raises QueryMemoryExceeded, before the memory is taken."""
        self.check(operator, nbytes)
        self.held += nbytes
        self._meter.reading(0, nbytes)

    def check(self, operator: str, nbytes: int) -> None:
        """Could so much be held for a moment? Raises QueryMemoryExceeded."""
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
        """Whatever is held from here on is let go of at the end."""
        before = self.held
        try:
            yield
        finally:
            self.release(self.held - before)

    def hold_frame(self, operator: str, frame: SizedT) -> SizedT:
        self.hold(operator, frame.nbytes)
        return frame
