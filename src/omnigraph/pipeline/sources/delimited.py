"""CSV: finding records among quotes, and reading cells.

A newline between quotes is part of a cell, so a record may be several lines. Whether a place in a
file is between quotes depends on every quote before it: their number is even or odd. So before a
large file is cut the quotes of every piece are counted, by workers; that is the only thing read
twice. It is safe because a quote may stand in no other places than the format says. One that
stands elsewhere is a fault of its record, and then nothing is loaded.

Records are read together by Arrow if all is well, else one by one. The line of a record is the one
it begins on. Lines with nothing on them are skipped.

If cells are never quoted, a quote is a character like any other, and every newline ends a record.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
from pyarrow import csv

from omnigraph.engine.load.bulk import RECORD, Fault
from omnigraph.errors import FileUnreadable
from omnigraph.pipeline.sources.envelopes import Numbers
from omnigraph.pipeline.sources.parse import Parsed
from omnigraph.pipeline.sources.splits import (
    BLOCK_BYTES,
    Cells,
    Split,
    check_record_size,
    count_lines,
    open_plain,
)
from omnigraph.pipeline.sources.tabular import read_givens, read_together

_QUOTE: Final = ord('"')
_NEWLINE: Final = ord("\n")
_RETURN: Final = ord("\r")
_MARK: Final = b"\xef\xbb\xbf"
"""What some programs write in front of UTF-8."""

_HEADER_BYTES_MAX: Final = 2**20


# ── records among quotes ─────────────────────────────────────────────────────────────────────────


def find_ends(data: bytes, *, is_quoted: bool = True, is_inside: bool = False) -> Numbers:
    """Where records end: behind every newline that is not between quotes."""
    values = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(values == _NEWLINE)
    if is_quoted and (is_inside or b'"' in data):
        quotes = np.flatnonzero(values == _QUOTE)
        newlines = newlines[(np.searchsorted(quotes, newlines) + is_inside) % 2 == 0]
    return newlines + 1


def read_record_blocks(
    split: Split, options: Mapping[str, str], block_bytes: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """The records that begin in a split, some whole ones at a time. Raises FileUnreadable."""
    for _, block in _read_placed_blocks(split, options, block_bytes):
        yield block


def _read_placed_blocks(
    split: Split, options: Mapping[str, str], block_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """The blocks, and where in the file each begins."""
    content = split.content
    assert isinstance(content, Cells)
    with open_plain(split.path, split.shown, options) as file:
        at = _find_first(file, split.start, block_bytes, content)
        carried = b""
        while split.end is None or at < split.end:
            chunk = file.read(block_bytes)
            whole = carried + chunk
            if not chunk:
                if whole:
                    yield at, whole
                return
            ends = find_ends(whole, is_quoted=content.is_quoted)
            if split.end is not None:
                # The last record that begins before the end is the last of ours.
                ends = ends[: int(np.searchsorted(ends, split.end - at)) + 1]
            cut = int(ends[-1]) if len(ends) else 0
            if cut:
                yield at, whole[:cut]
            carried, at = whole[cut:], at + cut
            check_record_size(len(carried), split.shown)


def _find_first(file: BinaryIO, start: int, block_bytes: int, content: Cells) -> int:
    """Where the first record begins that begins at `start` or later; the file is left there."""
    if start == 0:
        return 0
    is_quoted, is_inside = content.is_quoted, content.is_inside
    file.seek(start - 1)
    at = start
    if file.read(1) != b"\n" or is_inside:
        while chunk := file.read(block_bytes):
            ends = find_ends(chunk, is_quoted=is_quoted, is_inside=is_inside)
            if len(ends):
                at += int(ends[0])
                break
            is_inside ^= chunk.count(b'"') % 2 == 1
            at += len(chunk)
        file.seek(at)
    return at


@dataclass(frozen=True, slots=True)
class CountQuotes:
    """The work of counting quotes; task n looks at piece n."""

    pieces: tuple[Split, ...]
    options: Mapping[str, str]

    def __call__(self, number: int) -> dict[str, Any]:
        split = self.pieces[number]
        assert split.end is not None
        count, at = 0, split.start
        with open_plain(split.path, split.shown, self.options) as file:
            file.seek(at)
            while at < split.end and (chunk := file.read(min(BLOCK_BYTES, split.end - at))):
                count += chunk.count(b'"')
                at += len(chunk)
        return {"quotes": count}


def resolve_quotes(pieces: Sequence[Split], counts: Sequence[int]) -> list[Split]:
    """The pieces of one file, each with the fact whether it begins between quotes."""
    resolved: list[Split] = []
    before = 0
    for piece, count in zip(pieces, counts, strict=True):
        assert isinstance(piece.content, Cells)
        resolved.append(replace(piece, content=replace(piece.content, is_inside=before % 2 == 1)))
        before += count
    return resolved


# ── cells ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Header:
    """What stands in front of the rows of a CSV."""

    cells: tuple[str, ...]
    """Of the header, or of the first row if there is none."""
    size_bytes: int
    """Where the first row begins."""


def read_header(
    path: str,
    shown: str,
    options: Mapping[str, str],
    delimiter: str,
    *,
    is_named: bool = True,
    skip: int = 0,
    is_quoted: bool = True,
) -> Header:
    """The first record behind `skip` others: the header if `is_named`, else a row.

    Raises FileUnreadable.
    """
    with open_plain(path, shown, options) as file:
        start = file.read(_HEADER_BYTES_MAX)
    ends = find_ends(start, is_quoted=is_quoted).tolist()
    is_whole = len(start) < _HEADER_BYTES_MAX
    if is_whole and (not ends or ends[-1] < len(start)):
        ends.append(len(start))
    if len(ends) <= skip and not is_whole:
        raise FileUnreadable(shown, reason="its first line, the header, has no end")
    bounds = [len(_MARK) if start.startswith(_MARK) else 0, *ends]
    begin = bounds[min(skip, len(bounds) - 1)]
    end = bounds[min(skip + 1, len(bounds) - 1)]
    line = start[begin:end]
    if not line.strip() and is_named:
        raise FileUnreadable(shown, reason="it has no header: its first line names the columns")
    try:
        if is_quoted and _find_stray_quote(line, delimiter) is not None:
            raise FileUnreadable(shown, reason="the quotes of its header are not in their places")
        text = line.decode()
    except UnicodeDecodeError as error:
        raise FileUnreadable(shown, reason=f"not UTF-8 text: {error.reason}") from error
    cells = tuple(cell for cell, _ in split_cells(text, delimiter, is_quoted=is_quoted))
    return Header(cells, end if is_named else begin)


def read_cells(split: Split, options: Mapping[str, str]) -> Iterator[tuple[Parsed, int]]:
    """The rows of a split, some at a time, with how many lines they took. Raises FileUnreadable."""
    content = split.content
    assert isinstance(content, Cells)
    for block, header_bytes in _read_bodies(split, options):
        parsed = parse_cells(content, block[header_bytes:])
        parsed.move_lines(block.count(b"\n", 0, header_bytes))
        yield parsed, count_lines(block)


def _read_bodies(split: Split, options: Mapping[str, str]) -> Iterator[tuple[bytes, int]]:
    """Blocks of whole records, and how many bytes of each stand in front of the rows."""
    content = split.content
    assert isinstance(content, Cells)
    for at, block in _read_placed_blocks(split, options, BLOCK_BYTES):
        yield block, min(len(block), max(0, content.header_bytes - at))


def read_texts(split: Split, options: Mapping[str, str]) -> Iterator[tuple[pa.Table, Numbers]]:
    """The cells of a whole file as texts, with the line of each record, counted from 0.

    Raises FileUnreadable, also when a record is malformed: who asks wants to compute with all.
    """
    content = split.content
    assert isinstance(content, Cells)
    before = 0
    for block, header_bytes in _read_bodies(split, options):
        body = block[header_bytes:]
        before += block.count(b"\n", 0, header_bytes)
        try:
            starts, ends, lines = _find_records(content, body)
            if len(starts):
                table = _read_strings(content, body)
                if table is None or table.num_rows != len(lines):
                    table = _read_strings_alone(content, body, starts, ends, lines)
                yield table, lines + before
        except _Malformed as malformed:
            line = before + malformed.line + 1
            raise FileUnreadable(split.shown, reason=f"line {line}: {malformed}") from None
        before += body.count(b"\n")


def _read_strings_alone(
    content: Cells, body: bytes, starts: Numbers, ends: Numbers, lines: Numbers
) -> pa.Table:
    """Raises _Malformed."""
    columns: dict[str, list[str | None]] = {name: [] for name in content.mapping.columns.values()}
    for line, start, end in zip(lines.tolist(), starts.tolist(), ends.tolist(), strict=True):
        record = _split_record(content, body[start:end], line)
        for name, cells in columns.items():
            cell, is_quoted = record[name]
            cells.append(None if cell == content.null and not is_quoted else cell)
    return pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})


def _find_records(content: Cells, block: bytes) -> tuple[Numbers, Numbers, Numbers]:
    """Where the records of a block begin and end, and on which lines. Raises _Malformed."""
    stray = _find_stray_quote(block, content.delimiter) if content.is_quoted else None
    if stray is not None:
        reason = "a quote stands inside a cell that is not quoted, or is never closed"
        raise _Malformed(reason, block.count(b"\n", 0, stray))
    ends = find_ends(block, is_quoted=content.is_quoted)
    if not len(ends) or ends[-1] != len(block):
        ends = np.append(ends, len(block))
    starts = np.concatenate([[0], ends[:-1]])
    is_full = _find_full(block, starts, ends)
    starts, ends = starts[is_full], ends[is_full]
    newlines = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == _NEWLINE)
    return starts, ends, np.searchsorted(newlines, starts)


def parse_cells(content: Cells, block: bytes) -> Parsed:
    """The rows of whole records; lines count from 0."""
    try:
        starts, ends, lines = _find_records(content, block)
    except _Malformed as malformed:
        return Parsed(faults=[(malformed.line, Fault(RECORD, str(malformed)))])
    if not len(starts):
        return Parsed()
    table = _read_strings(content, block)
    parsed = None
    if table is not None and table.num_rows == len(lines):
        parsed = read_together(content.mapping, table, lines)
    return _parse_one_by_one(content, block, starts, ends, lines) if parsed is None else parsed


def _find_full(
    block: bytes, starts: Numbers, ends: Numbers
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which records are more than the end of a line."""
    values = np.frombuffer(block, dtype=np.uint8)
    sizes = ends - starts
    first = values[np.minimum(starts, len(values) - 1)] if len(values) else values
    is_newline = (first == _NEWLINE) | ((first == _RETURN) & (sizes <= 2))
    full: np.ndarray[Any, np.dtype[np.bool_]] = (sizes > 0) & ~is_newline
    return full


def _find_stray_quote(block: bytes, delimiter: str) -> int | None:
    """Where a quote stands that neither opens nor closes a cell, nor is doubled."""
    if b'"' not in block:
        return None
    values = np.frombuffer(block.removeprefix(_MARK), dtype=np.uint8)
    quotes = np.flatnonzero(values == _QUOTE)
    if len(quotes) % 2:
        return int(quotes[-1])
    edges = np.concatenate([[_NEWLINE], values, [_NEWLINE]])
    opened, closed = quotes[::2], quotes[1::2]
    before, behind = edges[opened], edges[closed + 2]
    fine = [_QUOTE, _NEWLINE, ord(delimiter)]
    wrong = opened[~np.isin(before, fine)], closed[~np.isin(behind, [*fine, _RETURN])]
    found = np.concatenate(wrong)
    return int(found.min()) if len(found) else None


def _read_strings(content: Cells, block: bytes) -> pa.Table | None:
    """The mapped cells as texts; None if Arrow refuses to parse them."""
    names = list(dict.fromkeys(content.mapping.columns.values()))
    try:
        return csv.read_csv(
            io.BytesIO(block),
            read_options=csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=list(content.header)
            ),
            parse_options=csv.ParseOptions(
                delimiter=content.delimiter,
                quote_char='"' if content.is_quoted else False,
                newlines_in_values=content.is_quoted and b'"' in block,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=names,
                null_values=[content.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowException:
        return None


def _parse_one_by_one(
    content: Cells, block: bytes, starts: Numbers, ends: Numbers, lines: Numbers
) -> Parsed:
    faults: list[tuple[int, Fault]] = []
    givens: list[tuple[int, Mapping[str, object]]] = []
    bounds = zip(lines.tolist(), starts.tolist(), ends.tolist(), strict=True)
    for line, start, end in bounds:
        try:
            givens.append((line, _read_record(content, block[start:end], line)))
        except _Malformed as malformed:
            faults.append((line, Fault(RECORD, str(malformed))))
    parsed = read_givens(content.mapping, givens)
    parsed.faults = sorted([*parsed.faults, *faults], key=lambda each: each[0])
    return parsed


class _Malformed(Exception):
    """A record that is not as long as the header, or not text. The message says why."""

    def __init__(self, reason: str, line: int) -> None:
        self.line = line
        super().__init__(reason)


def _read_record(content: Cells, record: bytes, line: int) -> Mapping[str, object]:
    """What one record says, as JSON would have said it. Raises _Malformed."""
    cells = _split_record(content, record, line)
    given: dict[str, object] = {}
    for target, name in content.mapping.columns.items():
        cell, is_quoted = cells[name]
        is_null = cell == content.null and not is_quoted
        given[target] = None if is_null else content.mapping.read_text(target, cell)
    for target, text in content.mapping.constants.items():
        given[target] = content.mapping.read_text(target, text)
    return given


def _split_record(content: Cells, record: bytes, line: int) -> Mapping[str, tuple[str, bool]]:
    """The cells of a record by column, and whether each was quoted. Raises _Malformed."""
    try:
        text = record.decode()
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason} at byte {error.start + 1}"
        raise _Malformed(reason, line) from None
    cells = split_cells(text, content.delimiter, is_quoted=content.is_quoted)
    if len(cells) != len(content.header):
        raise _Malformed(f"expected {len(content.header)} cells, found {len(cells)}", line)
    if any("\r" in cell for cell, is_quoted in cells if not is_quoted):
        raise _Malformed("a carriage return stands in a cell that is not quoted", line)
    return dict(zip(content.header, cells, strict=True))


def split_cells(record: str, delimiter: str, *, is_quoted: bool = True) -> list[tuple[str, bool]]:
    """The cells of a record whose quotes are in their places, and whether each was quoted."""
    line = record.removesuffix("\n").removesuffix("\r")
    if not is_quoted:
        return [(cell, False) for cell in line.split(delimiter)]
    cells: list[tuple[str, bool]] = []
    at = 0
    while True:
        if line.startswith('"', at):
            end = line.index('"', at + 1)
            while line.startswith('"', end + 1):
                end = line.index('"', end + 2)
            cells.append((line[at + 1 : end].replace('""', '"'), True))
            at = end + 1
        else:
            end = line.find(delimiter, at)
            end = len(line) if end < 0 else end
            cells.append((line[at:end], False))
            at = end
        if at >= len(line):
            return cells
        at += len(delimiter)
