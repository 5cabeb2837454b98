"""A block of lines → the rows of each type, as Arrow tables, and what is wrong with the lines.

Lines are sorted by how they begin, because Arrow reads one schema at a time and a name may mean
different things in different types. Those of one type are read together (`columns`); if anything
about them is in doubt, one by one (`records`), which tells exactly what is wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.effects import REAL
from omnigraph.engine.bulk import Fault
from omnigraph.engine.columns import build_table
from omnigraph.engine.committed import Type
from omnigraph.engine.rows import Row
from omnigraph.ids import TableKey
from omnigraph.pipeline.columns import find_envelope, read_columns
from omnigraph.pipeline.records import Record, Rejected, read_record

Lines = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class Parsed:
    """What a block held. Lines count from 0."""

    tables: list[tuple[Type, pa.Table, Lines]] = field(default_factory=list)
    """Rows of one type, and the line of each."""
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    given_ids: dict[TableKey, int] = field(default_factory=dict)
    """How many rows of a table named themselves, by their key or an id."""

    def add(self, type_: Type, rows: pa.Table, lines: Lines, given_ids: int) -> None:
        self.tables.append((type_, rows, lines))
        self.given_ids[type_.table_key] = self.given_ids.get(type_.table_key, 0) + given_ids

    def move_lines(self, by: int) -> None:
        """Count from an earlier line."""
        self.tables = [(type_, rows, lines + by) for type_, rows, lines in self.tables]
        self.faults = [(line + by, fault) for line, fault in self.faults]

    def place_lines(self, places: Lines) -> None:
        """Say where each line really is."""
        self.tables = [(type_, rows, places[lines]) for type_, rows, lines in self.tables]
        self.faults = [(int(places[line]), fault) for line, fault in self.faults]


def split_lines(block: bytes) -> list[bytes]:
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def parse_block(catalog: Catalog, block: bytes) -> Parsed:
    lines = split_lines(block)
    groups: dict[tuple[bytes, bytes] | None, list[int]] = {}
    for number, line in enumerate(lines):
        groups.setdefault(find_envelope(line), []).append(number)
    parsed = Parsed()
    for envelope, numbers in groups.items():
        if envelope is None or not _read_together(catalog, envelope, lines, numbers, parsed):
            read_one_by_one(catalog, ((each, lines[each]) for each in numbers), parsed)
    parsed.faults.sort(key=lambda each: each[0])
    parsed.tables = _in_order(parsed.tables)
    return parsed


def _in_order(tables: list[tuple[Type, pa.Table, Lines]]) -> list[tuple[Type, pa.Table, Lines]]:
    """One table for each type, its rows in the order of their lines.

    Lines of one type may have been read in several groups, if they begin in different ways. Of
    rows with one id the last may be the one that counts, so their order matters.
    """
    by_type: dict[TableKey, list[tuple[Type, pa.Table, Lines]]] = {}
    for each in tables:
        by_type.setdefault(each[0].table_key, []).append(each)
    ordered = []
    for (type_, rows, lines), *others in by_type.values():
        if others:
            lines = np.concatenate([lines, *(each for _, _, each in others)])  # noqa: PLW2901
            order = np.argsort(lines)
            rows = pa.concat_tables([rows, *(each for _, each, _ in others)]).take(order)  # noqa: PLW2901
            lines = lines[order]  # noqa: PLW2901
        ordered.append((type_, rows, lines))
    return ordered


def _read_together(
    catalog: Catalog,
    envelope: tuple[bytes, bytes],
    lines: list[bytes],
    numbers: list[int],
    parsed: Parsed,
) -> bool:
    kind, spelled = envelope
    try:
        name = spelled.decode()
    except UnicodeDecodeError:
        return False
    type_: Type | None = catalog.node(name) if kind == b"type" else catalog.edge_named(name)
    if type_ is None:
        return False
    read = read_columns(type_, name, [lines[each] for each in numbers])
    if read is None:
        return False
    rows, given_ids = read
    parsed.add(type_, rows, np.array(numbers, dtype=np.int64), given_ids)
    return True


def read_one_by_one(catalog: Catalog, lines: Iterable[tuple[int, bytes]], parsed: Parsed) -> None:
    """Read numbered lines with all care."""
    rows: dict[TableKey, tuple[Type, list[Row], list[int]]] = {}
    given: dict[TableKey, int] = {}
    for number, line in lines:
        match read_record(catalog, line, REAL.new_id):
            case None:
                pass
            case Rejected(faults):
                parsed.faults += [(number, each) for each in faults]
            case Record(type_, row, is_new):
                key = type_.table_key
                _, some, numbers = rows.setdefault(key, (type_, [], []))
                some.append(row)
                numbers.append(number)
                given[key] = given.get(key, 0) + (not is_new)
    for key, (type_, some, numbers) in rows.items():
        parsed.add(type_, build_table(type_, some), np.array(numbers, dtype=np.int64), given[key])
