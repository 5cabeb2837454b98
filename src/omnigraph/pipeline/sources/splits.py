"""Input files, cut into splits that workers can read on their own.

A split of plain text is a range of bytes. It owns the lines that begin in it: a reader skips to the
first of them and reads the last one to its end, wherever that is. So every line belongs to exactly
one split, whatever the lines look like. A compressed file is one split, because no reader can
start in the middle of it. `delimited` and `parquet` say how tables are cut.

Splits are numbered in the order of the input, and an ordinal is the number of a split and the
number of a line in it. The line number in the file is known once every split before it has counted
its lines, so no file is read twice for it.
"""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.engine.load.bulk import RecordPlace
from omnigraph.errors import FileUnreadable
from omnigraph.pipeline.sources.lake import LakeListing, LakeTable
from omnigraph.pipeline.sources.mappings import ColumnMapping
from omnigraph.storage.inputs import InputFile, open_input, reading

SPLIT_BYTES: Final = 16 * 2**20
SPLIT_BYTES_MAX: Final = 64 * 2**20
"""What a task reads: enough to be worth a task and to fill fragments, little enough to do again."""

BLOCK_BYTES: Final = 8 * 2**20
"""What is parsed at once."""

RECORD_BYTES_MAX: Final = 2**30
"""A longer record is refused: without a newline, a small compressed file would fill the memory."""

SPOOLED: Final = "<stdin>"

Codec = Literal["gzip", "zstd"]

CODECS: Final[Mapping[str, Codec]] = {".gz": "gzip", ".zst": "zstd"}
INFLATION: Final = 10
"""How much larger than their files compressed records are taken to be."""

_LINES_PER_SPLIT_BITS: Final = 36

PARTITIONS_MAX: Final = 2**18
"""How many splits a data frame may turn out to have; so many numbers are kept for it."""


# ── splits ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Records:
    """Lines that are records."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Lines of cells."""

    mapping: ColumnMapping
    header: tuple[str, ...]
    """The names of all columns, whether the file states them or not."""
    delimiter: str
    null: str
    header_bytes: int
    """Where the first record begins that is a row."""
    is_quoted: bool = True
    """May cells be quoted? If not, a quote is a character like any other."""
    is_inside: bool = False
    """The split begins between two quotes."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Row groups of a Parquet file; the split is a range of their numbers."""

    mapping: ColumnMapping


@dataclass(frozen=True, slots=True)
class LakeRows:
    """A data file of a Delta or Iceberg table; the split is all of it."""

    mapping: ColumnMapping
    table: LakeTable


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a data frame, which Spark has cut."""


Content = Records | Cells | RowGroups | LakeRows | Partition


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of a file. A compressed file has one, without an end."""

    number: int
    path: str
    shown: str
    """What people call the file."""
    start: int
    end: int | None
    content: Content = Records()

    @property
    def codec(self) -> Codec | None:
        return codec_of(self.path)


def codec_of(path: str) -> Codec | None:
    return CODECS.get(Path(path).suffix)


Numbers = TypeVar("Numbers", int, np.ndarray[Any, np.dtype[np.int64]])


def ordinal_of(split: Numbers, line: Numbers) -> Numbers:
    """Where a line is in all the input; `line` counts from 0 in its split."""
    return (split << _LINES_PER_SPLIT_BITS) + line


def cut_records(file: InputFile, first: int, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """The splits of a file of records, numbered from `first`."""
    if codec_of(file.path) is not None:
        return [Split(first, file.path, file.shown, 0, None)]
    return [
        Split(first + number, file.path, file.shown, start, end)
        for number, (start, end) in enumerate(cut_bytes(file.size_bytes, split_bytes))
    ]


def cut_lake(listing: LakeListing, mapping: ColumnMapping, first: int) -> list[Split]:
    """The splits of a Delta or Iceberg table, numbered from `first`: one for each data file."""
    return [
        Split(
            first + number,
            each.path,
            f"{listing.shown} {each.path.rpartition('/')[2]}",
            0,
            None,
            LakeRows(mapping, each.table),
        )
        for number, each in enumerate(listing.files)
    ]


def cut_bytes(size: int, split_bytes: int) -> list[tuple[int, int]]:
    return list(pairwise([*range(0, size, split_bytes), size]))


def spool(folder: Path) -> InputFile:
    """Standard input as a file, because a worker cannot read it."""
    target = folder / "stdin.jsonl"
    with target.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, BLOCK_BYTES)
    return InputFile(str(target), SPOOLED, target.stat().st_size)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_blocks(
    split: Split, options: Mapping[str, str], block_bytes: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """The lines a split owns, some whole lines at a time. Raises FileUnreadable."""
    with open_plain(split.path, split.shown, options) as stream:
        if split.codec is not None:
            yield from _whole_lines(stream, split, block_bytes)
        else:
            yield from _read_range(stream, split, block_bytes)


@contextmanager
def open_plain(path: str, shown: str, options: Mapping[str, str]) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if it is compressed. Raises FileUnreadable."""
    codec = codec_of(path)
    with open_input(path, shown, options) as file:
        if codec is None:
            yield file
            return
        with reading(shown), pa.CompressedInputStream(file, codec) as stream:  # type: ignore[arg-type] # any stream of bytes
            yield stream  # type: ignore[misc] # it reads like one


def _read_range(file: BinaryIO, split: Split, block_bytes: int) -> Iterator[bytes]:
    assert split.end is not None
    if split.start > 0:
        # The line that the byte before us belongs to is not ours, unless it ends right there.
        file.seek(split.start - 1)
        _read_line(file, split)
    while (left := split.end - file.tell()) > 0:
        block = file.read(min(left, block_bytes))
        if not block:
            return
        # Up to the end of a line, be it beyond the range.
        yield block if block.endswith(b"\n") else block + _read_line(file, split)


def _read_line(file: BinaryIO, split: Split) -> bytes:
    """The rest of a line. Raises FileUnreadable."""
    line = file.readline(RECORD_BYTES_MAX + 1)
    check_record_size(len(line), split.shown)
    return line


def check_record_size(nbytes: int, shown: str) -> None:
    """Raises FileUnreadable."""
    if nbytes > RECORD_BYTES_MAX:
        reason = f"one of its records has more than {RECORD_BYTES_MAX} bytes"
        raise FileUnreadable(shown, reason=reason)


def _whole_lines(stream: BinaryIO, split: Split, block_bytes: int) -> Iterator[bytes]:
    carried: list[bytes] = []
    carried_bytes = 0
    while chunk := stream.read(block_bytes):
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield b"".join([*carried, head, newline])
            carried, carried_bytes = [tail], len(tail)
        else:
            carried.append(chunk)
            carried_bytes += len(chunk)
        check_record_size(carried_bytes, split.shown)
    if carried_bytes:
        yield b"".join(carried)


def count_lines(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n"))


# ── naming lines ─────────────────────────────────────────────────────────────────────────────────


class LineNumbers:
    """Which line of which file an ordinal means, once all lines are counted."""

    def __init__(self, splits: Sequence[Split], line_counts: Sequence[int]) -> None:
        self._splits = {split.number: split for split in splits}
        self._first: dict[int, int] = {}
        before, path = 0, None
        for split, count in zip(splits, line_counts, strict=True):
            before = before if split.path == path and split.start > 0 else 0
            self._first[split.number] = before
            before, path = before + count, split.path

    def place_of(self, ordinal: int) -> RecordPlace:
        number = ordinal >> _LINES_PER_SPLIT_BITS
        line = ordinal & ((1 << _LINES_PER_SPLIT_BITS) - 1)
        return RecordPlace(self._splits[number].shown, self._first[number] + line + 1)
