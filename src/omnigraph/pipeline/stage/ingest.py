"""The task for one split: read records, check each by itself, write rows and keys, report.

1. Rows are written in blocks of some tens of thousands, so the memory of a task follows the size of
   a block and not the size of a split or of a compressed file.
2. After the first fault of a split the load cannot commit, so the task writes no more rows; it
   reads the rest for further faults.
3. Between blocks the task checks the staging record, if its driver may have died without it.
4. Every file has a name of its own. A task that runs again writes other files, and only files that
   an answer names are ever read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, assert_never

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.effects import REAL
from omnigraph.engine.load.bulk import Fault, LoadMode, LoadTarget, Placement
from omnigraph.engine.write.base_rows import Type
from omnigraph.ids import TableKey
from omnigraph.pipeline.sources.delimited import read_cells
from omnigraph.pipeline.sources.lake_rows import read_lake_rows
from omnigraph.pipeline.sources.parquet import read_row_groups
from omnigraph.pipeline.sources.parse import Parsed, parse_block
from omnigraph.pipeline.sources.splits import (
    Cells,
    LakeRows,
    Partition,
    Records,
    RowGroups,
    Split,
    count_lines,
    ordinal_of,
    read_blocks,
)
from omnigraph.pipeline.stage.fragments import (
    JOURNAL,
    FragmentWriter,
    KeyWriter,
    LookupWriter,
    PendingWriter,
    Sink,
    Storage,
)
from omnigraph.pipeline.stage.keys import bucket_columns

_VALUE_CHARACTERS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Ingest:
    """The work of one load; task n reads split n."""

    splits: tuple[Split, ...]
    catalog: Catalog
    mode: LoadMode
    targets: Mapping[TableKey, LoadTarget]
    storage: Storage
    scratch: str
    errors_max: int
    keeps_rows: bool
    """All rows become pending files, because the in-process evaluator may read them."""
    bucket_count: int | None
    """How the keys of rows are cut for the checks; None if no keys are written."""
    looked_up: Mapping[TableKey, tuple[str, ...]] = field(default_factory=dict)
    """Properties by which other records of the load find nodes; they are kept aside with the ids.
    """
    keeps_faults: bool = False
    """All faults are written to a file, not only the first ones."""
    input_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the input is reached; part of the task, never of Spark's settings (D22)."""

    def __call__(self, number: int) -> dict[str, Any]:
        split = self.splits[number]
        return self.absorb(split.number, self._read(split))

    def _read(self, split: Split) -> Iterator[tuple[Parsed, int]]:
        """The records of a split, block by block, with the number of lines of each block."""
        match split.content:
            case Records():
                for block in read_blocks(split, self.input_options):
                    yield parse_block(self.catalog, block), count_lines(block)
            case Cells():
                yield from read_cells(split, self.input_options)
            case RowGroups():
                yield from read_row_groups(split, self.input_options)
            case LakeRows():
                yield from read_lake_rows(split, self.input_options)
            case Partition():
                raise AssertionError("Spark reads its data frames itself")
            case _:
                assert_never(split.content)

    def absorb(self, split: int, pieces: Iterable[tuple[Parsed, int]]) -> dict[str, Any]:
        """Write the records of one split, and report. Who fails deletes its fragments."""
        sinks: dict[TableKey, Sink] = {}
        try:
            return self._absorb(split, pieces, sinks)
        except Exception:
            for sink in sinks.values():
                sink.rows.discard()
            raise

    def _absorb(
        self, split: int, pieces: Iterable[tuple[Parsed, int]], sinks: dict[TableKey, Sink]
    ) -> dict[str, Any]:
        report = Report(self.errors_max, self._faults_path(split))
        for parsed, line_count in pieces:
            self.storage.check_not_abandoned()
            first = report.line_count
            report.add(parsed, line_count)
            for type_, rows, lines in parsed.tables:
                sink = sinks.get(type_.table_key)
                if sink is None:
                    sink = sinks[type_.table_key] = self._sink(type_, split)
                if not report.fault_count:
                    sink.write(
                        rows,
                        pa.array(lines + ordinal_of(split, first)),
                        with_ids=bool(parsed.given_ids[type_.table_key]),
                    )
        for key, sink in sinks.items():
            report.tables[key] = {**sink.close(), "given_ids": report.given_ids[key]}
        return report.document()

    def _faults_path(self, split: int) -> Path | None:
        name = f"faults-{split:06}-{REAL.new_id()}.jsonl"
        return Path(self.scratch) / name if self.keeps_faults else None

    def _sink(self, type_: Type, split: int) -> Sink:
        stem = f"{type_.table_key.replace(':', '-')}-{split:06}-{REAL.new_id()}"
        folder = Path(self.scratch)
        target = self.targets[type_.table_key]
        is_pending = self.keeps_rows or target.placement is Placement.PENDING
        rows: PendingWriter | FragmentWriter
        if is_pending:
            rows = PendingWriter(type_, folder / f"{stem}.arrow")
        else:
            rows = FragmentWriter(self.storage, target, self.mode, folder / f"{stem}{JOURNAL}")
        keys = None
        if self.bucket_count is not None:
            columns = bucket_columns(type_, with_partners=self.mode is LoadMode.MERGE)
            keys = KeyWriter(folder / f"{stem}.keys.parquet", columns, self.bucket_count)
        names = self.looked_up.get(type_.table_key)
        lookup = None if names is None else LookupWriter(folder / f"{stem}.lookup.arrow", names)
        return Sink(type_, rows, keys, lookup)


@dataclass
class Report:
    """The counts and faults of a split so far."""

    errors_max: int
    path: Path | None = None
    """The file of all faults, if the load keeps them."""
    line_count: int = 0
    fault_count: int = 0
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    given_ids: dict[TableKey, int] = field(default_factory=dict)
    tables: dict[TableKey, dict[str, Any]] = field(default_factory=dict)

    def add(self, parsed: Parsed, line_count: int) -> None:
        if self.path is not None and parsed.faults:
            with self.path.open("a", encoding="utf-8") as file:
                for line, each in parsed.faults:
                    file.write(f"{json.dumps(_told(self.line_count + line, each))}\n")
        room = max(0, self.errors_max - len(self.faults))
        self.faults += [(self.line_count + line, each) for line, each in parsed.faults[:room]]
        self.fault_count += len(parsed.faults)
        for key, count in parsed.given_ids.items():
            self.given_ids[key] = self.given_ids.get(key, 0) + count
        self.line_count += line_count

    def document(self) -> dict[str, Any]:
        return {
            "lines": self.line_count,
            "rows": sum(each["rows"] for each in self.tables.values()),
            "fault_count": self.fault_count,
            "faults": [_told(line, each) for line, each in self.faults],
            "all_faults": str(self.path) if self.path is not None and self.fault_count else None,
            "tables": self.tables,
        }


def _told(line: int, fault: Fault) -> list[object]:
    return [line, asdict(_brief(fault))]


def _brief(fault: Fault) -> Fault:
    """The fault with a short value: a value may be a vector or a whole document."""
    shown = repr(fault.value)
    if len(shown) > _VALUE_CHARACTERS_MAX:
        return replace(fault, value=f"{shown[:_VALUE_CHARACTERS_MAX]}…")
    try:
        json.dumps(fault.value, allow_nan=False)
    except (TypeError, ValueError):
        # Tables hold values that JSON cannot spell, such as bytes and NaN.
        return replace(fault, value=shown)
    return fault
