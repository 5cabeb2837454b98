"""What the process does with freed memory: keep it for the next read, or return it at once.

Memory that was returned costs one page fault for each 4 KB when it is used again. Wide walks make
arrays of megabytes and free them, and the faults took half of their time. So a process that reads
keeps some freed memory (ADR 74).

The allocator of the GNU C library adapts: after it has seen a block of some size freed, it keeps
freed blocks of up to that size, at most 32 MB, for each thread. Gigabytes of rows that pass through
Lance in buffers of megabytes then leave hundreds of megabytes allocated and unused. With a fixed
threshold the allocator returns every large block. Only operations on very many rows set it.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""The numbers of the settings, in `malloc.h` of the GNU C library."""

LARGE_BYTES: Final = 256 * 1024
"""Blocks of at least this size are returned while an operation releases memory..."""

USUAL_BYTES: Final = 32 * 1024 * 1024
"""...and from this size at other times, which is the value that the allocator adapts to."""

KEPT_BYTES: Final = 32 * 1024 * 1024
"""So much is kept at the end of each heap; by itself the allocator keeps 128 KB to 64 MB."""

_CHOSEN_BY_USER: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""By these a user sets the allocator of a process; then it is left as it is."""


class FreedMemory:
    """Sets what the allocator does with freed memory, for the whole process."""

    def __init__(self, set_to: Callable[[int, int], object] | None) -> None:
        self._set_to = set_to
        self._returning = 0
        """How many operations return all of it now."""
        self._is_kept = False
        self._lock = Lock()

    def keep(self) -> None:
        """Keep up to `KEPT_BYTES` of it from now on, except while an operation returns all."""
        if self._is_kept:
            return
        with self._lock:
            self._is_kept = True
            if not any(each in os.environ for each in _CHOSEN_BY_USER):
                self._set(_TRIM_THRESHOLD, KEPT_BYTES)
                if not self._returning:
                    self._set(_MMAP_THRESHOLD, USUAL_BYTES)

    @contextmanager
    def returned(self) -> Iterator[None]:
        """Inside, the allocator returns every large block as soon as it is free."""
        self._change(1, LARGE_BYTES)
        try:
            yield
        finally:
            self._change(-1, USUAL_BYTES)

    def _change(self, by: int, threshold: int) -> None:
        with self._lock:
            is_first_or_last = min(self._returning, self._returning + by) == 0
            self._returning += by
            if is_first_or_last:
                self._set(_MMAP_THRESHOLD, threshold)

    def _set(self, setting: int, value: int) -> None:
        if self._set_to is not None:
            self._set_to(setting, value)


# Other C libraries have no such setting; most of them do not keep freed blocks either.
freed_memory: Final = FreedMemory(getattr(ctypes.CDLL(None), "mallopt", None))
