"""Data frames: Spark cuts them and hands every partition to a worker of ours, as Arrow batches.

Rows go from Spark's executors to our workers and from there into files; nothing of them passes
through the driver. A row is named by its number in the frame, in the order of its partitions.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_type

from omnigraph.pipeline.feeds import Feed
from omnigraph.pipeline.jobs import SPARK_ERRORS, failing_as
from omnigraph.pipeline.sources import PARTITIONS_MAX, Partition, Split
from omnigraph.pipeline.tabular import read_table

if TYPE_CHECKING:
    from omnigraph.pipeline.ingest import Ingest
    from omnigraph.pipeline.parse import Parsed

_FIELDS: Final[dict[str, pa.DataType]] = {"partition": pa.int64(), "answer": pa.string()}
_ANSWER: Final = pa.schema(_FIELDS)


@dataclass(frozen=True, slots=True)
class Frame:
    """One data frame of a load; its splits are numbered from `first`."""

    first: int
    data: DataFrame
    feed: Feed
    shown: str


def frame_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a frame as workers will see them. What Arrow cannot hold has no type."""
    fields: list[pa.Field[Any]] = [
        pa.field(each.name, _arrow_type(each.dataType)) for each in frame.schema
    ]
    return pa.schema(fields)


def _arrow_type(given: Any) -> pa.DataType:
    try:
        return to_arrow_type(given, timezone="UTC")
    except SPARK_ERRORS:
        return pa.struct([])  # which can feed nothing


def read_frame(frame: Frame, ingest: "Ingest") -> tuple[list[Split], list[dict[str, Any]]]:
    """Read a frame once. Its partitions, as splits, and what became of each. Raises JobFailed."""
    names = list(dict.fromkeys(frame.feed.columns.values()))
    with failing_as(f"reading {frame.shown}"):
        # Backquotes, because a dot in a name would otherwise mean a field of a struct.
        narrow = frame.data.select(*(f.col("`" + name.replace("`", "``") + "`") for name in names))
        work = IngestFrame(ingest, frame.first, frame.feed)
        rows = narrow.mapInArrow(work, "partition bigint, answer string").collect()
    found = sorted((int(row["partition"]), str(row["answer"])) for row in rows)
    splits = [
        Split(frame.first + at, f"frame {frame.first}", frame.shown, number, None, Partition())
        for number, (at, _) in enumerate(found)
    ]
    return splits, [json.loads(answer) for _, answer in found]


@dataclass(frozen=True, slots=True)
class IngestFrame:
    """What a worker does with one partition."""

    ingest: "Ingest"
    first: int
    feed: Feed

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Tasks share the machine already; threads of their own would only wait for each other.
        pa.set_cpu_count(1)
        context = TaskContext.get()
        assert context is not None, "this runs on a worker"
        partition = context.partitionId()
        assert partition < PARTITIONS_MAX, f"a data frame has at most {PARTITIONS_MAX} partitions"
        answer = self.ingest.absorb(self.first + partition, self._read(batches))
        yield pa.RecordBatch.from_pydict(
            {"partition": [partition], "answer": [json.dumps(answer)]}, schema=_ANSWER
        )

    def _read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple["Parsed", int]]:
        for batch in batches:
            yield read_table(self.feed, batch), batch.num_rows
