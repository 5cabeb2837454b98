"""Finding and reading the input files of a load, on a disk or in a bucket.

This module never writes. It opens a bucket with the storage options of the caller, or else with the
credentials of the machine (D22).
"""

import fnmatch
import glob
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from omnigraph.errors import FileUnreadable, OmnigraphError
from omnigraph.storage.bucket_errors import explain
from omnigraph.storage.bucket_options import S3, BucketAccess, resolve_bucket
from omnigraph.storage.objects_cloud import connect
from omnigraph.storage.translate import summarize

_FILE: Final = "file://"
_PATTERN: Final = re.compile(r"[*?\[]")
_READ_AHEAD_BYTES: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class InputFile:
    path: str
    """Its address, valid in every process."""
    shown: str
    """Its name in messages."""
    size_bytes: int
    tag: str = ""
    """Changes when its content does: the tag of an object, or the time of a file."""


def find_inputs(source: str, options: Mapping[str, str]) -> list[InputFile]:
    """The files that a text names, sorted by name: one, those of a folder, or those that match.

    Raises FileUnreadable if there is none.
    """
    if source.startswith(S3):
        found = _find_in_bucket(source, options)
    else:
        with reading(source):
            found = _find_here(source.removeprefix(_FILE))
    if not found:
        raise FileUnreadable(source, reason="no such file, or no file matches")
    return found


@contextmanager
def open_input(path: str, shown: str, options: Mapping[str, str]) -> Iterator[BinaryIO]:
    """Open a seekable file. Opening and reading raise FileUnreadable."""
    if path.startswith(S3):
        access, key = _locate(path, options)
        with reading(shown, access):
            reader = obstore.open_reader(connect(access), key, buffer_size=_READ_AHEAD_BYTES)
            # It lacks the name and the writing methods of a file; readers use neither.
            yield cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", _Raw(reader))))
    else:
        with reading(shown), open(path, "rb") as file:  # noqa: PTH123 - a seekable stream of bytes
            yield file


@contextmanager
def reading(shown: str, access: BucketAccess | None = None) -> Iterator[None]:
    """Translate errors to FileUnreadable with the name of the file, and of its bucket."""
    try:
        yield
    except OmnigraphError:
        raise
    except (OSError, BaseError) as error:
        of_bucket = None if access is None else explain(error, access)
        if of_bucket is not None:
            raise FileUnreadable(shown, reason=str(of_bucket)) from error
        reason = getattr(error, "strerror", None) or summarize(error)
        raise FileUnreadable(shown, reason=reason) from error


# ── a disk ───────────────────────────────────────────────────────────────────────────────────────


def _find_here(source: str) -> list[InputFile]:
    path = Path(source)
    if path.is_file():
        found = [path]
    elif path.is_dir():
        inside = (each for each in path.rglob("*") if each.is_file())
        found = [each for each in inside if not _is_hidden(each.relative_to(path).parts)]
    else:
        matches = glob.glob(source, recursive=True)  # noqa: PTH207 - the pattern may be absolute
        found = [Path(each) for each in matches if Path(each).is_file()]
    return [_describe(each) for each in sorted(found, key=str)]


def _describe(path: Path) -> InputFile:
    # Opened to check the permission now.
    with path.open("rb") as file:
        facts = os.fstat(file.fileno())
        size_bytes = file.seek(0, io.SEEK_END)
    return InputFile(str(path.resolve()), str(path), size_bytes, str(facts.st_mtime_ns))


def _is_hidden(parts: tuple[str, ...]) -> bool:
    """Other programs leave markers such as `_SUCCESS` and `.crc` files beside their output."""
    return any(part.startswith((".", "_")) for part in parts)


# ── a bucket ─────────────────────────────────────────────────────────────────────────────────────


def _locate(address: str, options: Mapping[str, str]) -> tuple[BucketAccess, str]:
    bucket, _, key = address.removeprefix(S3).partition("/")
    if not bucket:
        raise FileUnreadable(address, reason="it names no bucket")
    return resolve_bucket(f"{S3}{bucket}", options), key


def _find_in_bucket(source: str, options: Mapping[str, str]) -> list[InputFile]:
    access, key = _locate(source, options)
    with reading(source, access):
        # A wrong address should not wait for the retries that a long read needs.
        return _find_below(connect(access, retries_max=1), source, key)


def _find_below(store: ObjectStore, source: str, key: str) -> list[InputFile]:
    bucket = source.removesuffix(key)
    pattern = _PATTERN.search(key)
    if pattern is None and key and not key.endswith("/"):
        try:
            meta = obstore.head(store, key)
        except FileNotFoundError:
            pass
        else:
            return [InputFile(source, source, meta["size"], meta["e_tag"] or "")]
    folder = key if pattern is None else key[: pattern.start()].rpartition("/")[0]
    found = {
        meta["path"]: meta
        for chunk in obstore.list(store, folder.rstrip("/") or None)
        for meta in chunk
    }
    if pattern is None:
        inside = folder.rstrip("/").count("/") + 1 if folder else 0
        wanted = [each for each in found if not _is_hidden(tuple(each.split("/"))[inside:])]
    else:
        parts = key.split("/")
        wanted = [each for each in found if _is_match(each.split("/"), parts)]
    return [
        InputFile(
            f"{bucket}{each}", f"{bucket}{each}", found[each]["size"], found[each]["e_tag"] or ""
        )
        for each in sorted(wanted)
    ]


def _is_match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """As a shell reads it: `*` stays within a folder, `**` stands for any folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_is_match(parts[at:], pattern[1:]) for at in range(len(parts) + 1))
    return (
        bool(parts)
        and fnmatch.fnmatchcase(parts[0], pattern[0])
        and _is_match(parts[1:], pattern[1:])
    )


class _Raw(io.RawIOBase):
    """An object as a raw stream of Python."""

    def __init__(self, reader: "obstore.ReadableFile") -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        data = self._reader.read(len(view))
        view[: len(data)] = memoryview(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()
