"""Queries on Spark against DataFrame code written by hand over the same rows as Parquet; and
PageRank in the process against SciPy on a ready matrix, if SciPy is installed.

    .venv/bin/python benchmarks/spark_query.py [--nodes 20000] [--edges 100000] [--repeats 3]

Prints one line of JSON with seconds and ratios. The rows of a ratio are measured in turns.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions as f

import omnigraph
from omnigraph.analytics import in_process
from omnigraph.analytics.edges import read_scope
from omnigraph.compiler.ir import Direction
from omnigraph.pipeline.spark.session import find_session, read_settings
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = "node Person { name: String @key  town: String }  edge Knows: Person -> Person"
HOPS = """query hops() {
  match { $a: Person { town: "t0" } $a knows $b $b knows $c $c knows $d }
  return { count($d) as n }
}"""
TOWNS = """query towns() {
  match { $a: Person $a knows $b }
  return { $b.town, count($a) as n }
}"""


def write_input(folder: Path, nodes: int, edges: int) -> None:
    dice = np.random.default_rng(7)
    names = np.char.add("p", np.arange(nodes).astype(str))
    people = {"name": names, "town": np.char.add("t", (np.arange(nodes) % 100).astype(str))}
    pq.write_table(pa.table(people), folder / "people.parquet")
    ends = {side: names[dice.integers(0, nodes, edges)] for side in ("from", "to")}
    pq.write_table(pa.table(ends), folder / "knows.parquet")


def load(folder: Path) -> LocalGraph:
    graph = omnigraph.init(folder / "g.omni", SCHEMA, durability=Durability.RELAXED)
    people = omnigraph.Input(str(folder / "people.parquet"), type="Person")
    knows = omnigraph.Input(str(folder / "knows.parquet"), edge="Knows")
    graph.load([people, knows], mode="append")
    return graph


def hops_by_hand(spark: SparkSession, folder: Path) -> DataFrame:
    people = spark.read.parquet(str(folder / "people.parquet")).where("town = 't0'")
    knows = spark.read.parquet(str(folder / "knows.parquet")).distinct()
    first, second, third = (
        knows.select(f.col("from").alias(f"{at}f"), f.col("to").alias(f"{at}t")) for at in "abc"
    )
    walked = people.join(first, f.col("name") == f.col("af"))
    walked = walked.join(second, f.col("at") == f.col("bf"))
    return walked.join(third, f.col("bt") == f.col("cf")).agg(f.count("*"))


def towns_by_hand(spark: SparkSession, folder: Path) -> DataFrame:
    people = spark.read.parquet(str(folder / "people.parquet"))
    knows = spark.read.parquet(str(folder / "knows.parquet")).distinct()
    joined = knows.join(people, f.col("to") == f.col("name"))
    return joined.groupBy("town").agg(f.count("*"))


def in_turns(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median seconds of each, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            start = perf_counter()
            run()
            seconds[name].append(perf_counter() - start)
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


def measure_queries(spark: SparkSession, graph: LocalGraph, folder: Path, repeats: int) -> object:
    on_spark = graph.spark(spark)
    found = {}
    for name, text, by_hand in (
        ("hops", HOPS, hops_by_hand),
        ("towns", TOWNS, towns_by_hand),
    ):
        ours, hand = (
            sorted(tuple(row) for row in each.collect())
            for each in (on_spark.query(text), by_hand(spark, folder))
        )
        assert ours == hand, "the two answer alike"
        runs: dict[str, Callable[[], object]] = {
            "query": lambda text=text: on_spark.query(text).collect(),  # type: ignore[misc]
            "by_hand": lambda by_hand=by_hand: by_hand(spark, folder).collect(),  # type: ignore[misc]
        }
        seconds = in_turns(runs, repeats)
        found[name] = {**seconds, "ratio": seconds["query"] / seconds["by_hand"]}
    return found


def measure_pagerank(graph: LocalGraph, repeats: int) -> object:
    scope = read_scope(graph, "Knows", None, None)
    into = scope.edges.adjacency(Direction.IN, by_edge=True)
    runs: dict[str, Callable[[], object]] = {"ours": lambda: in_process.pagerank(scope, 10, 0.85)}
    if find_spec("scipy") is not None:
        csr_matrix = import_module("scipy.sparse").csr_matrix
        count = len(into.starts) - 1
        degrees = np.maximum(np.bincount(into.targets, minlength=count), 1)
        shape = (count, count)
        matrix = csr_matrix((1.0 / degrees[into.targets], into.targets, into.starts), shape=shape)

        def with_scipy() -> None:
            ranks = np.full(count, 1.0 / count)
            for _ in range(10):
                ranks = 0.15 / count + 0.85 * (matrix @ ranks)

        runs["scipy"] = with_scipy
    seconds = in_turns(runs, repeats)
    ratio = {"ratio": seconds["ours"] / seconds["scipy"]} if "scipy" in seconds else {}
    return {**seconds, **ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder, asked.nodes, asked.edges)
        graph = load(folder)
        found: dict[str, object] = {"nodes": asked.nodes, "edges": asked.edges}
        found["pagerank"] = measure_pagerank(graph, asked.repeats)
        spark = find_session(read_settings())
        found |= {"queries": measure_queries(spark, graph, folder, asked.repeats)}
        print(json.dumps(found))


if __name__ == "__main__":
    main()
