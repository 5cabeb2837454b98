"""An export: the rows a snapshot shows, as files a load would read.

    snapshot → tables that are wanted, by key → pieces → lines in order, or Parquet files

1. One snapshot serves the whole export, so writers never disturb it and it never waits for them.
2. Lines come in the order of table keys, then of ids. Tables may be larger than memory: rows are
   sorted in runs (`runs`), and what is held at a time does not grow with the table.
3. Parquet keeps the order of the tables: it is for other programs, and they sort as they like.
4. The bulk of the work is writing runs or parts. `Here` does it in this process; for large graphs
   the pipeline does the same on Spark. The bytes that come out are the same.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from omnigraph.catalog.model import family_of
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.effects import REAL
from omnigraph.engine.load.parquet_parts import ParquetPart, write_part
from omnigraph.engine.load.sorted_runs import (
    RUN_BYTES,
    Line,
    SortPiece,
    merge_runs,
    read_sorted,
    write_run,
)
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.ids import BranchName, TableKey, lance_branch, split_table_key
from omnigraph.storage.tables import TableRef, Tables

CHUNK_LINES: Final = 1_000
PIECE_ROWS: Final = 500_000
"""What one task exports, and what one Parquet file holds at least, if there is so much."""


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tables; all of them if none is named."""

    types: tuple[str, ...] = ()
    """By the name of their types. A node and an edge of one name are both meant."""
    tables: tuple[str, ...] = ()
    """By their keys."""


EVERY_TABLE: Final = Selection()


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote."""

    branch: BranchName
    commit: Commit | None
    """The commit it shows."""
    format: ExportFormat
    output: str
    counts: Mapping[TableKey, int]
    """How many rows of each table."""


def select_pins(snapshot: ManifestSnapshot, selection: Selection) -> tuple[Pin, ...]:
    """The tables that are wanted, in the order of an export. Raises TypeUnknown, TableUnknown."""
    names = {key: split_table_key(key)[1] for key in snapshot.pins}
    known = {each for name in names.values() for each in (name, family_of(name))}
    for name in selection.types:
        if name not in known:
            raise TypeUnknown(name)
    wanted = {snapshot.pin(TableKey(key)).key for key in selection.tables}
    chosen = frozenset(selection.types)
    wanted |= {key for key, name in names.items() if chosen & {name, family_of(name)}}
    keys = sorted(wanted if selection != EVERY_TABLE else snapshot.pins)
    return tuple(snapshot.pins[key] for key in keys)


def cut_pieces(tables: Tables, pin: Pin, *, rows: int) -> list[SortPiece]:
    """The fragments of a table, in order, some at a time; one piece without any if it has none."""
    ref = TableRef(pin.path, lance_branch(pin.owner))
    pieces: list[SortPiece] = []
    some: list[int] = []
    row_count = 0
    for fragment in tables.inspect(tables.open_at(ref, pin.version)).fragments:
        some.append(fragment.fragment_id)
        row_count += fragment.row_count
        if row_count >= rows:
            pieces.append(SortPiece(pin.key, ref, pin.version, tuple(some)))
            some, row_count = [], 0
    if some or not pieces:
        pieces.append(SortPiece(pin.key, ref, pin.version, tuple(some)))
    return pieces


class Exporter(Protocol):
    """(4) Does the bulk of the work."""

    def lines(
        self, pieces: Sequence[SortPiece]
    ) -> AbstractContextManager[Iterator[Iterable[Line]]]:
        """For each table of these pieces, in their order, its lines in theirs."""
        ...

    def write_parts(self, parts: Sequence[ParquetPart]) -> None: ...


@dataclass(frozen=True, slots=True)
class Here:
    """`Exporter` in this process."""

    tables: Tables
    run_bytes: int = RUN_BYTES

    @contextmanager
    def lines(self, pieces: Sequence[SortPiece]) -> Iterator[Iterator[Iterable[Line]]]:
        with tempfile.TemporaryDirectory(prefix="omnigraph-export-") as folder:
            yield (
                self._sort(some, Path(folder) / str(number))
                for number, some in enumerate(by_table(pieces))
            )

    def write_parts(self, parts: Sequence[ParquetPart]) -> None:
        for part in parts:
            write_part(self.tables, part)

    def _sort(self, pieces: Sequence[SortPiece], folder: Path) -> Iterator[Line]:
        runs = (
            run
            for piece in pieces
            for run in read_sorted(self.tables, piece, run_bytes=self.run_bytes)
        )
        first, second = next(runs, None), next(runs, None)
        if first is None:
            return
        if second is None:
            yield from first  # all of it fits in memory
            return
        folder.mkdir()
        paths = [write_run(first, folder), write_run(second, folder)]
        del first, second
        paths += [write_run(run, folder) for run in runs]
        yield from merge_runs(paths, folder)
        shutil.rmtree(folder)


def by_table(pieces: Sequence[SortPiece]) -> list[list[SortPiece]]:
    """Neighbours that belong to one table, together."""
    groups: dict[TableKey, list[SortPiece]] = {}
    for piece in pieces:
        groups.setdefault(piece.key, []).append(piece)
    return list(groups.values())


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def export_lines(
    tables: Tables, pins: Sequence[Pin], exporter: Exporter, *, piece_rows: int = PIECE_ROWS
) -> Iterator[bytes]:
    """(2) All records, some whole lines at a time. Raises NotExportable."""
    pieces = [piece for pin in pins for piece in cut_pieces(tables, pin, rows=piece_rows)]
    with exporter.lines(pieces) as sorted_tables:
        for lines in sorted_tables:
            some: list[str] = []
            for _, line in lines:
                some.append(line)
                if len(some) == CHUNK_LINES:
                    yield _join(some)
                    some = []
            if some:
                yield _join(some)


def _join(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


# ── Parquet ──────────────────────────────────────────────────────────────────────────────────────


def export_parquet(
    tables: Tables,
    pins: Sequence[Pin],
    exporter: Exporter,
    output: Path,
    *,
    piece_rows: int = PIECE_ROWS,
) -> None:
    """(3) A folder for each type, all at once or not at all. Raises UsageError, NotExportable."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is there already, and not an empty folder")
    hidden = output.with_name(f".{output.name}.{REAL.new_id()}")
    try:
        exporter.write_parts(plan_parts(tables, pins, hidden, piece_rows))
        if output.exists():
            output.rmdir()
        hidden.rename(output)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def plan_parts(
    tables: Tables, pins: Sequence[Pin], output: Path, piece_rows: int
) -> list[ParquetPart]:
    parts: list[ParquetPart] = []
    for pin in pins:
        kind, name = split_table_key(pin.key)
        folder = output / f"{kind}s" / name
        folder.mkdir(parents=True)
        parts += [
            ParquetPart(piece, str(folder / f"part-{number:05}.parquet"))
            for number, piece in enumerate(cut_pieces(tables, pin, rows=piece_rows))
        ]
    return parts
