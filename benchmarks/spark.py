"""Spark's users: `df.write` against a load, a stream into a graph, queries against DataFrame code
written by hand over the same rows as Parquet, driver memory, and PageRank against SciPy on a ready
matrix if SciPy is installed.

    .venv/bin/python benchmarks/spark.py [--nodes 20000] [--edges 100000] [--batches 60]
                                         [--repeats 3] [--only write,sink,query,memory,pagerank]

The sizes of the targets are `--nodes 1000000 --edges 5000000 --batches 1000`, for queries and
PageRank 10,000,000 edges. What a ratio compares is measured in turns, in one session.
"""

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from load_runs import Memory
from measure import Figure, report, timed
from pyspark.sql import DataFrame, SparkSession, functions as f

import omnigraph
import omnigraph.spark
from omnigraph.analytics import in_process
from omnigraph.analytics.edges import read_scope
from omnigraph.compiler.ir import Direction
from omnigraph.pipeline.spark.session import find_session, read_settings
from omnigraph.sdk.embedded.graph import LocalGraph
from support.processes import launch, race, values_of

SECTIONS = ("write", "sink", "query", "memory", "pagerank")
SCHEMA = "node Person { name: String @key  town: String }  edge Knows: Person -> Person"
HOPS = """query hops() {
  match { $a: Person { town: "t0" } $a knows $b $b knows $c $c knows $d }
  return { count($d) as n }
}"""
TOWNS = """query towns() {
  match { $a: Person $a knows $b }
  return { $b.town, count($a) as n }
}"""
BATCH_ROWS = 100
WARM_BATCHES = 10


@dataclass(frozen=True, slots=True)
class Inputs:
    """The same people and edges as Parquet files, for everybody."""

    folder: Path

    @property
    def people(self) -> str:
        return str(self.folder / "people.parquet")

    @property
    def knows(self) -> str:
        return str(self.folder / "knows.parquet")

    def write(self, nodes: int, edges: int) -> None:
        dice = np.random.default_rng(7)
        names = np.char.add("p", np.arange(nodes).astype(str))
        towns = np.char.add("t", (np.arange(nodes) % 100).astype(str))
        pq.write_table(pa.table({"name": names, "town": towns}), self.people)
        ends = {side: names[dice.integers(0, nodes, edges)] for side in ("from", "to")}
        pq.write_table(pa.table(ends), self.knows)


@contextmanager
def new_graph() -> Iterator[LocalGraph]:
    with tempfile.TemporaryDirectory() as folder:
        yield omnigraph.init(Path(folder) / "g.omni", SCHEMA)


def load(graph: LocalGraph, inputs: Inputs, engine: str = "spark") -> None:
    people = omnigraph.Input(inputs.people, type="Person")
    knows = omnigraph.Input(inputs.knows, edge="Knows")
    graph.load([people, knows], mode="append", engine=engine)


def in_turns(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median seconds of each, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            seconds[name].append(timed(run))
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def save(frame: DataFrame, graph: LocalGraph, **options: str) -> None:
    frame.write.format("omnigraph").options(**options).mode("append").save(graph.uri)


def measure_writes(spark: SparkSession, inputs: Inputs, repeats: int) -> list[Figure]:
    def load_files() -> None:
        with new_graph() as graph:
            load(graph, inputs)

    def write_each() -> None:
        with new_graph() as graph:
            save(spark.read.parquet(inputs.people), graph, type="Person")
            save(spark.read.parquet(inputs.knows), graph, edge="Knows")

    def write_both() -> None:
        with new_graph() as graph:
            people, knows = (spark.read.parquet(each) for each in (inputs.people, inputs.knows))
            omnigraph.spark.write(graph, {"Person": people, "Knows": knows})

    runs: dict[str, Callable[[], object]] = {
        "load": load_files,
        "df.write, a commit for each type": write_each,
        "spark.write, one commit": write_both,
    }
    seconds = in_turns(runs, repeats)
    figures = [Figure("graph.load of Parquet", seconds["load"])]
    for name in list(runs)[1:]:
        ratio = seconds[name] / seconds["load"]
        figures.append(Figure(name, seconds[name], "graph.load", ratio, "<= 1.2", ratio <= 1.2))
    return figures


# ── streaming ────────────────────────────────────────────────────────────────────────────────────


def measure_sink(spark: SparkSession, folder: Path, batches: int) -> list[Figure]:
    """Seconds for one batch, of the whole trigger; Spark's own Parquet sink is what it costs
    anyway.
    """
    incoming = folder / "in"
    incoming.mkdir()
    for batch in range(batches + WARM_BATCHES):
        rows = ({"name": f"{batch}-{row}", "town": "t"} for row in range(BATCH_ROWS))
        text = "\n".join(map(json.dumps, rows))
        (incoming / f"{batch:06}.json").write_text(text)
    plain = stream(spark, folder, str(folder / "out"), "parquet")
    with new_graph() as graph:
        ours = stream(spark, folder, graph.uri, "omnigraph", type="Person", sinkId="bench")
        made = [each for each in graph.commits() if each.actor is None]
        assert len(made) == 1 + batches + WARM_BATCHES, "one commit for each batch"
        written = graph.engine.snapshot().pins["node:Person"].row_count  # type: ignore[index]
        assert written == BATCH_ROWS * (batches + WARM_BATCHES)
    rate = 1 / ours
    return [
        Figure("one batch into Parquet files", plain),
        Figure("one batch into a graph", ours, "Parquet files", ours / plain),
        Figure("batches in a second", ours, "batches/s", rate, ">= 5", rate >= 5),
    ]


def stream(spark: SparkSession, folder: Path, place: str, sink: str, **options: str) -> float:
    """The median seconds of the batches after the first ones."""
    reading = spark.readStream.schema("name string, town string")
    frame = reading.option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    writing = frame.writeStream.format(sink).options(**options).trigger(availableNow=True)
    query = writing.option("checkpointLocation", str(folder / f"checkpoint-{sink}")).start(place)
    query.awaitTermination()
    progress = query.recentProgress[WARM_BATCHES:]
    print(sink, json.dumps(progress[-1]["durationMs"]))
    took: list[float] = [each["durationMs"]["triggerExecution"] for each in progress]
    return statistics.median(took) / 1000


# ── queries ──────────────────────────────────────────────────────────────────────────────────────


def hops_by_hand(spark: SparkSession, inputs: Inputs) -> DataFrame:
    people = spark.read.parquet(inputs.people).where("town = 't0'")
    knows = spark.read.parquet(inputs.knows).distinct()
    first, second, third = (
        knows.select(f.col("from").alias(f"{at}f"), f.col("to").alias(f"{at}t")) for at in "abc"
    )
    walked = people.join(first, f.col("name") == f.col("af"))
    walked = walked.join(second, f.col("at") == f.col("bf"))
    return walked.join(third, f.col("bt") == f.col("cf")).agg(f.count("*"))


def towns_by_hand(spark: SparkSession, inputs: Inputs) -> DataFrame:
    people = spark.read.parquet(inputs.people)
    knows = spark.read.parquet(inputs.knows).distinct()
    joined = knows.join(people, f.col("to") == f.col("name"))
    return joined.groupBy("town").agg(f.count("*"))


def measure_queries(spark: SparkSession, inputs: Inputs, repeats: int) -> list[Figure]:
    asked = (("3 hops, counted", HOPS, hops_by_hand), ("grouped", TOWNS, towns_by_hand))
    figures = []
    with new_graph() as graph:
        load(graph, inputs)
        on_spark = graph.spark(spark)
        for name, text, by_hand in asked:
            ours, hand = (
                sorted(tuple(row) for row in each.collect())
                for each in (on_spark.query(text), by_hand(spark, inputs))
            )
            assert ours == hand, "the two answer alike"
            runs: dict[str, Callable[[], object]] = {
                "query": lambda text=text: on_spark.query(text).collect(),  # type: ignore[misc]
                "hand": lambda by_hand=by_hand: by_hand(spark, inputs).collect(),  # type: ignore[misc]
            }
            seconds = in_turns(runs, repeats)
            ratio = seconds["query"] / seconds["hand"]
            figures.append(
                Figure(f"query: {name}", seconds["query"], "by hand", ratio, "<= 3.0", ratio <= 3.0)
            )
    return figures


# ── memory ───────────────────────────────────────────────────────────────────────────────────────


def write_and_watch(nodes: int, edges: int) -> tuple[float, float]:
    """The most that the driver had, and the most of any Python below it, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(Path(folder))
        spark = find_session(read_settings())
        omnigraph.spark.register(spark)
        inputs.write(1_000, 5_000)
        with new_graph() as graph:  # a warm-up: imports are not what grows
            save(spark.read.parquet(inputs.people), graph, type="Person")
        values_of(race([launch(write_inputs, folder, nodes, edges)]))
        with new_graph() as graph, Memory() as memory:
            people, knows = (spark.read.parquet(each) for each in (inputs.people, inputs.knows))
            save(people, graph, type="Person")
            save(knows, graph, edge="Knows")
        return memory.driver_mb, memory.workers_mb


def write_inputs(folder: str, nodes: int, edges: int) -> None:
    """In a process of its own: arrays that were made here would count as memory of the driver."""
    Inputs(Path(folder)).write(nodes, edges)


def measure_memory(nodes: int, edges: int) -> list[Figure]:
    os.environ["OMNIGRAPH_LOAD_ENGINE"] = "spark"
    (once,) = values_of(race([launch(write_and_watch, nodes, edges)], timeout_s=3600))
    (tenfold,) = values_of(race([launch(write_and_watch, 10 * nodes, 10 * edges)], timeout_s=3600))
    figures = []
    for name, small, large in zip(("driver", "largest worker"), once, tenfold, strict=True):
        print(f"{name}: {small:.0f} MB, at ten times the rows {large:.0f} MB")
        more = large - small
        figures.append(
            Figure(
                f"memory of the {name}, MB more at 10 times the rows",
                0.0,
                f"{small:.0f} MB",
                more,
                "<= 100" if name == "driver" else None,
                more <= 100 if name == "driver" else None,
            )
        )
    return figures


# ── whole-graph work ─────────────────────────────────────────────────────────────────────────────


def measure_pagerank(inputs: Inputs, repeats: int) -> list[Figure]:
    with new_graph() as graph:
        load(graph, inputs, engine="local")
        scope = read_scope(graph, "Knows", None, None)
        into = scope.edges.adjacency(Direction.IN, by_edge=True)
        runs: dict[str, Callable[[], object]] = {
            "ours": lambda: in_process.pagerank(scope, 10, 0.85)
        }
        if find_spec("scipy") is not None:
            csr_matrix = import_module("scipy.sparse").csr_matrix
            count = len(into.starts) - 1
            degrees = np.maximum(np.bincount(into.targets, minlength=count), 1)
            weights = 1.0 / degrees[into.targets]
            matrix = csr_matrix((weights, into.targets, into.starts), shape=(count, count))

            def with_scipy() -> None:
                ranks = np.full(count, 1.0 / count)
                for _ in range(10):
                    ranks = 0.15 / count + 0.85 * (matrix @ ranks)

            runs["scipy"] = with_scipy
        seconds = in_turns(runs, repeats)
    if "scipy" not in seconds:
        return [Figure("PageRank, 10 rounds", seconds["ours"], "SciPy is not installed")]
    ratio = seconds["ours"] / seconds["scipy"]
    return [Figure("PageRank, 10 rounds", seconds["ours"], "SciPy", ratio, "<= 2.0", ratio <= 2.0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(SECTIONS))
    asked = parser.parse_args()
    sections = asked.only.split(",")
    figures: list[Figure] = []
    started = perf_counter()
    with tempfile.TemporaryDirectory() as name:
        inputs = Inputs(Path(name))
        inputs.write(asked.nodes, asked.edges)
        if "pagerank" in sections:
            figures += measure_pagerank(inputs, asked.repeats)
        if "memory" in sections:
            figures += measure_memory(asked.nodes, asked.edges)
        if {"write", "sink", "query"} & {*sections}:
            spark = find_session(read_settings())
            omnigraph.spark.register(spark)
        if "write" in sections:
            figures += measure_writes(spark, inputs, asked.repeats)
            report("spark", figures)
        if "sink" in sections:
            figures += measure_sink(spark, inputs.folder, asked.batches)
            report("spark", figures)
        if "query" in sections:
            figures += measure_queries(spark, inputs, asked.repeats)
    report("spark", figures)
    print(f"{asked.nodes} nodes, {asked.edges} edges; {perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
