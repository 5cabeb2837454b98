"""Reaching the disk. Lance flushes nothing; this module is where local files are made to last.

A file survives a power cut when it, and the folder entry that names it, were flushed (D11).
`Durability` is the choice a store is opened with; `Disk` is the pair of calls that carry it out,
a protocol so that tests can record which files were flushed, and before what.
"""

import os
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Final, Protocol


class Durability(Enum):
    """What an acknowledged local write has survived."""

    DURABLE = "durable"
    """A power cut: files and folders are flushed before the call returns."""

    RELAXED = "relaxed"
    """A crash of the process. The operating system writes the files out when it likes."""


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
    """A disk nobody waits for."""

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


def flush_files(disk: Disk, files: Iterable[Path], *, below: Path) -> None:
    """Flush files, then each folder from theirs up to and including `below`, every folder once.

    Ancestors are flushed too because any of them may be new: a folder whose own entry was never
    flushed takes everything inside it along.
    """
    folders: set[Path] = set()
    for file in files:
        disk.flush_file(file)
        folder = file.parent
        while folder not in folders:
            folders.add(folder)
            if folder == below or not folder.is_relative_to(below):
                break
            folder = folder.parent
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        disk.flush_folder(folder)
