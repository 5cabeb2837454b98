"""What a branch shows, asked as writers ask: by predicate, by id, by unique value, by source.

Every table is opened once and only when it is asked something; one that has no rows is not opened
at all. Filters follow the delta: they name the ids and values of the rows being written, so that an
index serves them and the size of the table does not matter.

1. A filter may return too much (`filters`), so each answer here is narrowed down exactly.
2. Every table that was asked is remembered: what was read to decide is part of what was decided.
"""

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from omnigraph.catalog.keys import key_text
from omnigraph.catalog.model import EdgeType, NodeType, Unique
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.compiler.ir import STRING, Comparator, Predicate, Scalarish
from omnigraph.engine.tables import filters
from omnigraph.engine.tables.cells import EXTERNAL_BLOB, Blob, Cell, Row
from omnigraph.engine.tables.columns import column_type, read_cells, schema_of
from omnigraph.errors import KeyInvalid, TableUnknown
from omnigraph.ids import TableKey, Version
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_ID,
    BlobMode,
    Handle,
    ScanRequest,
    Tables,
)

Type = NodeType | EdgeType

_COMPARE: Final[Mapping[Comparator, Callable[[Any, Any], bool]]] = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class RowRef:
    """Where a committed row is, in the version that is being changed."""

    row_id: int
    row_address: int


@dataclass(frozen=True, slots=True)
class FoundRows:
    """A committed row: its place, and the columns that were asked for."""

    ref: RowRef
    row: Row

    @property
    def id(self) -> str:
        return text_of(self.row, "id")


def text_of(row: Row, column: str) -> str:
    """A cell of a column that always holds text: an id or an end."""
    cell = row[column]
    assert isinstance(cell, str), f"{column} is {cell!r}"
    return cell


def satisfies(cell: Cell, comparator: Comparator, value: Scalarish) -> bool:
    """By value, exactly, across number types; null on either side is not a match."""
    return cell is not None and value is not None and _COMPARE[comparator](cell, value)


def uniques_of(type_: Type) -> tuple[tuple[str, ...], ...]:
    """The column sets whose values no two rows may share, in the order of the schema.

    The key is not among them: rows with one key have one id, and are one row.
    """
    return tuple(each.columns for each in type_.constraints if isinstance(each, Unique))


class Committed:
    """The tables of one branch at one version of its manifest."""

    def __init__(
        self, tables: Tables, manifest: Manifest, open_pin: Callable[[Pin], Handle]
    ) -> None:
        self._tables = tables
        self._manifest = manifest
        self._open_pin = open_pin
        self._handles: dict[TableKey, Handle] = {}
        self._asked: dict[TableKey, Version] = {}

    @property
    def asked(self) -> Mapping[TableKey, Version]:
        """(2) The tables that were looked at, and the versions they were at."""
        return self._asked

    def version_of(self, type_: Type) -> Version:
        return self._pin(type_).version

    # questions

    def find_matches(
        self, type_: Type, where: Predicate, value: Scalarish, columns: Collection[str]
    ) -> list[FoundRows]:
        """The rows for which a predicate is true."""
        wanted = (*columns, where.column)
        if (identity := _identity_for(type_, where, value)) is not None:
            found = self.find_by_id(type_, [identity], wanted)
        else:
            rows = filters.compare(where.column, where.type, where.comparator, value)
            found = [] if rows is None else self._find(type_, [rows], wanted)
        return [
            each for each in found if satisfies(each.row[where.column], where.comparator, value)
        ]

    def find_by_id(
        self, type_: Type, ids: Collection[str], columns: Collection[str]
    ) -> list[FoundRows]:
        parts = _split(ids, lambda some: _among("id", some))
        return self._find(type_, parts, columns, {"id": ids})

    def find_ids(self, node: NodeType, ids: Collection[str]) -> set[str]:
        """Those of the ids that exist."""
        return {each.id for each in self.find_by_id(node, ids, ())}

    def find_rivals(
        self, type_: Type, rows: Collection[Row], unlocated: Collection[str]
    ) -> list[FoundRows]:
        """Rows that have one of these ids, or share a unique column's value with one of the rows.

        One pass answers both, because either alone would read the same pages. The rows that come
        back hold the unique columns; of an edge, its source too.
        """
        uniques = uniques_of(type_)
        columns = dict.fromkeys(name for group in uniques for name in group)
        if isinstance(type_, EdgeType):
            columns["src"] = None
        pending = set(unlocated)

        def filter_for(some: Sequence[Row]) -> str:
            ids = [text_of(row, "id") for row in some if row["id"] in pending]
            parts = [*(_agreeing(type_, group, some) for group in uniques), _among("id", ids)]
            return " OR ".join(each for each in parts if each != filters.NOTHING) or filters.NOTHING

        if not uniques:
            return self.find_by_id(type_, pending, columns)
        among = _texts_of(uniques, rows, pending)
        found = self._find(type_, _split(rows, filter_for), tuple(columns), among)
        return list({each.id: each for each in found}.values())

    def find_at(
        self, edge: EdgeType, *, sources: Collection[str], targets: Collection[str]
    ) -> list[FoundRows]:
        """The edges that leave one of the sources or arrive at one of the targets."""
        parts = [
            *_split(sources, lambda some: _among("src", some)),
            *_split(targets, lambda some: _among("dst", some)),
        ]
        # Short lists share a pass; an edge that both find is still one edge.
        if len(sources) + len(targets) <= filters.VALUES_MAX and len(parts) > 1:
            parts = [" OR ".join(parts)]
        found = self._find(edge, parts, ("src",), {"src": sources, "dst": targets})
        return list({each.id: each for each in found}.values())

    # reading

    def _pin(self, type_: Type) -> Pin:
        pin = self._manifest.pins.get(type_.table_key)
        if pin is None:
            raise TableUnknown(type_.table_key)
        return pin

    def _open(self, type_: Type) -> Handle | None:
        """The table, unless it has nothing to show."""
        pin = self._pin(type_)
        self._asked[pin.key] = pin.version
        if not pin.row_count:
            return None
        if pin.key not in self._handles:
            self._handles[pin.key] = self._open_pin(pin)
        return self._handles[pin.key]

    def _find(
        self,
        type_: Type,
        parts: Sequence[str],
        columns: Collection[str],
        among: Mapping[str, Collection[str]] | None = None,
    ) -> list[FoundRows]:
        """Rows that some part finds; `among` holds a text of each of them (`ScanRequest`)."""
        handle = self._open(type_) if parts else None
        if handle is None:
            return []
        found: list[FoundRows] = []
        names = tuple(dict.fromkeys(("id", *columns)))
        blobs = {each for each in names if column_type(type_, each).is_blob}
        for part in parts:
            request = ScanRequest(
                columns=names, where=part, among=among, with_row_id=True, with_row_address=True
            )
            found += _read_rows(type_, self._tables.read(handle, request), names, blobs)
        if blobs:
            return self._with_bytes(handle, found, blobs)
        return found

    def _with_bytes(
        self, handle: Handle, found: Sequence[FoundRows], names: Collection[str]
    ) -> list[FoundRows]:
        """Fetch what the blobs hold, except of those that are kept elsewhere."""
        rows: dict[str, dict[str, Cell]] = {each.id: dict(each.row) for each in found}
        for name in sorted(names):
            ids = [key for key, row in rows.items() if row[name] == _UNREAD]
            for part in _split(ids, lambda some: _among("id", some)):
                request = ScanRequest(columns=("id", name), where=part, blobs=BlobMode.BYTES)
                held = self._tables.read(handle, request)
                for key, data in zip(held["id"].to_pylist(), held[name].to_pylist(), strict=True):
                    rows[str(key)][name] = Blob(data=data)
        return [FoundRows(each.ref, rows[each.id]) for each in found]


def all_columns(type_: Type) -> tuple[str, ...]:
    return tuple(schema_of(type_).names)


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────

_UNREAD: Final = Blob()
"""Stands for bytes that are there and have not been fetched."""


def _read_rows(
    type_: Type, held: pa.Table, names: Sequence[str], blobs: Collection[str]
) -> Iterator[FoundRows]:
    cells = [
        [_blob_of(each) for each in held[name].to_pylist()]
        if name in blobs
        else read_cells(held[name], column_type(type_, name))
        for name in names
    ]
    refs = zip(held[ROW_ID].to_pylist(), held[ROW_ADDRESS].to_pylist(), strict=True)
    for (row_id, row_address), *row in zip(refs, *cells, strict=True):
        yield FoundRows(RowRef(row_id, row_address), dict(zip(names, row, strict=True)))


def _blob_of(description: Mapping[str, Any] | None) -> Cell:
    if description is None:
        return None
    if description["kind"] == EXTERNAL_BLOB:
        return Blob(uri=description["blob_uri"])
    return _UNREAD


def _texts_of(
    uniques: Sequence[tuple[str, ...]], rows: Collection[Row], ids: Collection[str]
) -> Mapping[str, Collection[str]] | None:
    """A text of every row that could be a rival; None if some could be one without."""
    texts: dict[str, Collection[str]] = {"id": ids}
    for group in uniques:
        whole = [row for row in rows if all(row[name] is not None for name in group)]
        for name in group:
            cells = [cell for row in whole if isinstance(cell := row[name], str)]
            if len(cells) == len(whole):
                texts[name] = cells
                break
        else:
            return None
    return texts


def _identity_for(type_: Type, where: Predicate, value: Scalarish) -> str | None:
    """The one id that can match, when a key is compared; the id is indexed, and the key is not."""
    is_key = isinstance(type_, NodeType) and type_.key == (where.column,)
    if not is_key or where.comparator is not Comparator.EQ or value is None:
        return None
    try:
        return key_text(value, where.type)
    except KeyInvalid:
        return None  # such as 2.0 for an integer key: equal to one, but spelled otherwise


def _among(column: str, values: Collection[str]) -> str:
    return filters.one_of(column, STRING, values)


def _agreeing(type_: Type, group: tuple[str, ...], rows: Sequence[Row]) -> str:
    """Rows that agree with some of these in every column of the group, each taken by itself."""
    whole = [row for row in rows if all(row[name] is not None for name in group)]
    if not whole:
        return filters.NOTHING
    parts = []
    for name in group:
        cells = [row[name] for row in whole]
        values = [each for each in cells if not isinstance(each, tuple | Blob)]
        parts.append(filters.one_of(name, column_type(type_, name), values))
    return f"({' AND '.join(parts)})"


def _split(items: Collection[Any], filter_for: Callable[[Sequence[Any]], str]) -> list[str]:
    """Filters for the items, so many at a time; none for none."""
    listed = list(items)
    starts = range(0, len(listed), filters.VALUES_MAX)
    made = (filter_for(listed[at : at + filters.VALUES_MAX]) for at in starts)
    return [each for each in made if each != filters.NOTHING]
