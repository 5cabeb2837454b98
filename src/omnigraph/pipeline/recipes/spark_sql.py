"""Inputs that are computed: the filters and expressions of a recipe, as a query of Spark SQL.

Our tasks read the files and return a data frame whose rows carry their file and line, so a fault
has its place also after the query. One task reads a CSV file, or some row groups of a Parquet
file, or a data file of a lake. Rows are filtered and computed one by one. A row may be joined with
rows of other inputs; it keeps its own file and line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow
from pyspark.sql import Column, DataFrame, SparkSession, functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from omnigraph.pipeline.sources.delimited import read_texts
from omnigraph.pipeline.sources.lake_rows import read_lake_batches
from omnigraph.pipeline.sources.mappings import ColumnMapping, is_text
from omnigraph.pipeline.sources.parquet import cut_row_groups, read_batches
from omnigraph.pipeline.sources.splits import (
    SPLIT_BYTES,
    Cells,
    LakeRows,
    RowGroups,
    Split,
    cut_lake,
)
from omnigraph.pipeline.spark.liveness import SPARK_ERRORS
from omnigraph.pipeline.stage.frames import quoted
from omnigraph.pipeline.stage.input_plan import FILE, LINE, Table, cells_of

_REASON_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class RawSplit:
    """A piece of a file, whose rows are read as they are."""

    file: int
    first_row: int
    split: Split


def open_frame(
    spark: SparkSession, tables: Sequence[Table], texts: Sequence[str], options: Mapping[str, str]
) -> DataFrame:
    """The rows of some files of one kind, with the columns that the texts may name, and places."""
    schema = tables[0].schema
    names = [
        each
        for each in schema.names
        if schema.names.count(each) == 1 and any(_is_named(each, text) for text in texts)
    ]
    fields = [pa.field(name, spark_type(schema.field(name).type)) for name in names]
    whole = pa.schema([*fields, pa.field(FILE, pa.int64()), pa.field(LINE, pa.int64())])
    splits: list[RawSplit] = []
    file = 0
    for table in tables:
        splits += _cut(table, file, names)
        file += len(name_files([table]))
    work = ReadRaw(tuple(splits), whole, options)
    numbers = spark.range(0, len(splits), 1, len(splits))
    return numbers.mapInArrow(work, from_arrow_schema(whole))


def _is_named(column: str, text: str) -> bool:
    """May an expression mean this column? Spark does not mind the case of names."""
    return column.lower() in text.lower() or "`" in column or "*" in text


def name_files(tables: Sequence[Table]) -> tuple[str, ...]:
    """The files that rows say they come from, in the order of their numbers."""
    return tuple(
        name
        for table in tables
        for name in (
            [table.shown]
            if table.lake is None
            else [each.shown for each in cut_lake(table.lake, table.fitting.mapping, 0)]
        )
    )


def _cut(table: Table, file: int, names: Sequence[str]) -> Iterator[RawSplit]:
    mapping = ColumnMapping(table.fitting.mapping.type, {name: name for name in names})
    if table.lake is not None:
        for split in cut_lake(table.lake, mapping, 0):
            yield RawSplit(file + split.number, 0, split)
        return
    assert table.file is not None
    if table.footer is None:
        content = cells_of(table, table.file, mapping)
        yield RawSplit(file, 0, Split(0, table.file.path, table.file.shown, 0, None, content))
        return
    splits, _ = cut_row_groups(table.file, table.footer, mapping, 0, SPLIT_BYTES)
    for split in splits:
        yield RawSplit(file, sum(table.footer.row_counts[: split.start]), split)


@dataclass(frozen=True, slots=True)
class ReadRaw:
    """The work of reading splits as they are; the batches hold the numbers of splits."""

    splits: tuple[RawSplit, ...]
    schema: pa.Schema
    options: Mapping[str, str] = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch["id"].to_pylist():
                assert number is not None
                raw = self.splits[number]
                for rows, lines in self._read(raw):
                    yield from self._place(rows, lines, raw.file)

    def _read(self, raw: RawSplit) -> Iterator[tuple[Any, Any]]:
        if isinstance(raw.split.content, Cells):
            yield from read_texts(raw.split, self.options)
            return
        assert isinstance(raw.split.content, RowGroups | LakeRows)
        is_lake = isinstance(raw.split.content, LakeRows)
        read = read_lake_batches if is_lake else read_batches
        at = raw.first_row
        for rows in read(raw.split, self.options):
            yield rows, np.arange(at, at + rows.num_rows, dtype=np.int64)
            at += rows.num_rows

    def _place(self, rows: Any, lines: Any, file: int) -> Iterator[pa.RecordBatch]:
        columns = {name: rows[name] for name in self.schema.names if name not in (FILE, LINE)}
        columns[FILE] = pa.array(np.full(len(lines), file, dtype=np.int64))
        columns[LINE] = pa.array(lines, pa.int64())
        cast = [
            columns[each.name].cast(each.type, safe=not arrow.is_timestamp(each.type))
            for each in self.schema
        ]
        yield from pa.table(cast, schema=self.schema).to_batches()


def spark_type(given: pa.DataType) -> pa.DataType:
    """The nearest type of Spark. It loses nothing coarser than a microsecond."""
    if isinstance(given, pa.DictionaryType):
        return spark_type(given.value_type)
    if isinstance(given, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return pa.list_(spark_type(given.value_type))
    if isinstance(given, pa.TimestampType):
        return pa.timestamp("us", "UTC" if given.tz else None)
    if is_text(given):
        return pa.string()
    if arrow.is_large_binary(given) or arrow.is_fixed_size_binary(given):
        return pa.binary()
    if arrow.is_unsigned_integer(given):
        return pa.decimal128(20, 0) if arrow.is_uint64(given) else pa.int64()
    return pa.float32() if arrow.is_float16(given) else given


def find_problem(raw: DataFrame, text: str, *, is_condition: bool) -> str | None:
    """Why Spark cannot evaluate one expression over the rows; None if it can."""
    try:
        kind = raw.select(f.expr(text).alias("it")).schema["it"].dataType.simpleString()
    except SPARK_ERRORS as error:
        reason = next(iter(str(error).strip().splitlines()), "it cannot be analysed")
        return reason[:_REASON_MAX]
    if is_condition and kind != "boolean":
        return f"a condition is true or false, not {kind}"
    return None


class JoinedRows:
    """The rows of an input, each with the rows of other inputs that equal it in some columns.

    A row without a partner stays, and finds null there; one with several partners comes as often.
    Columns are named as they are, or, where two inputs have one name, `input.column`.
    """

    def __init__(self, raw: DataFrame, name: str) -> None:
        self.own = raw
        self.name = name
        self.frame = raw.alias(name)

    def join(self, name: str, other: DataFrame, columns: Mapping[str, str]) -> str | None:
        """Why it cannot be joined; None if it is."""
        for column, frame in [(each, self.own) for each in columns] + [
            (each, other) for each in columns.values()
        ]:
            if column not in frame.columns:
                return f"there is no column '{column}'"
        renamed = other.alias(name)
        self.frame = self.frame.join(
            renamed,
            reduce(
                and_,
                [
                    f.col(f"{quoted(self.name)}.{quoted(here)}")
                    == f.col(f"{quoted(name)}.{quoted(there)}")
                    for here, there in columns.items()
                ],
            ),
            "left",
        )
        return None

    def column(self, name: str) -> Column:
        """One of its own columns."""
        return f.col(f"{quoted(self.name)}.{quoted(name)}")


def without_places(raw: DataFrame) -> DataFrame:
    return raw.drop(FILE, LINE)


def select(
    rows: JoinedRows, columns: Mapping[str, str], namesakes: Sequence[str], where: str | None
) -> DataFrame:
    """Filter, compute, and keep the places. Raises the errors of Spark when it is analysed."""
    filtered = rows.frame if where is None else rows.frame.where(f.expr(where))
    # A column may have a name that is no expression.
    computed = [
        (rows.column(text) if text in rows.own.columns else f.expr(text)).alias(name)
        for name, text in columns.items()
    ]
    places = [name for name in (FILE, LINE) if name in rows.own.columns]
    kept = [rows.column(name).alias(name) for name in (*namesakes, *places)]
    return filtered.select(*computed, *kept)
