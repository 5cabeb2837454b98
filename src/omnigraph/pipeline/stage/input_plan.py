"""Before a load: the format of every input, its column mapping, and its splits.

Only names, headers and footers are read here, so a table that cannot fit is refused before any row
is read. The faults of all tables are reported at once.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeGuard

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.engine.load.bulk import Fault
from omnigraph.engine.load.inputs import LAKES, STDIN, Format, Input
from omnigraph.engine.write.base_rows import Type
from omnigraph.errors import LoadRejected, UsageError
from omnigraph.pipeline.sources.delimited import (
    CountQuotes,
    Header,
    read_header,
    resolve_quotes,
)
from omnigraph.pipeline.sources.lake import LakeListing
from omnigraph.pipeline.sources.lake_rows import list_lake
from omnigraph.pipeline.sources.mappings import ColumnMapping, Fitting, find_table_type, fit_columns
from omnigraph.pipeline.sources.parquet import Footer, cut_row_groups, read_footer
from omnigraph.pipeline.sources.splits import (
    CODECS,
    INFLATION,
    PARTITIONS_MAX,
    SPLIT_BYTES,
    Cells,
    Split,
    codec_of,
    cut_bytes,
    cut_lake,
    cut_records,
    spool,
)
from omnigraph.pipeline.tasks import RunTasks
from omnigraph.storage.inputs import InputFile, find_inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SUFFIXES: Final[Mapping[str, Format]] = {
    ".parquet": Format.PARQUET,
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
}

FILE: Final = "__file"
LINE: Final = "__line"
"""Columns of a frame that was made of files: the number of the file and of the line, from 0."""

QuoteCounter = Callable[[Sequence[Split]], Sequence[int]]
"""Counts the quotes of every split."""


def quote_counter(run: RunTasks, options: Mapping[str, str]) -> QuoteCounter:
    """Count quotes by one task for each split."""

    def count(splits: Sequence[Split]) -> Sequence[int]:
        answers = run(CountQuotes(tuple(splits), options), len(splits), "looking for quotes")
        return [int(each["quotes"]) for each in answers]

    return count


@dataclass(frozen=True, slots=True)
class Table:
    """One file, frame or lake table of rows, and its column mapping."""

    source: Input
    shown: str
    schema: pa.Schema
    fitting: Fitting
    file: InputFile | None = None
    footer: Footer | None = None
    lake: LakeListing | None = None
    header_bytes: int = 0
    """Where the rows of a CSV begin."""


@dataclass(frozen=True, slots=True)
class RecordFile:
    source: Input
    file: InputFile


Item = Table | RecordFile


@dataclass(frozen=True, slots=True)
class FrameInput:
    """One data frame of a load; its splits are numbered from `first`."""

    first: int
    data: "DataFrame"
    mapping: ColumnMapping
    shown: str
    files: tuple[str, ...] = ()
    """The names, for messages, of the files that the rows come from, if the rows say so."""


def is_frame(data: object) -> "TypeGuard[DataFrame]":
    """Is it a data frame of Spark? Without pyspark in the process there cannot be one."""
    pyspark = sys.modules.get("pyspark.sql")
    return pyspark is not None and isinstance(data, pyspark.DataFrame)


@dataclass(slots=True)
class InputPlan:
    splits: list[Split] = field(default_factory=list)
    frames: list[FrameInput] = field(default_factory=list)
    size_bytes: int = 0
    """Of the files, uncompressed; an estimate."""
    next_number: int = 0

    def add(self, splits: Sequence[Split], size_bytes: int) -> None:
        self.splits += splits
        self.next_number += len(splits)
        self.size_bytes += size_bytes

    def is_small(self, small_bytes: int) -> bool:
        """The size of a frame is unknown, so a frame is never small."""
        return not self.frames and self.size_bytes < small_bytes


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class InputSurvey:
    """Finds the files of inputs, and reads headers and footers."""

    catalog: Catalog
    options: Mapping[str, str] = field(repr=False)
    scratch: Path | None = None
    """The folder that standard input is copied to."""

    def look(self, sources: Sequence[Input]) -> list[Item]:
        """All files and frames, in the order of the input. Raises UsageError, FileUnreadable."""
        if not sources:
            raise UsageError("there is nothing to load: name a file")
        return [item for source in sources for item in self._look_at(source)]

    def _look_at(self, source: Input) -> list[Item]:
        if is_frame(source.data):
            return [self._frame(source, source.data)]
        if isinstance(source.data, LakeListing):
            return [self._lake(source, source.data)]
        if isinstance(source.data, InputFile):
            return [self._file(source, source.data)]
        if not isinstance(source.data, str | Path):
            raise UsageError(f"a {type(source.data).__name__} cannot be loaded")
        if str(source.data) == STDIN:
            if source.format not in (None, Format.RECORDS):
                raise UsageError("standard input is JSON lines; write a table to a file first")
            return [] if self.scratch is None else [RecordFile(source, spool(self.scratch))]
        if source.format in LAKES:
            listing = list_lake(source.format, str(source.data), source.options, self.options)
            return [self._lake(source, listing)]
        files = find_inputs(str(source.data), self.options)
        return [self._file(source, each) for each in files]

    def _file(self, source: Input, file: InputFile) -> Item:
        match source.format or format_of(file.path):
            case Format.RECORDS:
                return RecordFile(source, file)
            case Format.PARQUET:
                type_ = self._type(source, file.shown)
                footer = read_footer(file, self.options)
                fitting = self._fit(type_, source, footer.schema, file.shown, are_texts=False)
                return Table(source, file.shown, footer.schema, fitting, file, footer)
            case Format.CSV:
                type_ = self._type(source, file.shown)
                header = self._header(source, file)
                names = name_columns(header, source)
                schema = pa.schema([pa.field(name, pa.string()) for name in names])
                fitting = self._fit(type_, source, schema, file.shown, are_texts=True)
                first = header.size_bytes
                return Table(source, file.shown, schema, fitting, file, header_bytes=first)
            case Format.DELTA | Format.ICEBERG:
                raise AssertionError("a lake table is not a file")

    def _header(self, source: Input, file: InputFile) -> Header:
        return read_header(
            file.path,
            file.shown,
            self.options,
            delimiter_of(source, file.path),
            is_named=source.header is None,
            skip=source.skip,
            is_quoted=source.is_quoted,
        )

    def _fit(
        self, type_: Type, source: Input, schema: pa.Schema, shown: str, *, are_texts: bool
    ) -> Fitting:
        return fit_columns(self.catalog, type_, source, schema, shown=shown, are_texts=are_texts)

    def _type(self, source: Input, shown: str) -> Type:
        if not source.is_table:
            raise UsageError(f"{shown} is a table: say which type of nodes or edges it feeds")
        return find_table_type(self.catalog, source)

    def _lake(self, source: Input, listing: LakeListing) -> Table:
        type_ = self._type(source, listing.shown)
        fitting = self._fit(type_, source, listing.schema, listing.shown, are_texts=False)
        return Table(source, listing.shown, listing.schema, fitting, lake=listing)

    def _frame(self, source: Input, frame: "DataFrame") -> Table:
        from omnigraph.pipeline.stage.frames import frame_schema  # noqa: PLC0415 - imports pyspark

        if not source.is_table:
            raise UsageError("a data frame is a table: say which type of nodes or edges it feeds")
        shown = source.name or "<data frame>"
        schema = frame_schema(frame.schema)
        if source.files:
            schema = pa.schema([each for each in schema if each.name not in (FILE, LINE)])
        type_ = find_table_type(self.catalog, source)
        fitting = self._fit(type_, source, schema, shown, are_texts=source.are_texts)
        return Table(source, shown, schema, fitting)


def format_of(path: str) -> Format:
    """By the ending of the name; JSON lines if it has no known ending."""
    suffixes = [each for each in Path(path).suffixes if each not in CODECS]
    return _SUFFIXES.get(suffixes[-1].lower(), Format.RECORDS) if suffixes else Format.RECORDS


def name_columns(header: Header, source: Input) -> list[str]:
    """The columns of a CSV. One that is mapped by its position is called by it."""
    count = len(header.cells)
    if source.header is None:
        names = list(header.cells)
    elif source.header:
        names = list(source.header)
    else:
        return [str(number + 1) for number in range(count)]
    for column in source.mapping.values():
        if column.isdecimal() and column not in names and 1 <= int(column) <= len(names):
            names[int(column) - 1] = str(int(column))
    return names


def delimiter_of(source: Input, path: str) -> str:
    """Raises UsageError."""
    given = source.delimiter
    if given is None:
        return "\t" if ".tsv" in Path(path).suffixes else ","
    if len(given) != 1 or not given.isascii() or given in '"\r\n':
        raise UsageError(f"a delimiter is one ASCII character, not a quote or a newline: {given!r}")
    return given


def check_tables(items: Sequence[Item], errors_max: int) -> None:
    """Raises LoadRejected with the faults of tables as a whole."""
    faults: list[Fault] = [
        fault for item in items if isinstance(item, Table) for fault in item.fitting.faults
    ]
    if faults:
        raise LoadRejected(faults[:errors_max], count=len(faults))


# ── cutting ──────────────────────────────────────────────────────────────────────────────────────


def cut(
    items: Sequence[Item], count_quotes: QuoteCounter, split_bytes: int = SPLIT_BYTES
) -> InputPlan:
    """Raises UsageError."""
    plan = InputPlan()
    for item in items:
        if isinstance(item, RecordFile):
            splits = cut_records(item.file, plan.next_number, split_bytes)
            plan.add(splits, _text_bytes(item.file))
        elif item.lake is not None:
            lake = cut_lake(item.lake, item.fitting.mapping, plan.next_number)
            plan.add(lake, item.lake.size_bytes * INFLATION)
        elif item.file is None:
            assert is_frame(item.source.data)
            mapping = item.fitting.mapping
            plan.frames.append(
                FrameInput(
                    plan.next_number, item.source.data, mapping, item.shown, item.source.files
                )
            )
            plan.next_number += PARTITIONS_MAX
        elif item.footer is not None:
            mapping = item.fitting.mapping
            groups = cut_row_groups(item.file, item.footer, mapping, plan.next_number, split_bytes)
            plan.add(*groups)
        else:
            splits = _cut_cells(item, item.file, plan.next_number, count_quotes, split_bytes)
            plan.add(splits, _text_bytes(item.file))
    return plan


def measure(items: Sequence[Item]) -> int | None:
    """About how many bytes the input has, uncompressed; None if there is a data frame."""
    sizes = [_measure(item) for item in items]
    return sum(each for each in sizes if each is not None) if None not in sizes else None


def _measure(item: Item) -> int | None:
    if isinstance(item, Table) and item.lake is not None:
        return item.lake.size_bytes * INFLATION
    if isinstance(item, Table) and item.footer is not None:
        return sum(size for group in item.footer.sizes for size in group.values())
    return None if item.file is None else _text_bytes(item.file)


def _text_bytes(file: InputFile) -> int:
    return file.size_bytes * (INFLATION if codec_of(file.path) is not None else 1)


def _cut_cells(
    item: Table, file: InputFile, first: int, count_quotes: QuoteCounter, split_bytes: int
) -> list[Split]:
    content = cells_of(item, file, item.fitting.mapping)
    if codec_of(file.path) is not None:
        return [Split(first, file.path, file.shown, 0, None, content)]
    pieces = [
        Split(first + number, file.path, file.shown, start, end, content)
        for number, (start, end) in enumerate(cut_bytes(file.size_bytes, split_bytes))
    ]
    is_counted = content.is_quoted and len(pieces) > 1
    return resolve_quotes(pieces, count_quotes(pieces)) if is_counted else pieces


def cells_of(item: Table, file: InputFile, mapping: ColumnMapping) -> Cells:
    """How the cells of a CSV are read."""
    delimiter = delimiter_of(item.source, file.path)
    return Cells(
        mapping,
        tuple(item.schema.names),
        delimiter,
        item.source.null,
        item.header_bytes,
        is_quoted=item.source.is_quoted,
    )
