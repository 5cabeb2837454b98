"""Input files, cut into splits that workers can read on their own.

A split of plain text is a range of bytes. It owns the lines that begin in it: a reader skips to the
first of them and reads the last one to its end, wherever that is. So every line belongs to exactly
one split, whatever the lines look like. A compressed file is one split, because nobody can start in
the middle of it.

Splits are numbered in the order of the input, and an ordinal is the number of a split and the
number of a line in it. Which line of the file that is can be told once every split before it has
counted its lines; nobody reads anything twice for it.
"""

import glob
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Final, Literal

import pyarrow as pa

from omnigraph.engine.bulk import RecordPlace
from omnigraph.errors import FileUnreadable, UsageError

SPLIT_BYTES: Final = 16 * 2**20
"""What a task reads: enough to be worth a task, little enough to hold several times over."""

BLOCK_BYTES: Final = 8 * 2**20
"""What is parsed at once."""

STDIN: Final = "-"
SPOOLED: Final = "<stdin>"

Codec = Literal["gzip", "zstd"]

_CODECS: Final[dict[str, Codec]] = {".gz": "gzip", ".zst": "zstd"}
_INFLATION: Final = 10
"""How much larger than their files compressed records are taken to be."""

_LINES_PER_SPLIT_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of a file. A compressed file has one, without an end."""

    number: int
    path: str
    shown: str
    """What people call the file."""
    start: int
    end: int | None

    @property
    def codec(self) -> Codec | None:
        return _CODECS.get(Path(self.path).suffix)


@dataclass(frozen=True, slots=True)
class Plan:
    splits: tuple[Split, ...]
    size_bytes: int
    """Of the records, as far as one can tell."""


def ordinal_of(split: Split, line: int) -> int:
    """Where a line is in all the input; `line` counts from 0 in its split."""
    return (split.number << _LINES_PER_SPLIT_BITS) | line


def plan_splits(files: Sequence[tuple[str, str]], split_bytes: int = SPLIT_BYTES) -> Plan:
    """Cut files, given by path and by name for people. Raises FileUnreadable."""
    splits: list[Split] = []
    size_bytes = 0
    for path, shown in files:
        size = _size_of(path, shown)
        if Path(path).suffix in _CODECS:
            splits.append(Split(len(splits), path, shown, 0, None))
            size_bytes += size * _INFLATION
            continue
        bounds = [*range(0, size, split_bytes), size]
        for start, end in pairwise(bounds):
            splits.append(Split(len(splits), path, shown, start, end))
        size_bytes += size
    return Plan(tuple(splits), size_bytes)


def _size_of(path: str, shown: str) -> int:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - to find out whether we may
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise FileUnreadable(shown, reason=error.strerror or str(error)) from error


# ── finding files ────────────────────────────────────────────────────────────────────────────────


def find_files(sources: Sequence[str], spool: Path) -> list[tuple[str, str]]:
    """Every file that is meant, in order: path, and name for people.

    A folder stands for the files in it and a pattern for those that match, by name. Standard input
    is written to `spool`, because a worker cannot read it. Raises FileUnreadable, UsageError.
    """
    files: list[tuple[str, str]] = []
    for source in sources:
        if source == STDIN:
            files.append((_spool(spool), SPOOLED))
            continue
        found = _find(source.removeprefix("file://"))
        if not found:
            raise FileUnreadable(source, reason="no such file, or no file matches")
        files += [(str(Path(each).resolve()), each) for each in found]
    if not files:
        raise UsageError("there is nothing to load: name a file")
    return files


def _find(source: str) -> list[str]:
    path = Path(source)
    if path.is_file():
        return [source]
    if path.is_dir():
        inside = (each for each in path.rglob("*") if each.is_file())
        return sorted(str(each) for each in inside if not _is_hidden(each.relative_to(path)))
    matches = glob.glob(source, recursive=True)  # noqa: PTH207 - the pattern may be absolute
    return sorted(each for each in matches if Path(each).is_file())


def _is_hidden(path: Path) -> bool:
    """Other programs leave markers such as `_SUCCESS` and `.crc` files beside their output."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _spool(folder: Path) -> str:
    target = folder / "stdin.jsonl"
    with target.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, BLOCK_BYTES)
    return str(target)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_blocks(split: Split, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The lines a split owns, some whole lines at a time. Raises FileUnreadable."""
    try:
        if split.codec is not None:
            with pa.input_stream(split.path, compression=split.codec) as stream:
                yield from _whole_lines(stream, block_bytes)
        else:
            with open(split.path, "rb") as file:  # noqa: PTH123 - a seekable stream of bytes
                yield from _read_range(file, split, block_bytes)
    except OSError as error:
        raise FileUnreadable(split.shown, reason=error.strerror or str(error)) from error


def _read_range(file: IO[bytes], split: Split, block_bytes: int) -> Iterator[bytes]:
    assert split.end is not None
    if split.start > 0:
        # The line that the byte before us belongs to is not ours, unless it ends right there.
        file.seek(split.start - 1)
        file.readline()
    while (left := split.end - file.tell()) > 0:
        block = file.read(min(left, block_bytes))
        if not block:
            return
        # Up to the end of a line, be it beyond the range.
        yield block if block.endswith(b"\n") else block + file.readline()


def _whole_lines(stream: "pa.NativeFile", block_bytes: int) -> Iterator[bytes]:
    carried = b""
    while chunk := stream.read(block_bytes):
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield carried + head + newline
            carried = tail
        else:
            carried += chunk
    if carried:
        yield carried


def count_lines(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n"))


# ── naming lines ─────────────────────────────────────────────────────────────────────────────────


class LineNumbers:
    """Which line of which file an ordinal means, once all lines are counted."""

    def __init__(self, splits: Sequence[Split], line_counts: Sequence[int]) -> None:
        self._splits = splits
        self._first: list[int] = []
        before, path = 0, None
        for split, count in zip(splits, line_counts, strict=True):
            before = before if split.path == path and split.start > 0 else 0
            self._first.append(before)
            before, path = before + count, split.path

    def place_of(self, ordinal: int) -> RecordPlace:
        number = ordinal >> _LINES_PER_SPLIT_BITS
        line = ordinal & ((1 << _LINES_PER_SPLIT_BITS) - 1)
        return RecordPlace(self._splits[number].shown, self._first[number] + line + 1)
