"""The committed rows of a branch, as writers look them up: by predicate, id, unique value, source.

Each table is opened once, on its first look-up; an empty table is never opened. Filters name the
ids and values of the rows being written, so an index serves them whatever the size of the table.

1. A filter may return too many rows (`filters`), so each answer is filtered again exactly.
2. Every table that was read is recorded with its version, because the write depends on it.
"""

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from omnigraph.catalog.keys import key_text
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.compiler.ir import STRING, Comparator, Predicate, Scalarish
from omnigraph.engine.tables import filters
from omnigraph.engine.tables.cells import EXTERNAL_BLOB, Blob, Cell, Row
from omnigraph.engine.tables.columns import column_type, read_cells
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
    """The place of a committed row, in the table version that is being changed."""

    row_id: int
    row_address: int


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A committed row: its place, and the requested columns."""

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
    """Compare exactly by value, across number types; null never matches."""
    return cell is not None and value is not None and _COMPARE[comparator](cell, value)


def uniques_of(type_: Type) -> tuple[tuple[str, ...], ...]:
    """The column sets whose values no two rows may share, in schema order.

    The key is not among them: rows with equal keys have the same id, and are one row.
    """
    return type_.uniques


class BaseRows:
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
        """(2) The tables that were read, and their versions."""
        return self._asked

    def version_of(self, type_: Type) -> Version:
        return self._pin(type_).version

    # look-ups

    def find_matches(
        self, type_: Type, where: Predicate, value: Scalarish, columns: Collection[str]
    ) -> list[FoundRow]:
        """The rows for which a predicate is true."""
        wanted = (*columns, where.column)
        if (identity := identity_for(type_, where, value)) is not None:
            found = self.find_by_id(type_, [identity], wanted)
        else:
            rows = filters.compare(where.column, where.type, where.comparator, value)
            found = [] if rows is None else self._find(type_, [rows], wanted)
        return [
            each for each in found if satisfies(each.row[where.column], where.comparator, value)
        ]

    def find_by_id(
        self, type_: Type, ids: Collection[str], columns: Collection[str]
    ) -> list[FoundRow]:
        parts = _split(ids, lambda some: _among("id", some))
        return self._find(type_, parts, columns, {"id": ids})

    def find_ids(self, node: NodeType, ids: Collection[str]) -> set[str]:
        """The ids that exist."""
        return {each.id for each in self.find_by_id(node, ids, ())}

    def find_rivals(
        self, type_: Type, rows: Collection[Row], unlocated: Collection[str]
    ) -> list[FoundRow]:
        """Rows that have one of these ids, or share a unique value with one of the rows.

        One scan answers both, because each alone would read the same pages. The result has the
        unique columns; for an edge also its source.
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
        self,
        edge: EdgeType,
        *,
        sources: Collection[str],
        targets: Collection[str],
        columns: tuple[str, ...] = ("src",),
    ) -> list[FoundRow]:
        """The edges that leave one of the sources or arrive at one of the targets."""
        parts = [
            *_split(sources, lambda some: _among("src", some)),
            *_split(targets, lambda some: _among("dst", some)),
        ]
        # Short lists share a scan; an edge that both filters find is one edge.
        if len(sources) + len(targets) <= filters.VALUES_MAX and len(parts) > 1:
            parts = [" OR ".join(parts)]
        found = self._find(edge, parts, columns, {"src": sources, "dst": targets})
        return list({each.id: each for each in found}.values())

    def read_ends(self, edge: EdgeType, column: str) -> Iterator[tuple[str, str]]:
        """The id of every edge, and its end in one column."""
        handle = self._open(edge)
        if handle is None:
            return
        with self._tables.scan(handle, ScanRequest(columns=("id", column))) as batches:
            for batch in batches:
                yield from zip(batch["id"].to_pylist(), batch[column].to_pylist(), strict=True)

    # reading

    def _pin(self, type_: Type) -> Pin:
        pin = self._manifest.pins.get(type_.table_key)
        if pin is None:
            raise TableUnknown(type_.table_key)
        return pin

    def _open(self, type_: Type) -> Handle | None:
        """The table; None if it has no rows."""
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
    ) -> list[FoundRow]:
        """Rows that some filter finds; `among` is passed to the scan (`ScanRequest`)."""
        handle = self._open(type_) if parts else None
        if handle is None:
            return []
        found: list[FoundRow] = []
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
        self, handle: Handle, found: Sequence[FoundRow], names: Collection[str]
    ) -> list[FoundRow]:
        """Read the bytes of blobs, except of external blobs."""
        rows: dict[str, dict[str, Cell]] = {each.id: dict(each.row) for each in found}
        for name in sorted(names):
            ids = [key for key, row in rows.items() if row[name] == _UNREAD]
            for part in _split(ids, lambda some: _among("id", some)):
                request = ScanRequest(columns=("id", name), where=part, blobs=BlobMode.BYTES)
                held = self._tables.read(handle, request)
                for key, data in zip(held["id"].to_pylist(), held[name].to_pylist(), strict=True):
                    rows[str(key)][name] = Blob(data=data)
        return [FoundRow(each.ref, rows[each.id]) for each in found]


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────

_UNREAD: Final = Blob()
"""Stands for the bytes of a blob that were not read yet."""


def _read_rows(
    type_: Type, held: pa.Table, names: Sequence[str], blobs: Collection[str]
) -> Iterator[FoundRow]:
    cells = [
        [_blob_of(each) for each in held[name].to_pylist()]
        if name in blobs
        else read_cells(held[name], column_type(type_, name))
        for name in names
    ]
    refs = zip(held[ROW_ID].to_pylist(), held[ROW_ADDRESS].to_pylist(), strict=True)
    for (row_id, row_address), *row in zip(refs, *cells, strict=True):
        yield FoundRow(RowRef(row_id, row_address), dict(zip(names, row, strict=True)))


def _blob_of(description: Mapping[str, Any] | None) -> Cell:
    if description is None:
        return None
    if description["kind"] == EXTERNAL_BLOB:
        return Blob(uri=description["blob_uri"])
    return _UNREAD


def _texts_of(
    uniques: Sequence[tuple[str, ...]], rows: Collection[Row], ids: Collection[str]
) -> Mapping[str, Collection[str]] | None:
    """For each unique group, texts that every rival holds; None if a group has no text."""
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


def identity_for(type_: Type, where: Predicate, value: Scalarish) -> str | None:
    """The only id that can match a comparison of a key; the id is indexed, the key is not."""
    is_key = isinstance(type_, NodeType) and type_.key == (where.column,)
    if not is_key or where.comparator is not Comparator.EQ or value is None:
        return None
    try:
        return key_text(value, where.type)
    except KeyInvalid:
        return None  # such as 2.0 for an integer key: equal to 2, but with another id


def _among(column: str, values: Collection[str]) -> str:
    return filters.one_of(column, STRING, values)


def _agreeing(type_: Type, group: tuple[str, ...], rows: Sequence[Row]) -> str:
    """A filter for rows that hold, in each column of the group, a value of one of the rows."""
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
    """Filters for the items, `filters.VALUES_MAX` items each; no filter for no items."""
    listed = list(items)
    starts = range(0, len(listed), filters.VALUES_MAX)
    made = (filter_for(listed[at : at + filters.VALUES_MAX]) for at in starts)
    return [each for each in made if each != filters.NOTHING]
