"""Tasks that do their work and then hold, so that their worker can be killed before they answer.

A task creates its marker, with the id of its process in it. The first task of an operation that
does so holds until it is killed; every later one finds the marker and goes on. Workers import this
module.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from omnigraph.effects import REAL
from omnigraph.pipeline.dataframes.begun_write import Home
from omnigraph.pipeline.dataframes.change_sink import ChangeSink
from omnigraph.pipeline.dataframes.writers import FrameWriter, StagedPart, StreamWriter
from omnigraph.pipeline.datasource import OmnigraphSource
from omnigraph.pipeline.queries.scans import ScanTask
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.tasks import Work

HOLD_MS: Final = 300_000
"""A task that nobody kills fails after so long."""


def hold(marker: str) -> None:
    """Hold, if no task has held at this marker before."""
    draft = Path(f"{marker}.{os.getpid()}")
    draft.write_text(str(os.getpid()))
    try:
        os.link(draft, marker)
    except FileExistsError:
        return
    finally:
        draft.unlink()
    REAL.sleep_ms(HOLD_MS)
    raise AssertionError(f"nobody killed the worker that holds at {marker}")


@dataclass(frozen=True)
class HeldWork:
    """Work whose answer is held back."""

    work: Work
    marker: str

    def __call__(self, number: int) -> dict[str, Any]:
        answer = self.work(number)
        hold(self.marker)
        return answer


@dataclass(frozen=True, slots=True)
class HeldScan(ScanTask):
    """A scan whose last rows are held back."""

    marker: str = ""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from ScanTask.__call__(self, batches)
        hold(self.marker)


def run_held(spark: SparkSession, work: Work, count: int, **rest: Any) -> list[dict[str, Any]]:
    """`run_tasks` with answers that are held back."""
    return run_tasks(spark, HeldWork(work, HELD_AT[0]), count, **rest)


HELD_AT: Final[list[str]] = [""]
"""Where the tasks of the operation under way hold, in the process of the driver."""


@dataclass
class HeldWriter(FrameWriter):
    marker: str = ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:  # type: ignore[override] # Spark's own stub
        part = super().write(iterator)
        hold(self.marker)
        return part


@dataclass
class HeldStreamWriter(StreamWriter):
    marker: str = ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:  # type: ignore[override] # Spark's own stub
        part = super().write(iterator)
        hold(self.marker)
        return part


@dataclass
class HeldChangeSink(ChangeSink):
    marker: str = ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override] # Spark's own stub
        rows = super().write(iterator)
        hold(self.marker)
        return rows


class HeldSource(OmnigraphSource):
    """`format("held")`: the source, with tasks that hold."""

    marker = ""

    @classmethod
    def name(cls) -> str:
        return "held"

    def writer(self, schema: StructType, overwrite: bool) -> FrameWriter:  # noqa: FBT001 - Spark's
        return HeldWriter(super().writer(schema, overwrite).frame, self.marker)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter | ChangeSink:  # noqa: FBT001, N802 - Spark's
        plain = super().streamWriter(schema, overwrite)
        if isinstance(plain, ChangeSink):
            return HeldChangeSink(plain.home, plain.options, self.marker)
        return HeldStreamWriter(plain.frame, self.marker)


def register_held(spark: SparkSession, home: Home, marker: str) -> None:
    """Make `format("held")` known to a session."""
    equipment, place = home, marker

    class Held(HeldSource):
        home = equipment
        marker = place

    spark.dataSource.register(Held)
