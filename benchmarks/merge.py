"""What a merge costs, beside what changed and beside what exists.

A branch gets some new or changed rows, and is merged into main. New rows must cost the same in a
small table and in a large one; changed rows may cost what the fragments they touch weigh. The floor
for many new rows is a bare append of them to a bare table.

Sizes are in rows. Merges take turns, so that whatever else the machine does disturbs all alike.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from measure import Figure, report

import omnigraph
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.commit.manifest.records import UPKEEP
from omnigraph.effects import REAL
from omnigraph.engine.write.upkeep import write_indexes
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import Handle, IndexScope, Mark, Staged

SCHEMA = "node Doc { name: String @key  score: I64?  text: String? }"
DOC = TableKey("node:Doc")
CHANGED = 1_000
PER_FRAGMENT = 100_000
AT_A_TIME = 50_000


def batches(schema: pa.Schema, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    for low in range(start, stop, AT_A_TIME):
        high = min(low + AT_A_TIME, stop)
        names = pa.array([f"d{number:09}" for number in range(low, high)])
        columns: dict[str, pa.Array[Any]] = {
            "id": names,
            "name": names,
            "score": pa.array(np.arange(low, high)),
            "text": pa.array([f"the text of document {number}" for number in range(low, high)]),
        }
        yield pa.RecordBatch.from_arrays([columns[each] for each in schema.names], schema=schema)


def bench_of(graph: LocalGraph) -> WriteContext:
    stores = open_stores(graph.uri, REAL, durability=Durability.RELAXED)
    return WriteContext(stores, Bases(stores))


def append(graph: LocalGraph, branch: BranchName, start: int, stop: int) -> None:
    """Put rows into a branch without the checks of a load, which are not what is measured."""
    context = bench_of(graph)

    def stage(handle: Handle, mark: Mark) -> Staged:
        rows = pa.RecordBatchReader.from_batches(handle.schema, batches(handle.schema, start, stop))
        return context.stores.tables.stage_append(handle, rows, mark)

    with acquire_write_locks(context, branch, [DOC]) as lock:
        write = TableWrite(DOC, lock.base.manifest.pins[DOC].version, (stage,))
        run(lock, Change(WriterKind.LOAD, branch, (write,)))


def index(graph: LocalGraph) -> None:
    context = bench_of(graph)
    specs = write_indexes(graph.catalog, DOC)

    def stage(handle: Handle, mark: Mark) -> Staged | None:
        return context.stores.tables.stage_indices(handle, specs, IndexScope.REBUILD, mark)

    with acquire_write_locks(context, MAIN, [DOC]) as lock:
        version = lock.base.manifest.pins[DOC].version
        write = TableWrite(DOC, version, (stage,), is_named=False)
        run(lock, Change(WriterKind.OPTIMIZE, MAIN, (write,), actor=UPKEEP))


def graph_of(folder: Path, rows: int) -> LocalGraph:
    uri = folder / str(rows)
    omnigraph.init(uri, SCHEMA, durability=Durability.RELAXED)
    graph = omnigraph.open(uri, durability=Durability.RELAXED, maintenance=False)
    append(graph, MAIN, 0, rows)
    index(graph)
    return graph


def timed_merge(graph: LocalGraph, branch: str) -> float:
    start = time.perf_counter()
    result = graph.merge(branch)
    took = time.perf_counter() - start
    assert result.commit is not None
    return took


def merge_new(graph: LocalGraph, rows: int, number: int) -> float:
    branch = graph.branches.create(f"new-{number}")
    start = 500_000_000 + number * CHANGED
    append(graph, branch, start, start + CHANGED)
    if number % 2:
        # Somebody else was busy, so the merge has two sides to look at.
        graph.upsert("Doc", [{"name": f"d{rows - 1:09}", "score": number}])
    return timed_merge(graph, branch)


def merge_changed(graph: LocalGraph, fragments: int, number: int) -> float:
    """Change rows that lie in so many fragments, and merge them."""
    branch = graph.branches.create(f"changed-{fragments}-{number}")
    step = fragments * PER_FRAGMENT // CHANGED
    rows = [
        {"name": f"d{(at * step + number):09}", "score": -1, "text": "changed"}
        for at in range(CHANGED)
    ]
    graph.upsert("Doc", rows, branch=branch)
    return timed_merge(graph, branch)


def measure_sizes(folder: Path, small: int, large: int, rounds: int) -> list[Figure]:
    graphs = {rows: graph_of(folder, rows) for rows in (small, large)}
    new: dict[int, list[float]] = {rows: [] for rows in graphs}
    for number in range(2 * rounds):
        for rows, graph in graphs.items():
            new[rows].append(merge_new(graph, rows, number))
    figures = []
    for what, parity in (("fast-forward", 0), ("three-way", 1)):
        few, many = (median(new[rows][parity::2]) for rows in (small, large))
        name = f"{CHANGED:,} new rows, {what}"
        figures.append(Figure(f"{name}, into {small:,}", few))
        figures.append(
            Figure(
                f"{name}, into {large:,}",
                many,
                f"into {small:,}",
                many / few,
                "≤ 1.5",
                many <= 1.5 * few,
            )
        )
    return figures + measure_changed(graphs[large], large, rounds)


def measure_changed(graph: LocalGraph, rows: int, rounds: int) -> list[Figure]:
    most = max(1, min(10, rows // PER_FRAGMENT))
    took: dict[int, list[float]] = {1: [], most: []}
    for number in range(rounds):
        for fragments, seconds in took.items():
            seconds.append(merge_changed(graph, fragments, number))
    one, many = median(took[1]), median(took[most])
    name = f"{CHANGED:,} changed rows"
    ratio = many / most / one
    return [
        Figure(f"{name} in 1 fragment", one),
        Figure(
            f"{name} in {most} fragments, each",
            many / most,
            "1 fragment",
            ratio,
            "≤ 1.5",
            ratio <= 1.5,
        ),
    ]


def measure_bulk(folder: Path, rows: int, rounds: int) -> list[Figure]:
    """The floor copies the very same rows, from a table to a table."""
    graph = graph_of(folder / "bulk", 10_000)
    floors, merges = [], []
    for number in range(rounds):
        branch = graph.branches.create(f"bulk-{number}")
        start = 500_000_000 + number * rows
        append(graph, branch, start, start + rows)
        floors.append(bare_append(graph, branch, folder / f"bare-{number}"))
        merges.append(timed_merge(graph, branch))
    floor, took = median(floors), median(merges)
    name = f"{rows:,} new rows merged"
    ratio = took / floor
    return [
        Figure(f"bare append of {rows:,} rows", floor),
        Figure(name, took, "bare append", ratio, "≤ 2.5", ratio <= 2.5),
    ]


def bare_append(graph: LocalGraph, branch: BranchName, to: Path) -> float:
    """Append the rows that a branch added to a bare table of as many rows as it had before."""
    pins = graph.snapshot(branch).pins[DOC], graph.snapshot().pins[DOC]
    source = lance.dataset(f"{graph.uri}/{pins[0].path}/tree/{branch}")
    added = pins[0].row_count - pins[1].row_count
    fragments = source.get_fragments()[-math.ceil(added / PER_FRAGMENT) :]
    lance.write_dataset(
        source.to_table(limit=10_000), to, data_storage_version="2.2", enable_stable_row_ids=True
    )
    start = time.perf_counter()
    rows = source.scanner(fragments=fragments).to_reader()
    lance.write_dataset(rows, to, mode="append", max_rows_per_file=PER_FRAGMENT)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--bulk", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure_sizes(Path(folder), asked.small, asked.large, asked.rounds)
        figures += measure_bulk(Path(folder), asked.bulk, max(1, asked.rounds // 2))
    report("merge", figures)


if __name__ == "__main__":
    main()
