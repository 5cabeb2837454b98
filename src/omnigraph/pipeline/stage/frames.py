"""Data frames: Spark cuts them and passes every partition to a task of ours, as Arrow batches.

Rows go from Spark's executors to our tasks and into files; none passes through the driver. The
place of a row is its number in the frame, in the order of partitions. If the frame was made of
files, the place is the file and the line that the row carries.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from omnigraph.jsontext import read_json
from omnigraph.pipeline.sources.mappings import ColumnMapping
from omnigraph.pipeline.sources.splits import PARTITIONS_MAX, Partition, Split, ordinal_of
from omnigraph.pipeline.sources.tabular import read_table
from omnigraph.pipeline.spark.jobs import failing_as
from omnigraph.pipeline.spark.liveness import SPARK_ERRORS
from omnigraph.pipeline.stage.input_plan import FILE, LINE, FrameInput

if TYPE_CHECKING:
    from omnigraph.pipeline.sources.parse import Parsed
    from omnigraph.pipeline.stage.ingest import Ingest

_FIELDS: Final[dict[str, pa.DataType]] = {"partition": pa.int64(), "answer": pa.string()}
_ANSWER: Final = pa.schema(_FIELDS)


def frame_schema(columns: StructType) -> pa.Schema:
    """The columns of a frame as tasks see them. A type that Arrow lacks is an empty struct."""
    fields: list[pa.Field[Any]] = [
        pa.field(each.name, _arrow_type(each.dataType)) for each in columns
    ]
    return pa.schema(fields)


def _arrow_type(given: Any) -> pa.DataType:
    try:
        return to_arrow_type(given, timezone="UTC")
    except SPARK_ERRORS:
        return pa.struct([])  # no property takes it


def read_frame(frame: FrameInput, ingest: "Ingest") -> tuple[list[Split], list[dict[str, Any]]]:
    """Read a frame once. Its splits and the answer for each. Raises JobFailed."""
    names = list(dict.fromkeys(frame.mapping.columns.values()))
    names += [FILE, LINE] if frame.files else []
    first = frame.first + len(frame.files)
    with failing_as(f"reading {frame.shown}"):
        narrow = frame.data.select(*(f.col(quoted(name)) for name in names))
        work = IngestFrame(ingest, frame.first, len(frame.files), frame.mapping)
        rows = narrow.mapInArrow(work, "partition bigint, answer string").collect()
    found = sorted((int(row["partition"]), str(row["answer"])) for row in rows)
    # The files come first. Nothing is said of them but where lines are that others tell about.
    splits = [
        Split(frame.first + at, f"frame {frame.first} file {at}", name, 0, None, Partition())
        for at, name in enumerate(frame.files)
    ]
    splits += [
        Split(first + at, f"frame {frame.first}", frame.shown, number, None, Partition())
        for number, (at, _) in enumerate(found)
    ]
    silence = {"lines": 0, "fault_count": 0, "faults": [], "tables": {}}
    return splits, [*(silence for _ in frame.files), *(read_json(each) for _, each in found)]


def quoted(name: str) -> str:
    """The name of a column; without backquotes a dot in it would mean a field of a struct."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class IngestFrame:
    """The task for one partition."""

    ingest: "Ingest"
    first: int
    file_count: int
    mapping: ColumnMapping

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, answer = self.absorb(batches)
        yield pa.RecordBatch.from_pydict(
            {"partition": [partition], "answer": [json.dumps(answer)]}, schema=_ANSWER
        )

    def absorb(self, batches: Iterator[pa.RecordBatch]) -> tuple[int, dict[str, Any]]:
        """The number of this partition, and what became of it."""
        # Tasks share the machine already; threads of their own would only wait for each other.
        pa.set_cpu_count(1)
        context = TaskContext.get()
        assert context is not None, "this runs on a worker"
        partition = context.partitionId()
        number = self.file_count + partition
        assert number < PARTITIONS_MAX, f"a data frame has at most {PARTITIONS_MAX} partitions"
        split = self.first + number
        return partition, self.ingest.absorb(split, self._read(batches, ordinal_of(split, 0)))

    def _read(
        self, batches: Iterator[pa.RecordBatch], start: int
    ) -> Iterator[tuple["Parsed", int]]:
        for batch in batches:
            parsed = read_table(self.mapping, batch)
            if not self.file_count:
                yield parsed, batch.num_rows
                continue
            files, lines = (np.asarray(batch[name]) for name in (FILE, LINE))
            # Counted from where this partition begins, which may well be behind them.
            parsed.place_lines(ordinal_of(self.first + files.astype(np.int64), lines) - start)
            yield parsed, 0
