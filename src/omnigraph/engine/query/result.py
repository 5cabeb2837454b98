"""What a read answers with, in every form a caller may want."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.temporal import format_date, format_datetime
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, Struct, ValueType
from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.compiler.parameters import IntegerEncoding
from omnigraph.engine.query.columns.values import as_plain
from omnigraph.engine.tables.arrays import Array, is_null, one_chunk
from omnigraph.errors import ExtraMissing
from omnigraph.errors.base import counted
from omnigraph.ids import BranchName, CommitId

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

_SAFE_MAX: Final = 2**53 - 1
"""What a number may be without losing digits in JavaScript."""

HTML_ROWS_MAX: Final = 50
"""How many rows a notebook shows."""

_INSTANT: Final = pa.timestamp("ms", tz="UTC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS: Final = 86_400_000
_DAYS: Final = (date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days
_CALENDAR: Final = {
    Scalar.DATE: _DAYS,
    Scalar.DATETIME: (_DAYS[0] * _DAY_MS, (_DAYS[1] + 1) * _DAY_MS - 1),
}
"""The first and the last day and instant of Python's calendar, as tables count them."""


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """Where a read looked: a branch, or a commit."""

    branch: BranchName | None
    snapshot: CommitId | None

    def document(self) -> JsonObject:
        return {"branch": self.branch, "snapshot": self.snapshot}


class Result(ABC):
    """The rows of a read, in the order the query asks for.

    It iterates as dicts, has a length, shows as a table in a notebook, and speaks the Arrow C
    stream, so that `polars.from_arrow(result)` or `duckdb.from_arrow(result)` take it.
    """

    query_name: str
    target: ReadTarget
    commit_id: CommitId | None
    """The newest commit of the snapshot that was read."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def arrow(self) -> pa.Table:
        """An Arrow table; a DateTime is a timestamp in UTC."""

    @abstractmethod
    def rows(self) -> list[dict[str, object]]:
        """Python's own values: a Date is a `date`, a DateTime a `datetime` in UTC."""

    @abstractmethod
    def json_rows(self) -> list[JsonObject]:
        """The rows alone, as JSON values."""

    @abstractmethod
    def document(self) -> JsonObject:
        """The result as JSON values."""

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(self.rows())

    def __repr__(self) -> str:
        names = ", ".join(self.columns)
        rows = counted(len(self), "row")
        return f"<{type(self).__name__} {self.query_name}: {rows} of {names}>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def pandas(self) -> "pd.DataFrame":
        """A data frame; columns with nulls keep their types.

        A column with days or instants outside of the years 1 to 9999 has the values of `rows`.
        Raises ExtraMissing.
        """
        return data_frame(self.arrow())

    def polars(self) -> "Any":
        """A polars data frame. Raises ExtraMissing."""
        return find_package("polars").from_arrow(self.arrow())

    def _repr_html_(self) -> str:
        """A table of at most 50 rows, for notebooks."""
        head = "".join(f"<th>{escape(each)}</th>" for each in self.columns)
        shown = self.rows()[:HTML_ROWS_MAX]
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_shown(cell))}</td>' for cell in row.values())}</tr>"
            for row in shown
        )
        rest = len(self) - len(shown)
        more = f"<p>… and {rest} more rows</p>" if rest else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(cell: object) -> str:
    return "" if cell is None else str(cell)


def find_package(name: str) -> "Any":
    """A package that a form of a result needs. Raises ExtraMissing."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise ExtraMissing(name, extra=name) from None


class QueryResult(Result):
    """The result of a read that ran in this process."""

    def __init__(
        self,
        query_name: str,
        target: ReadTarget,
        commit_id: CommitId | None,
        table: pa.Table,
        types: Sequence[ValueType],
    ) -> None:
        self.query_name = query_name
        self.target = target
        self.commit_id = commit_id
        """The newest commit of the snapshot that was read."""
        self._table = table
        self._types = tuple(types)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._table.column_names)

    def __len__(self) -> int:
        return self._table.num_rows

    def arrow(self) -> pa.Table:
        """An Arrow table; a DateTime is a timestamp in UTC."""
        table = self._table
        for at, kind in enumerate(self._types):
            if _holds_instants(kind):
                column = _with_instants(one_chunk(table[at]), kind)
                table = table.set_column(at, table.column_names[at], column)
        return table

    def rows(self) -> list[dict[str, object]]:
        """Python's own values: a Date is a `date`, a DateTime a `datetime` in UTC."""
        return [dict(zip(self.columns, cells, strict=True)) for cells in self._cells(_native)]

    def json(
        self, integers: IntegerEncoding = IntegerEncoding.NATIVE, *, indent: int | None = None
    ) -> str:
        """The document of the result, as text."""
        return json.dumps(self.document(integers), ensure_ascii=False, indent=indent)

    def document(self, integers: IntegerEncoding = IntegerEncoding.NATIVE) -> JsonObject:
        """The result as JSON values.

        For JavaScript, integers that it would round are decimal strings.
        """
        columns: JsonObject = {"columns": list(self.columns)} if self.columns else {}
        rows: list[JsonValue] = list(self.json_rows(integers))
        return {
            "query_name": self.query_name,
            "target": self.target.document(),
            "row_count": len(self),
            **columns,
            "rows": rows,
            "graph_commit_id": self.commit_id,
        }

    def pieces(self, row_count: int) -> Iterator["QueryResult"]:
        """The same result, so many rows at a time; none if there are no rows."""
        for at in range(0, len(self), row_count):
            table = self._table.slice(at, row_count)
            yield QueryResult(self.query_name, self.target, self.commit_id, table, self._types)

    def json_rows(self, integers: IntegerEncoding = IntegerEncoding.NATIVE) -> list[JsonObject]:
        """The rows alone, as JSON values."""
        cells = self._cells(lambda value, kind: _json_cell(value, kind, integers))
        return [dict(zip(self.columns, row, strict=True)) for row in cells]

    def _cells(self, convert: "Any") -> "list[tuple[Any, ...]]":
        columns = [self._column(at, kind, convert) for at, kind in enumerate(self._types)]
        return list(zip(*columns, strict=True)) if columns else []

    def _column(self, at: int, kind: ValueType, convert: "Any") -> "list[Any]":
        return _converted(one_chunk(self._table[at]), kind, convert)


def _converted(column: Array, kind: ValueType, convert: "Any") -> "list[Any]":
    if isinstance(kind.base, Struct) and not is_null(column):
        assert isinstance(column, pa.StructArray)
        parts = zip(kind.base.fields, column.flatten(), strict=True)
        cells = [_converted(part, of, convert) for (_, of), part in parts]
        names = [name for name, _ in kind.base.fields]
        rows = zip(column.is_valid().to_pylist(), *cells, strict=True)
        return [dict(zip(names, row, strict=True)) if there else None for there, *row in rows]
    values = _values(column, kind)
    # Most columns are texts, and every form of a text is the text.
    return values if kind.is_string else [convert(value, kind) for value in values]


def _holds_instants(kind: ValueType) -> bool:
    if isinstance(kind.base, Struct):
        return any(_holds_instants(of) for _, of in kind.base.fields)
    return kind.base is Scalar.DATETIME and not kind.is_list


def _with_instants(column: Array, kind: ValueType) -> Array:
    """A DateTime as a timestamp in UTC, inside of objects too."""
    if not _holds_instants(kind):
        return column
    if not isinstance(kind.base, Struct):
        return as_plain(column, kind).view(_INSTANT)
    assert isinstance(column, pa.StructArray)
    fields = kind.base.fields
    parts = [_with_instants(column.field(at), of) for at, (_, of) in enumerate(fields)]
    names = [name for name, _ in fields]
    made: Array = pa.StructArray.from_arrays(parts, names, mask=column.is_null())
    return made


def data_frame(table: pa.Table) -> "pd.DataFrame":
    pd = find_package("pandas")

    beyond = [at for at, column in enumerate(table.columns) if _is_beyond(column)]
    kept = table
    for at in beyond:
        kept = kept.set_column(at, kept.column_names[at], pa.nulls(len(table)))
    frame = kept.to_pandas(types_mapper=pd.ArrowDtype)
    for at in beyond:
        frame.isetitem(at, pd.Series(native_cells(table[at]), dtype=object))
    return frame


def native_cells(column: Any) -> list[object]:
    """Python's own values; what its calendar does not reach is text, as in JSON."""
    kind = _moment_of(column.type)
    if kind is None:
        return list(column.to_pylist())
    counts = pc.cast(column, _counted(column.type)).to_pylist()
    return [_native(each, kind) for each in counts]


def _moment_of(of: pa.DataType) -> ValueType | None:
    is_list = pa.types.is_list(of)
    item = of.value_type if isinstance(of, pa.ListType) else of
    if pa.types.is_date32(item):
        return ValueType(Scalar.DATE, is_list=is_list)
    if pa.types.is_date64(item) or pa.types.is_timestamp(item):
        return ValueType(Scalar.DATETIME, is_list=is_list)
    return None


def _counted(of: pa.DataType) -> pa.DataType:
    if isinstance(of, pa.ListType):
        return pa.list_(_counted(of.value_type))
    return pa.int32() if pa.types.is_date32(of) else pa.int64()


def _is_beyond(column: Any) -> bool:
    kind = _moment_of(column.type)
    if kind is None:
        return False
    assert isinstance(kind.base, Scalar)
    counts: Any = pc.cast(column, _counted(column.type))
    bounds: Any = pc.min_max(pc.list_flatten(counts) if kind.is_list else counts)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    first, last = _CALENDAR[kind.base]
    return low is not None and (low < first or high > last)


def _values(column: Array, kind: ValueType) -> "list[Any]":
    """Canonical values: dates are days, instants milliseconds."""
    if is_null(column):
        return [None] * len(column)
    return as_plain(column, kind).to_pylist()


def _native(value: "Any", kind: ValueType) -> object:
    if value is None:
        return None
    if kind.is_list:
        return [_native(each, kind.item) for each in value]
    try:
        if kind.base is Scalar.DATE:
            return date(1970, 1, 1) + timedelta(days=value)
        if kind.base is Scalar.DATETIME:
            return _EPOCH + timedelta(milliseconds=value)
    except OverflowError:  # a table may hold what Python's calendar does not reach
        return _json_cell(value, kind, IntegerEncoding.NATIVE)
    return value


def _json_cell(value: "Any", kind: ValueType, integers: IntegerEncoding) -> JsonValue:
    if value is None:
        return None
    if kind.is_vector:
        return [each if each is not None and math.isfinite(each) else None for each in value]
    if kind.is_list:
        return [_json_cell(each, kind.item, integers) for each in value]
    if kind.base is Scalar.DATE:
        return format_date(value)
    if kind.base is Scalar.DATETIME:
        return format_datetime(value)
    if kind.base in FLOATS:
        return _json_float(value)
    if kind.base in INTEGERS and integers is IntegerEncoding.JAVASCRIPT and abs(value) > _SAFE_MAX:
        return str(value)
    return value  # type: ignore[no-any-return]


def _json_float(value: float) -> JsonValue:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
