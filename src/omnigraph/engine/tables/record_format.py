"""Rows as the JSON lines that a load reads: the format of every export.

Text is built column by column, because one call for a thousand cells costs little more than one
call for one cell. The columns of the table decide what is written, not the schema in force, so a
past snapshot is exported with the properties it had.

1. A Date and a DateTime are ISO text, as a query prints them: `2023-02-11`,
   `2026-11-16T14:05:22.181Z`. Outside the years that a load can read, they are their numbers.
2. A float has the fewest digits that give back the same float of the same width.
3. An edge over several ends has its one name, and its ends say their types.
4. A Blob is its bytes; an external Blob is its address, and its bytes are not read.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.fitting import INLINE
from omnigraph.catalog.model import PAIR_SEPARATOR
from omnigraph.catalog.names import ID, ID_PROPERTY, SYSTEM_ID, spelling_of
from omnigraph.catalog.temporal import parse_date, parse_datetime
from omnigraph.engine.tables.cells import EXTERNAL_BLOB
from omnigraph.errors import NotExportable
from omnigraph.ids import TableKey, split_table_key
from omnigraph.storage.tables import ROW_ADDRESS

FetchBlobs = Callable[[str, Sequence[int]], list[bytes | None]]
"""Reads the blobs of a column at row addresses."""

_IMPLICIT: Final = ("id", "src", "dst", ROW_ADDRESS)
_DAYS: Final = (parse_date("0000-01-01"), parse_date("9999-12-31"))
_INSTANTS: Final = (parse_datetime("0000-01-01"), parse_datetime("9999-12-31T23:59:59.999"))


def properties_of(schema: pa.Schema) -> tuple[str, ...]:
    """The property columns of a table, sorted by the names of the properties."""
    held = (name for name in schema.names if name not in _IMPLICIT)
    return tuple(sorted(held, key=spelling_of))


def columns_by_name(schema: pa.Schema) -> dict[str, str]:
    """The columns of a table by their names in data: its id, for edges the ends, the properties."""
    own = {SYSTEM_ID if ID_PROPERTY in schema.names else ID: ID, "from": "src", "to": "dst"}
    named = {spelling_of(each): each for each in properties_of(schema)}
    return {name: each for name, each in own.items() if each in schema.names} | named


def is_blob(of: pa.DataType) -> bool:
    """A scan returns a blob as a struct that describes it; no other type is a struct."""
    return pa.types.is_struct(of)


@dataclass(frozen=True, slots=True)
class Speller:
    """Formats the rows of one table. If it has blobs, rows need their row addresses."""

    key: TableKey
    fetch: FetchBlobs

    def lines(self, rows: pa.Table) -> list[str]:
        """One JSON object per row, without a newline. Raises NotExportable."""
        kind, name = split_table_key(self.key)
        data = columns_by_name(rows.schema)
        heads = [] if kind == "node" else [data.pop("from"), data.pop("to")]
        texts = [self._spell(rows, each) for each in (*heads, *data.values())]
        members = ",".join(f"{_literal(each)}:%s" for each in data)
        if kind == "node":
            template = f'{{"type":{_literal(name)},"data":{{{members}}}}}'
        else:
            family, *ends = name.split(PAIR_SEPARATOR)
            source, target = (f"{{{_literal(each)}:%s}}" for each in ends) if ends else ("%s", "%s")
            template = (
                f'{{"edge":{_literal(family)},"from":{source},"to":{target},"data":{{{members}}}}}'
            )
        return [template % cells for cells in zip(*texts, strict=True)]

    def blob_texts(self, rows: pa.Table, name: str) -> list[str | None]:
        """(4) The blobs of a column as text that a load reads."""
        found: list[Any] = rows[name].to_pylist()
        addresses: list[Any] = rows[ROW_ADDRESS].to_pylist()
        kept = [
            at
            for at, each in zip(addresses, found, strict=True)
            if each is not None and each["kind"] != EXTERNAL_BLOB
        ]
        data = iter(self.fetch(name, kept))
        return [
            None
            if each is None
            else each["blob_uri"]
            if each["kind"] == EXTERNAL_BLOB
            else INLINE + base64.b64encode(next(data) or b"").decode()
            for each in found
        ]

    def _spell(self, rows: pa.Table, name: str) -> list[str]:
        column = rows[name]
        if is_blob(column.type):
            return [_text(each) for each in self.blob_texts(rows, name)]
        if len(column) and not _is_finite(column):
            raise self._unspeakable(rows, name)
        return [text for chunk in column.chunks for text in _spell(chunk)]

    def _unspeakable(self, rows: pa.Table, name: str) -> NotExportable:
        _, type_name = split_table_key(self.key)
        ids: list[Any] = rows["id"].to_pylist()
        for identity, value in zip(ids, rows[name].to_pylist(), strict=True):
            numbers = value if isinstance(value, list) else [value]
            for number in numbers:
                if number is not None and not np.isfinite(number):
                    return NotExportable(type_name, spelling_of(name), id=identity, value=number)
        raise AssertionError("one of the numbers is not finite")


def _literal(name: str) -> str:
    """A JSON string, escaped for a `%` template."""
    return encode_basestring(name).replace("%", "%%")


def _text(value: str | None) -> str:
    return "null" if value is None else encode_basestring(value)


def _is_finite(column: "pa.ChunkedArray[Any]") -> bool:
    flat = pc.list_flatten(column) if _is_list(column.type) else column
    if not pa.types.is_floating(flat.type):
        return True
    return pc.all(pc.is_finite(flat), min_count=0).as_py() is not False


def _is_list(of: pa.DataType) -> bool:
    return pa.types.is_list(of) or pa.types.is_fixed_size_list(of)


def _spell(cells: "pa.Array[Any]") -> list[str]:
    of = cells.type
    if _is_list(of):
        return _spell_lists(cells)
    if pa.types.is_string(of):
        return [_text(each) for each in cells.to_pylist()]
    if pa.types.is_date32(of):
        return _spell_times(cells.view(pa.int32()), "datetime64[D]", _DAYS, zone="")
    if pa.types.is_date64(of):
        return _spell_times(cells.view(pa.int64()), "datetime64[ms]", _INSTANTS, zone="Z")
    texts: list[str | None] = pc.cast(cells, pa.string()).to_pylist()
    if pa.types.is_floating(of):
        return ["null" if each is None else _pointed(each) for each in texts]
    return ["null" if each is None else each for each in texts]


def _spell_lists(cells: "pa.Array[Any]") -> list[str]:
    items = iter(_spell(pc.list_flatten(cells)))
    return [
        "null" if length is None else f"[{','.join(islice(items, length))}]"
        for length in pc.list_value_length(cells).to_pylist()
    ]


def _pointed(text: str) -> str:
    """(2) Arrow omits `.0`, and a JSON reader would read `-0` as the integer 0."""
    return text if "." in text or "e" in text else f"{text}.0"


def _spell_times(
    cells: "pa.Array[Any]", unit: str, readable: tuple[int, int], *, zone: str
) -> list[str]:
    """(1)"""
    is_null = cells.is_null().to_pylist()
    values = cells.fill_null(0).to_numpy()
    is_readable = (values >= readable[0]) & (values <= readable[1])
    texts = np.datetime_as_string(np.where(is_readable, values, 0).astype(unit))
    return [
        "null" if absent else f'"{text}{zone}"' if spelled else str(value)
        for absent, spelled, value, text in zip(
            is_null, is_readable.tolist(), values.tolist(), texts.tolist(), strict=True
        )
    ]
