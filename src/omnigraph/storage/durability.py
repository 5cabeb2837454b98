"""Flushing local files. Lance flushes nothing, so this module does.

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


def flush_files(disk: Disk, files: Iterable[Path], *, below: Path) -> None:
    """Flush files, then each folder from theirs up to and including `below`, every folder once.

    Ancestors are flushed too because any of them may be new: if the entry of a folder was never
    flushed, a power cut loses everything inside the folder.
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
