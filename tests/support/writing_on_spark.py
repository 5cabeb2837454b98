"""A program that writes with Spark until all is written, however often it is killed.

It knows what it has to do from a folder alone. Files of the folder `in` feed a stream; a row of
numbers is written by `df.write`, each under its idempotency key. Started again after a death, it
repeats whatever was not acknowledged.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import omnigraph
from omnigraph.pipeline import register
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.spark.session import find_session

SCHEMA: Final = "node Streamed { name: String @key }  node Written { name: String @key }"
COLUMNS: Final = "name string"


@dataclass(frozen=True)
class Task:
    """What has to be written, and where."""

    folder: Path
    batches: int
    rows: int
    configuration: Mapping[str, str]

    @property
    def uri(self) -> str:
        return str(self.folder / "g")

    def prepare(self) -> None:
        omnigraph.init(self.uri, SCHEMA)
        for name in ("in", "done"):
            (self.folder / name).mkdir()
        for batch in range(self.batches):
            lines = [json.dumps({"name": each}) for each in self.names(batch)]
            (self.folder / "in" / f"{batch:04}.json").write_text("\n".join(lines))

    def names(self, batch: int) -> list[str]:
        return [f"{batch}-{number}" for number in range(self.rows)]

    def work(self) -> None:
        """Write all that is left. Raises what Spark raises if somebody dies."""
        settings = SparkSettings(master="local[2,3]", configuration=self.configuration)
        spark = find_session(settings)
        register(spark)
        streaming = self._stream(spark)
        for batch in range(self.batches):
            done = self.folder / "done" / str(batch)
            if not done.exists():
                self._write(spark, batch)
                done.touch()
        streaming.awaitTermination()

    def _stream(self, spark: SparkSession) -> StreamingQuery:
        reading = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        frame = reading.json(str(self.folder / "in")).repartition(2)
        writing = frame.writeStream.format("omnigraph").option("type", "Streamed")
        writing = writing.option("sinkId", "storm").trigger(availableNow=True)
        checkpoint = str(self.folder / "checkpoint")
        return writing.option("checkpointLocation", checkpoint).start(self.uri)

    def _write(self, spark: SparkSession, batch: int) -> None:
        rows = [(name,) for name in self.names(batch)]
        frame: DataFrame = spark.createDataFrame(rows, COLUMNS).repartition(2)
        writing = frame.write.format("omnigraph").option("type", "Written")
        writing.option("idempotencyKey", f"batch {batch}").mode("append").save(self.uri)


def work(task: Task) -> None:
    task.work()
