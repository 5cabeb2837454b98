"""What maintenance costs beside bare Lance, and whether a new column costs what the table weighs.

nullable add   a schema change that adds a nullable property, to tables of growing size; the
               baseline is the smallest of them
optimize       many fragments of few rows put together, against Lance's own compaction of a
               copy of the same table
on Spark       with `--spark-rows`: a table of so many rows is compacted and filled by tasks,
               against this process doing the same to a copy; Spark is started before
"""

import argparse
import shutil
import tempfile
from functools import partial
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from lance.optimize import Compaction
from measure import Figure, report, timed

from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.schema.rewriting import Rewriter, RewriterFactory, in_process
from omnigraph.engine.settings import Settings
from omnigraph.ids import MAIN, TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import ROWS_PER_FILE, Handle, Mark, Receipt, Staged

PERSON = TableKey("node:Person")
SETTINGS = Settings(durability=Durability.RELAXED, maintenance=False)
ADD_RATIO_MAX = 2.0
OPTIMIZE_RATIO_MAX = 1.3
BATCH_ROWS = 100_000
SPARK_FRAGMENT_ROWS = 10_000


def schema(columns: int, key: str = "String") -> str:
    added = "".join(f"  c{number}: String?" for number in range(columns))
    return f"node Person {{ code: {key} @key  age: I64?{added} }}\n"


def rows(start: int, count: int, of: pa.Schema) -> pa.Table:
    codes = pa.array(np.arange(start, start + count, dtype=np.int64))
    texts = codes.cast(pa.string())
    key = texts if of.field("code").type == pa.string() else codes
    columns = {"id": texts, "code": key, "age": codes}
    return pa.table([columns[name] for name in of.names], schema=of)


def append(graph: Graph, counts: list[int]) -> None:
    """One table version with so many fragments, in one commit."""
    stores = open_stores(graph.uri, REAL, durability=Durability.RELAXED)
    context = WriteContext(stores, Bases(stores))

    def stage(handle: Handle, mark: Mark) -> Staged:
        receipts: list[Receipt] = []
        start = 0
        for count in counts:
            batch = rows(start, count, handle.schema)
            staged = context.stores.tables.stage_append(handle, batch, mark)
            receipts += staged.receipts
            start += count
        return context.stores.tables.stage_receipts(handle, receipts, mark)

    with acquire_write_locks(context, MAIN, [PERSON]) as lock:
        version = lock.base.manifest.pins[PERSON].version
        write = TableWrite(PERSON, version, (stage,))
        run(lock, Change(WriterKind.LOAD, MAIN, (write,)))


def measure_add(folder: Path, sizes: list[int], runs: int) -> list[Figure]:
    figures, smallest = [], 0.0
    for size in sizes:
        graph = create(str(folder / f"add-{size}"), schema(0), settings=SETTINGS)
        append(graph, [min(BATCH_ROWS, size - at) for at in range(0, size, BATCH_ROWS)])
        seconds = min(timed(partial(add_column, graph, at)) for at in range(1, runs + 1))
        smallest = smallest or seconds
        ratio = seconds / smallest
        figures.append(
            Figure(
                f"nullable add, {size:,} rows",
                seconds,
                f"{sizes[0]:,} rows",
                ratio,
                f"≤ {ADD_RATIO_MAX}",
                ratio <= ADD_RATIO_MAX,
            )
        )
    return figures


def add_column(graph: Graph, number: int) -> None:
    assert graph.apply_schema(SchemaRequest(schema(number))).applied


def measure_optimize(
    folder: Path, key: str, fragments: int, rows_each: int, runs: int
) -> list[Figure]:
    """Once with a key of text, which has an index more and totals to keep, and once without."""
    folder = folder / key
    first = folder / "optimize"
    graph = create(str(first), schema(0, key), settings=SETTINGS)
    append(graph, [rows_each] * fragments)
    graph.ensure_indices()
    path = graph.snapshot().pins[PERSON].path
    ours, bare = [], []
    for number in range(runs):
        copy, twin = folder / f"copy-{number}", folder / f"twin-{number}"
        shutil.copytree(first, copy)
        shutil.copytree(first / path, twin)
        opened = open_graph(str(copy), settings=SETTINGS)
        dataset = lance.dataset(str(twin))
        bare.append(timed(partial(compact, dataset)))
        ours.append(timed(opened.optimize))
        left = len(lance.dataset(str(copy / path)).get_fragments())
        assert left == len(lance.dataset(str(twin)).get_fragments()), "the same outcome"
    ratio = min(ours) / min(bare)
    what = f"{fragments:,} fragments of {rows_each}, key {key}"
    return [
        Figure(f"bare compaction, {what}", min(bare)),
        Figure(
            f"optimize, {what}",
            min(ours),
            "bare compaction",
            ratio,
            f"≤ {OPTIMIZE_RATIO_MAX}",
            ratio <= OPTIMIZE_RATIO_MAX,
        ),
    ]


def measure_spark(folder: Path, size: int) -> list[Figure]:
    from omnigraph.pipeline.rewrite import open_rewriter  # noqa: PLC0415 - brings Spark along
    from omnigraph.pipeline.spark.session import find_session, read_settings  # noqa: PLC0415

    first = folder / "spark"
    graph = create(str(first), schema(0, "I64"), settings=SETTINGS)
    append(graph, [SPARK_FRAGMENT_ROWS] * (size // SPARK_FRAGMENT_ROWS))
    find_session(read_settings())
    wanted = schema(0, "I64").replace("age: I64?", 'age: I64?  kind: String? @default("a")')
    seconds: dict[str, list[float]] = {}
    for name in ("warm-up", "here", "there"):
        shutil.copytree(first, folder / name)
        opened = open_graph(str(folder / name), settings=SETTINGS)
        hire: RewriterFactory = in_process
        if name != "here":
            rewriter = open_rewriter(opened.root, opened.settings, None)
            hire = partial(_always, rewriter)
        filling = timed(partial(opened.apply_schema, SchemaRequest(wanted), hire))
        seconds[name] = [filling, timed(partial(opened.optimize, rewriter_for=hire))]
    return [
        Figure(f"{what} {size:,} rows on Spark", there, "this process", there / here)
        for what, here, there in zip(
            ("fill", "optimize"), seconds["here"], seconds["there"], strict=True
        )
    ]


def _always(rewriter: Rewriter, row_count: int) -> Rewriter:
    del row_count
    return rewriter


def compact(dataset: lance.LanceDataset) -> None:
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": ROWS_PER_FILE})
    Compaction.commit(dataset, [task.execute(dataset) for task in plan.tasks])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--fragments", type=int, default=1_000)
    parser.add_argument("--rows-each", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--spark-rows", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = measure_add(folder, given.rows, given.runs)
        for key in ("I64", "String"):
            figures += measure_optimize(folder, key, given.fragments, given.rows_each, given.runs)
        if given.spark_rows:
            figures += measure_spark(folder, given.spark_rows)
    report("maintain", figures)


if __name__ == "__main__":
    main()
