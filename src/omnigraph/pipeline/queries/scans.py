"""Tables of a snapshot as DataFrames: some columns, some rows, read by the reader of the source.

A scan is a job of one task for each piece of the table. It is no data source of Spark: Spark keeps
what it pushed into a Python source for every other use of it (docs/adr/0011). Here columns and
filter are part of the task.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as f
from pyspark.sql.types import StructType

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.load.export import cut_pieces
from omnigraph.engine.query.columns.view import View
from omnigraph.engine.tables import filters
from omnigraph.engine.tables.columns import column_type
from omnigraph.pipeline.datasource import Fragments, TableReader
from omnigraph.pipeline.datasource_schema import spark_type
from omnigraph.pipeline.stage.fragments import Storage

PARTITION_ROWS: Final = 200_000

BROADCAST_ROWS: Final = 100_000
"""A table of so many rows is copied to every worker instead of being shuffled."""


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Reads the pieces whose numbers it is given."""

    reader: TableReader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[Any] = batch["id"].to_pylist()
            for number in numbers:
                yield from self.reader.read(Fragments(self.reader.pieces[number]))


@dataclass(frozen=True, slots=True)
class Scans:
    """Reads the tables of one snapshot."""

    spark: SparkSession
    view: View
    storage: Storage

    def node(self, name: str) -> NodeType:
        found = self.view.catalog.node(name)
        assert found is not None, name
        return found

    def edge(self, name: str) -> EdgeType:
        found = self.view.catalog.edge(name)
        assert found is not None, name
        return found

    def is_small(self, type_: NodeType | EdgeType) -> bool:
        return self.view.table(type_).row_count <= BROADCAST_ROWS

    def read(
        self,
        type_: NodeType | EdgeType,
        columns: Sequence[str],
        names: Sequence[str],
        where: str | None = None,
    ) -> DataFrame:
        """These stored columns under these names, of the rows that pass a filter."""
        table = self.view.table(type_)
        known = set(table.handle.schema.names)
        held = [(column, name) for column, name in zip(columns, names, strict=True)]
        there = [(column, name) for column, name in held if column in known]
        schema = StructType()
        for column, name in there:
            schema = schema.add(name, spark_type(arrow_type(column_type(type_, column))))
        pieces = cut_pieces(self.view.stores.tables, table.pin, rows=PARTITION_ROWS)
        some = tuple(each for each in pieces if each.fragment_ids and where != filters.NOTHING)
        stored = tuple(column for column, _ in there)
        task = ScanTask(TableReader(self.storage, some, stored, schema, where))
        numbers = self.spark.range(0, len(some), 1, max(1, len(some)))
        found = numbers.mapInArrow(task, schema)
        if len(there) == len(held):
            return found
        # A past version of a table may lack a column of the schema it is read by.
        return found.select(
            *(
                f.col(name)
                if column in known
                else f.lit(None)
                .cast(spark_type(arrow_type(column_type(type_, column))))
                .alias(name)
                for column, name in held
            )
        )
