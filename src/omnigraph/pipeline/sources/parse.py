"""A block of lines → the rows of each type, as Arrow tables, and the faults of the lines.

Lines are grouped by type (`envelopes`), because Arrow reads one schema at a time and a name may
mean different things in different types. The lines of one type are read together (`columns`). If
that reader is not sure, they are read one by one (`records`), which reports exact faults.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.effects import REAL
from omnigraph.engine.load.bulk import Fault
from omnigraph.engine.tables.cells import Row
from omnigraph.engine.tables.columns import build_table
from omnigraph.engine.write.base_rows import Type
from omnigraph.ids import TableKey
from omnigraph.pipeline.sources.columns import read_columns, read_pairs
from omnigraph.pipeline.sources.envelopes import Group, Lines, Numbers
from omnigraph.pipeline.sources.records import Record, Rejected, read_record


@dataclass(slots=True)
class Parsed:
    """The rows and faults of a block. Lines count from 0."""

    tables: list[tuple[Type, pa.Table, Numbers]] = field(default_factory=list)
    """Rows of one type, and the line of each."""
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    given_ids: dict[TableKey, int] = field(default_factory=dict)
    """By table, how many records state their id or key."""

    def add(self, type_: Type, rows: pa.Table, lines: Numbers, given_ids: int) -> None:
        self.tables.append((type_, rows, lines))
        self.given_ids[type_.table_key] = self.given_ids.get(type_.table_key, 0) + given_ids

    def move_lines(self, by: int) -> None:
        """Count from an earlier line."""
        self.tables = [(type_, rows, lines + by) for type_, rows, lines in self.tables]
        self.faults = [(line + by, fault) for line, fault in self.faults]

    def place_lines(self, places: Numbers) -> None:
        """Replace the number of each line by its place."""
        self.tables = [(type_, rows, places[lines]) for type_, rows, lines in self.tables]
        self.faults = [(int(places[line]), fault) for line, fault in self.faults]


def parse_block(catalog: Catalog, block: bytes) -> Parsed:
    lines = Lines(block)
    groups, odd = lines.sort()
    parsed = Parsed()
    for group in groups:
        if not _read_together(catalog, group, parsed):
            read_one_by_one(catalog, lines.pick(group.numbers), parsed)
    read_one_by_one(catalog, lines.pick(odd), parsed)
    parsed.faults.sort(key=lambda each: each[0])
    parsed.tables = _in_order(parsed.tables)
    return parsed


def _in_order(tables: list[tuple[Type, pa.Table, Numbers]]) -> list[tuple[Type, pa.Table, Numbers]]:
    """One table for each type, its rows in the order of their lines.

    Lines of one type may have been read in several groups, if they begin in different ways. Of
    rows with one id the last may be the one that counts, so their order matters.
    """
    by_type: dict[TableKey, list[tuple[Type, pa.Table, Numbers]]] = {}
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


def _read_together(catalog: Catalog, group: Group, parsed: Parsed) -> bool:
    try:
        name = group.name.decode()
    except UnicodeDecodeError:
        return False
    type_: Type | None = catalog.node(name) if group.kind == b"type" else catalog.edge_named(name)
    if type_ is None:
        return _read_pairs_together(catalog, group, name, parsed)
    read = read_columns(type_, name, group.text, len(group.numbers))
    if read is None:
        return False
    rows, given_ids = read
    parsed.add(type_, rows, group.numbers, given_ids)
    return True


def _read_pairs_together(catalog: Catalog, group: Group, name: str, parsed: Parsed) -> bool:
    pairs = catalog.edges_named(name) if group.kind == b"edge" else ()
    read = read_pairs(pairs, name, group.text, len(group.numbers)) if pairs else None
    for pair, own, rows, given_ids in read or ():
        parsed.add(pair, rows, group.numbers[own], given_ids)
    return read is not None


def read_one_by_one(catalog: Catalog, lines: Iterable[tuple[int, bytes]], parsed: Parsed) -> None:
    """Read numbered lines with the row reader."""
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
