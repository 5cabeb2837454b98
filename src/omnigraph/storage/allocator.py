"""Memory that was freed, given back at once.

The allocator of the C library learns: once it has seen blocks of a size freed it keeps the next
ones for later, every thread its own, up to 32 MB each. Gigabytes of rows that pass through the
table format in buffers of megabytes then leave hundreds of megabytes behind, more the longer they
pass, though hardly any are in use. Told not to learn, it gives every large block back. That costs a
page fault for every 4 KB that is used again, so it is only for work on very much.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_MMAP_THRESHOLD: Final = -3
"""The number of the setting, in `malloc.h` of the GNU C library."""

LARGE_BYTES: Final = 256 * 1024
"""Blocks of this size, and larger ones, are given back while somebody is frugal..."""

USUAL_BYTES: Final = 32 * 1024 * 1024
"""...and otherwise from this size on: what the allocator comes to by itself, sooner or later."""


class MemoryRelease:
    """How many are frugal right now. The setting is one for the whole process."""

    def __init__(self, set_to: Callable[[int, int], object] | None) -> None:
        self._set_to = set_to
        self._count = 0
        self._lock = Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """While this lasts, no large block of memory is kept once it is free."""
        self._change(1, LARGE_BYTES)
        try:
            yield
        finally:
            self._change(-1, USUAL_BYTES)

    def _change(self, by: int, threshold: int) -> None:
        with self._lock:
            is_first_or_last = min(self._count, self._count + by) == 0
            self._count += by
            if is_first_or_last and self._set_to is not None:
                self._set_to(_MMAP_THRESHOLD, threshold)


# Other C libraries have no such setting, and most of them no such habit.
releasing_memory: Final = MemoryRelease(getattr(ctypes.CDLL(None), "mallopt", None))
