"""What a read answers with, in every form a caller may want."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.catalog.temporal import format_date, format_datetime
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, ValueType
from omnigraph.commit.records import JsonObject, JsonValue
from omnigraph.compiler.parameters import Binding
from omnigraph.engine.query.arrays import Array, is_null, one_chunk
from omnigraph.engine.query.values import as_plain
from omnigraph.ids import BranchName, CommitId

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

_SAFE_MAX: Final = 2**53 - 1
"""What a number may be without losing digits in JavaScript."""

_INSTANT: Final = pa.timestamp("ms", tz="UTC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """Where a read looked: a branch, or a commit."""

    branch: BranchName | None
    snapshot: CommitId | None

    def document(self) -> JsonObject:
        return {"branch": self.branch, "snapshot": self.snapshot}


class QueryResult:
    """The rows of a read, in the order it asked for."""

    def __init__(
        self,
        query_name: str,
        target: Asked,
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
            if kind.base is Scalar.DATETIME and not kind.is_list:
                column = as_plain(one_chunk(table[at]), kind).view(_INSTANT)
                table = table.set_column(at, table.column_names[at], column)
        return table

    def rows(self) -> list[dict[str, object]]:
        """Python's own values: a Date is a `date`, a DateTime a `datetime` in UTC."""
        return [dict(zip(self.columns, cells, strict=True)) for cells in self._cells(_native)]

    def pandas(self) -> "pd.DataFrame":
        """A data frame; columns with nulls keep their types."""
        import pandas as pd  # noqa: PLC0415 - heavy, and not everybody wants it

        return self.arrow().to_pandas(types_mapper=pd.ArrowDtype)

    def json(self, integers: Binding = Binding.NATIVE, *, indent: int | None = None) -> str:
        """The document of the result, as text."""
        return json.dumps(self.document(integers), ensure_ascii=False, indent=indent)

    def document(self, integers: Binding = Binding.NATIVE) -> JsonObject:
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

    def json_rows(self, integers: Binding = Binding.NATIVE) -> list[JsonObject]:
        """The rows alone, as JSON values."""
        cells = self._cells(lambda value, kind: _json_cell(value, kind, integers))
        return [dict(zip(self.columns, row, strict=True)) for row in cells]

    def _cells(self, convert: "Any") -> "list[tuple[Any, ...]]":
        columns = [self._column(at, kind, convert) for at, kind in enumerate(self._types)]
        return list(zip(*columns, strict=True)) if columns else []

    def _column(self, at: int, kind: ValueType, convert: "Any") -> "list[Any]":
        values = _values(one_chunk(self._table[at]), kind)
        # Most columns are texts, and every form of a text is the text.
        return values if kind.is_string else [convert(value, kind) for value in values]


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
        return _json_cell(value, kind, Binding.NATIVE)
    return value


def _json_cell(value: "Any", kind: ValueType, integers: Binding) -> JsonValue:
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
    if kind.base in INTEGERS and integers is Binding.JAVASCRIPT and abs(value) > _SAFE_MAX:
        return str(value)
    return value  # type: ignore[no-any-return]


def _json_float(value: float) -> JsonValue:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
