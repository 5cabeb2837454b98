"""`writeStream` with `option("changes", "true")`: a graph that follows another graph.

A batch of change rows becomes one commit. The last change of an entity counts: what it leaves is
written whole, what it deletes is deleted. The rows of a batch are few, by the limit of their
source, so the commit writes them like any other mutation and Spark carries them to it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.engine.write.steps import DeleteStep, RowsStep, WriteStep
from omnigraph.errors import UsageError
from omnigraph.jsontext import read_json
from omnigraph.pipeline.dataframes.begun_write import Home
from omnigraph.pipeline.dataframes.write_options import FrameWriteOptions

NEEDED: Final = ("_change", "_position", "kind", "type", "id", "after")


@dataclass(frozen=True)
class ChangeRows(WriterCommitMessage):
    """The change rows of one task."""

    rows: tuple[tuple[Any, ...], ...]


@dataclass
class ChangeSink(DataSourceStreamArrowWriter):
    """Applies changes: one commit for each batch, found again by its key."""

    home: Home
    options: FrameWriteOptions

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ChangeRows:  # type: ignore[override] # Spark's own stub
        rows = (
            tuple(row.values()) for batch in iterator for row in batch.select(NEEDED).to_pylist()
        )
        return ChangeRows(tuple(rows))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        found = [row for each in messages if isinstance(each, ChangeRows) for row in each.rows]
        steps = plan_steps(found)
        if not steps:
            return
        options = self.options
        request = WriteRequest(
            branch=options.branch,
            actor=options.actor,
            idempotency=options.batch_key(batchId),
            message=options.message,
        )
        self.home.open(options.path).write(steps, request)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Nothing was staged."""


def plan_steps(rows: Sequence[tuple[Any, ...]]) -> list[WriteStep]:
    """Edges go before their nodes, and come after them."""
    last: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    for row in sorted(rows, key=lambda row: row[1]):
        _, _, kind, name, identity, _ = row
        last[kind, name, identity] = row
    gone: dict[tuple[str, str], list[str]] = {}
    left: dict[tuple[str, str], list[dict[str, object]]] = {}
    for (kind, name, identity), (change, *_, after) in last.items():
        if change == "delete":
            gone.setdefault((kind, name), []).append(identity)
        else:
            left.setdefault((kind, name), []).append(read_json(after))
    deletes: list[WriteStep] = [DeleteStep(key[1], gone[key]) for key in sorted(gone)]
    writes: list[WriteStep] = [
        RowsStep(key[1], left[key], Existing.REPLACE) for key in sorted(left, reverse=True)
    ]
    return deletes + writes


def make_change_sink(home: Home, options: FrameWriteOptions, schema: StructType) -> ChangeSink:
    """Raises UsageError."""
    missing = [name for name in NEEDED if name not in schema.fieldNames()]
    if missing:
        raise UsageError(f"rows of changes need the columns {', '.join(missing)}")
    return ChangeSink(home, options)
