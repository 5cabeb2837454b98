"""Returning freed memory to the system at once.

The allocator of the GNU C library adapts: after it has seen a block of some size freed, it keeps
freed blocks of up to that size, at most 32 MB, for each thread. Gigabytes of rows that pass through
Lance in buffers of megabytes then leave hundreds of megabytes allocated and unused. With a fixed
threshold the allocator returns every large block. Memory that is used again then costs one page
fault per 4 KB, so only operations on very many rows set the threshold.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_MMAP_THRESHOLD: Final = -3
"""The number of the setting, in `malloc.h` of the GNU C library."""

LARGE_BYTES: Final = 256 * 1024
"""Blocks of at least this size are returned while an operation releases memory..."""

USUAL_BYTES: Final = 32 * 1024 * 1024
"""...and from this size at other times, which is the value that the allocator adapts to."""


class MemoryRelease:
    """Counts the operations that release memory now. The setting is one for the whole process."""

    def __init__(self, set_to: Callable[[int, int], object] | None) -> None:
        self._set_to = set_to
        self._count = 0
        self._lock = Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside, the allocator returns every large block as soon as it is free."""
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


# Other C libraries have no such setting; most of them do not keep freed blocks either.
releasing_memory: Final = MemoryRelease(getattr(ctypes.CDLL(None), "mallopt", None))
