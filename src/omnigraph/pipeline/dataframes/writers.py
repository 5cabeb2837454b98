"""The writers that Spark calls, for one data frame and for a stream.

Spark calls them in several processes. It pickles the writer that its tasks will use, so the write
begins when it is pickled: the writer that Spark makes for `commit` of a stream begins nothing.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from omnigraph.engine.load.run import LoadRequest
from omnigraph.engine.write.idempotency import IdempotencyKey
from omnigraph.errors import SparkUnusable, UsageError
from omnigraph.jsontext import read_json
from omnigraph.pipeline.dataframes.begun_write import (
    BegunWrite,
    Home,
    begin_write,
    check_columns,
)
from omnigraph.pipeline.dataframes.change_sink import ChangeSink, make_change_sink
from omnigraph.pipeline.dataframes.staged_load import StagedLoader
from omnigraph.pipeline.dataframes.write_options import FrameWriteOptions
from omnigraph.pipeline.settings import SCRATCH
from omnigraph.pipeline.sources.mappings import ColumnMapping
from omnigraph.pipeline.stage.frames import IngestFrame, frame_schema

BUCKETS: Final = 16
"""The keys of a data frame, whose size is unknown, are checked in so many parts."""
STREAM_BUCKETS: Final = 1
"""A batch of a stream is small as a rule, and each part costs a lookup."""


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """What a task staged."""

    begun: BegunWrite
    partition: int
    answer: str


@dataclass
class FrameWrite:
    """One write, from the columns to the commit."""

    home: Home
    options: FrameWriteOptions
    mapping: ColumnMapping
    bucket_count: int
    begun: BegunWrite | None = None
    work: IngestFrame | None = None

    @classmethod
    def plan(
        cls, home: Home, options: FrameWriteOptions, schema: StructType, bucket_count: int
    ) -> "FrameWrite":
        """Raises TypeUnknown, LoadRejected."""
        mapping = check_columns(home.open(options.path), options, frame_schema(schema))
        return cls(home, options, mapping, bucket_count)

    def __getstate__(self) -> dict[str, Any]:
        if self.begun is None:
            key = self.mapping.type.table_key
            self.begun, work = begin_write(self.home, self.options, key, self.bucket_count)
            self.work = IngestFrame(work, 0, 0, self.mapping)
        return self.__dict__

    def stage(self, batches: Iterator[pa.RecordBatch]) -> StagedPart:
        """The work of one task. Raises SparkUnusable."""
        assert self.begun is not None, "a task runs after the write began"
        assert self.work is not None
        if not Path(self.begun.scratch).is_dir():
            raise SparkUnusable(
                f"its workers do not see {self.begun.scratch}; set {SCRATCH} to a folder that "
                "the driver and all workers see"
            )
        names = list(dict.fromkeys(self.mapping.columns.values()))
        partition, answer = self.work.absorb(batch.select(names) for batch in batches)
        return StagedPart(self.begun, partition, json.dumps(answer))

    def commit(
        self, messages: Sequence[WriterCommitMessage | None], key: IdempotencyKey | None
    ) -> None:
        """Commit what the tasks staged, or nothing. Raises what a load raises."""
        loader = self._loader(messages)
        if loader is None:
            return
        options = self.options
        request = LoadRequest(
            sources=(),
            mode=options.mode,
            branch=options.branch,
            actor=options.actor,
            message=options.message,
            idempotency=key,
        )
        loader.graph.load(request, loader)
        loader.discard()  # unless the load took the files: the same batch was committed before

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        loader = self._loader(messages)
        if loader is not None:
            loader.discard()

    def _loader(self, messages: Sequence[WriterCommitMessage | None]) -> StagedLoader | None:
        """None if no task ended, and no write began here."""
        parts = [each for each in messages if isinstance(each, StagedPart)]
        begun = parts[0].begun if parts else self.begun
        if begun is None:
            return None
        parts.sort(key=lambda part: part.partition)
        answers = [read_json(part.answer) for part in parts]
        return StagedLoader(self.home.open(self.options.path), begun, answers)


@dataclass
class FrameWriter(DataSourceArrowWriter):
    """`df.write`: one commit."""

    frame: FrameWrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:  # type: ignore[override] # Spark's own stub
        return self.frame.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.frame.commit(messages, self.frame.options.idempotency)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.frame.abort(messages)


@dataclass
class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: one commit for each batch, found again by its key."""

    frame: FrameWrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:  # type: ignore[override] # Spark's own stub
        return self.frame.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        self.frame.commit(messages, self.frame.options.batch_key(batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        self.frame.abort(messages)


def make_writer(home: Home, options: FrameWriteOptions, schema: StructType) -> FrameWriter:
    """Raises UsageError, TypeUnknown, LoadRejected."""
    if options.are_changes:
        raise UsageError("rows of changes are written by a stream: writeStream")
    if options.sink_id is not None:
        raise UsageError("option 'sinkId' is for streams; name a write by 'idempotencyKey'")
    return FrameWriter(FrameWrite.plan(home, options, schema, BUCKETS))


def make_stream_writer(
    home: Home, options: FrameWriteOptions, schema: StructType
) -> StreamWriter | ChangeSink:
    """Raises UsageError, TypeUnknown, LoadRejected."""
    if not options.sink_id:
        raise UsageError(
            "a stream needs option 'sinkId': a name of its own, which with the number of a batch "
            "tells a batch that is written again after a crash"
        )
    if options.idempotency_key is not None:
        raise UsageError("a stream has option 'sinkId', not 'idempotencyKey'")
    if options.are_changes:
        return make_change_sink(home, options, schema)
    return StreamWriter(FrameWrite.plan(home, options, schema, STREAM_BUCKETS))
