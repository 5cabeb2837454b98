"""Spark's side of a data source, played here: each step on a fresh copy of the writer."""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from omnigraph.pipeline.datasource import OmnigraphSource
from omnigraph.sdk.embedded.graph import LocalGraph

_TYPES: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.timestamp("us", "UTC"): TimestampType(),
}


def columns_of(rows: pa.Table) -> StructType:
    made = StructType()
    for each in rows.schema:
        made = made.add(each.name, _TYPES[each.type])
    return made


@contextmanager
def partition(number: int) -> Iterator[None]:
    """As if this process were the task of one partition."""
    context = TaskContext._getOrCreate()
    context._partitionId = number
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def run_tasks(writer: Any, parts: Sequence[pa.Table]) -> list[Any]:
    """What the tasks answer, each of them on its own copy."""
    sent = pickle.dumps(writer)
    answers = []
    for number, rows in enumerate(parts):
        with partition(number):
            answers.append(pickle.loads(sent).write(iter(rows.to_batches())))
    return answers


def save(
    graph: LocalGraph,
    *parts: pa.Table,
    overwrite: bool = False,
    fails: bool = False,
    **options: str,
) -> None:
    """`df.write…save(graph)`; with `fails`, one more task fails."""
    source = OmnigraphSource({"path": graph.uri, **options})
    writer = source.writer(columns_of(parts[0]), overwrite)
    answers = run_tasks(writer, parts)
    sent = pickle.dumps(writer)
    if fails:
        pickle.loads(sent).abort([*answers, None])
        return
    try:
        pickle.loads(sent).commit(answers)
    except Exception:
        pickle.loads(sent).abort(answers)
        raise


def write_batch(graph: LocalGraph, number: int, *parts: pa.Table, **options: str) -> None:
    """One batch of `df.writeStream…start(graph)`."""
    source = OmnigraphSource({"path": graph.uri, **options})
    columns = columns_of(parts[0])
    answers = run_tasks(source.streamWriter(columns, overwrite=False), parts)
    committer = source.streamWriter(columns, overwrite=False)
    try:
        committer.commit(answers, number)
    except Exception:
        source.streamWriter(columns, overwrite=False).abort(answers, number)
        raise
