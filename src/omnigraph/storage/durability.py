"""Flushing local files. Lance flushes nothing, so this module does.

A file survives a power cut when it, and the folder entry that names it, were flushed (D11).
`Durability` is the choice a store is opened with; `Disk` is the pair of calls that carry it out,
a protocol so that tests can record which files were flushed, and before what.

Flushes that need no order among each other form a wave and wait together (D31). One flush of a disk
takes about as long as ten at once, because the file system writes one journal entry for all.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, Protocol

FLUSHES_IN_PARALLEL: Final = 16
"""The flushes of one table commit and one manifest commit fit twice."""


class Durability(Enum):
    """What a local write survives after the call has returned."""

    DURABLE = "durable"
    """A power cut: files and folders are flushed before the call returns."""

    RELAXED = "relaxed"
    """A crash of the process. The operating system decides when it writes the files."""


class Disk(Protocol):
    def flush_file(self, path: Path) -> None: ...
    def flush_folder(self, path: Path) -> None: ...


class RealDisk:
    """The disk of this machine."""

    def flush_file(self, path: Path) -> None:
        _flush(path, os.O_RDONLY)

    def flush_folder(self, path: Path) -> None:
        _flush(path, os.O_RDONLY | os.O_DIRECTORY)


class RelaxedDisk:
    """Flushes nothing."""

    def flush_file(self, path: Path) -> None:
        """Leave it to the operating system."""

    def flush_folder(self, path: Path) -> None:
        """Leave it to the operating system."""


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_DISKS: Final[dict[Durability, Disk]] = {
    Durability.DURABLE: RealDisk(),
    Durability.RELAXED: RelaxedDisk(),
}


def disk_for(durability: Durability) -> Disk:
    return _DISKS[durability]


class FlushWaves:
    """The flushes of one write, wave by wave.

    `add` notes files and their folders; `flush` flushes all of them at once. A file that was
    flushed is not flushed again. A folder is, because it may have new entries.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: set[Path] = set()
        self._folders: set[Path] = set()
        self._flushed: set[Path] = set()

    def add(self, files: Iterable[Path], *, below: Path) -> None:
        """Add files, and each folder from theirs up to and including `below`.

        Ancestors are flushed too because any of them may be new: if the entry of a folder was never
        flushed, a power cut loses everything inside the folder.
        """
        if isinstance(self._disk, RelaxedDisk):
            return
        for file in files:
            if file not in self._flushed:
                self._files.add(file)
                self._folders.update(_folders_up(file.parent, below))

    @contextmanager
    def flushing(self) -> Iterator[None]:
        """Flush what was added while the caller works; return when both have ended.

        Raises OSError of a flush, unless the caller fails by itself.
        """
        files, folders = self._files, self._folders
        self._files, self._folders = set(), set()
        running = [_start(self._disk.flush_file, each) for each in sorted(files)]
        running += [_start(self._disk.flush_folder, each) for each in sorted(folders)]
        try:
            yield
        finally:
            wait(running)
        for each in running:
            each.result()
        self._flushed |= files

    def flush(self) -> None:
        """Flush everything that was added. Raises OSError."""
        with self.flushing():
            pass


@lru_cache(maxsize=1_024)
def _folders_up(folder: Path, below: Path) -> tuple[Path, ...]:
    """A folder, and each folder above it up to and including `below`."""
    if folder == below or not folder.is_relative_to(below):
        return (folder,)
    return (folder, *_folders_up(folder.parent, below))


def flush_files(disk: Disk, files: Iterable[Path], *, below: Path) -> None:
    """Flush files and their folders, up to and including `below`, in one wave."""
    waves = FlushWaves(disk)
    waves.add(files, below=below)
    waves.flush()


def _start(flush: Callable[[Path], None], path: Path) -> "Future[None]":
    return _pool(os.getpid()).submit(flush, path)


@cache
def _pool(process_id: int) -> ThreadPoolExecutor:  # noqa: ARG001 - the key of the cache
    """One pool for each process: the threads of a pool do not survive a fork."""
    return ThreadPoolExecutor(FLUSHES_IN_PARALLEL, thread_name_prefix="omnigraph-flush")
