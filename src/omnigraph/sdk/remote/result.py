"""What a read answers with, when a server ran it: the same forms as in this process."""

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from omnigraph.catalog.temporal import format_datetime
from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.engine.query.result import ReadTarget, Result, native_cells
from omnigraph.errors import ServerAnswerInvalid
from omnigraph.ids import BranchName, CommitId
from omnigraph.jsontext import read_json
from omnigraph.wire.media import HEADER


class RemoteResult(Result):
    """The rows of a read, in the order it asked for."""

    def __init__(self, table: pa.Table, header: Mapping[str, Any]) -> None:
        self._table = table
        self._header = dict(header)
        target = header["target"]
        branch, snapshot = target["branch"], target["snapshot"]
        self.query_name: str = header["query_name"]
        self.target = ReadTarget(
            None if branch is None else BranchName(branch),
            None if snapshot is None else CommitId(snapshot),
        )
        commit_id = header["graph_commit_id"]
        self.commit_id = None if commit_id is None else CommitId(commit_id)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._table.column_names)

    def __len__(self) -> int:
        return int(self._header["row_count"])

    def arrow(self) -> pa.Table:
        """An Arrow table; a DateTime is a timestamp in UTC."""
        return self._table

    def rows(self) -> list[dict[str, object]]:
        """Python's own values: a Date is a `date`, a DateTime a `datetime` in UTC."""
        cells = zip(*map(native_cells, self._table.columns), strict=True)
        return [dict(zip(self.columns, row, strict=True)) for row in cells]

    def json_rows(self) -> list[JsonObject]:
        """The rows alone, as JSON values."""
        return [{key: _spell(value) for key, value in row.items()} for row in self.rows()]

    def document(self) -> JsonObject:
        rows: list[JsonValue] = list(self.json_rows())
        header = {key: each for key, each in self._header.items() if key != "graph_commit_id"}
        return {**header, "rows": rows, "graph_commit_id": self.commit_id}


def decode_result(url: str, body: bytes) -> RemoteResult:
    """Raises ServerAnswerInvalid."""
    try:
        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all()
        metadata = dict(table.schema.metadata or {})
        header = read_json(metadata.pop(HEADER))
        return RemoteResult(table.replace_schema_metadata(metadata or None), header)
    except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        raise ServerAnswerInvalid(url, status=200, reason=str(error)) from error


def _spell(value: object) -> Any:
    match value:
        case datetime():
            return format_datetime(round(value.timestamp() * 1000))
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case list():
            return [_spell(each) for each in value]
        case _:
            return value
