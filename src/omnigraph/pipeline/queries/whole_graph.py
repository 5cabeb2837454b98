"""Whole-graph work on Spark, by the definitions of `omnigraph.analytics`.

A round ends in a local checkpoint, because the plan of a round contains the plan of the one before.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as f

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.names import name_beside_id
from omnigraph.engine.graph import Graph
from omnigraph.engine.query.columns.view import View
from omnigraph.errors import UsageError
from omnigraph.pipeline.queries.run import storage_of
from omnigraph.pipeline.queries.scans import Scans


def ends(
    spark: SparkSession, view: View, graph: Graph, node: NodeType, edge: EdgeType
) -> tuple[DataFrame, DataFrame]:
    """The ids of the nodes, and `src` and `dst` of the edges whose ends are both there."""
    scans = Scans(spark, view, storage_of(graph))
    nodes = scans.read(node, ("id",), ("id",)).localCheckpoint()
    edges = scans.read(edge, ("src", "dst"), ("src", "dst"))
    for end in ("src", "dst"):
        edges = edges.join(nodes, f.col(end) == f.col("id"), "left_semi")
    return nodes, edges.localCheckpoint()


def frames(
    spark: SparkSession, view: View, graph: Graph, node: NodeType, edge: EdgeType
) -> tuple[DataFrame, DataFrame]:
    """Vertices and edges with every property but blobs."""
    scans = Scans(spark, view, storage_of(graph))
    made = []
    kinds: tuple[tuple[NodeType | EdgeType, tuple[str, ...]], ...] = (
        (node, ("id",)),
        (edge, ("src", "dst", "id")),
    )
    for type_, own in kinds:
        held = [each.name for each in type_.properties if not each.type.is_blob]
        names = (*own, *(name_beside_id(type_.name, name) for name in held))
        made.append(scans.read(type_, (*own, *held), names))
    return made[0], made[1]


def frames_of_all(
    spark: SparkSession,
    view: View,
    graph: Graph,
    nodes: Sequence[tuple[NodeType, Mapping[str, str]]],
    edges: Sequence[tuple[EdgeType, Mapping[str, str]]],
) -> tuple[DataFrame, DataFrame]:
    """Vertices and edges of all types; each type names the columns of its properties."""
    scans = Scans(spark, view, storage_of(graph))

    def read(
        type_: NodeType | EdgeType, ends: Mapping[str, str], columns: Mapping[str, str]
    ) -> DataFrame:
        """The ids of these columns are of these types."""
        names = (*ends, *columns)
        places = [f"c{number}" for number in range(len(names))]
        rows = scans.read(type_, names, places)
        shown = dict(zip(names, places, strict=True))
        ids = [f.concat(f.lit(f"{of}:"), shown[end]).alias(end) for end, of in ends.items()]
        cells = [f.col(shown[name]).alias(column) for name, column in columns.items()]
        return rows.select(*ids, f.lit(type_.name).alias("type"), *cells)

    vertices = [read(each, {"id": each.name}, columns) for each, columns in nodes]
    ways = [
        read(each, {"src": each.source, "dst": each.target, "id": each.name}, columns)
        for each, columns in edges
    ]
    return _put_together(vertices), _put_together(ways)


def _put_together(parts: Sequence[DataFrame]) -> DataFrame:
    whole = parts[0]
    for each in parts[1:]:
        whole = whole.unionByName(each, allowMissingColumns=True)
    return whole


def pagerank(nodes: DataFrame, edges: DataFrame, rounds: int, damping: float) -> pa.Table:
    count = nodes.count()
    shares = edges.groupBy("src").agg((1.0 / f.count("*")).alias("share"))
    ways = edges.join(shares, "src").localCheckpoint()
    ranks = nodes.withColumn("value", f.lit(1.0 / max(1, count)))
    for _ in range(rounds):
        lost = ranks.join(shares, f.col("id") == f.col("src"), "left_anti")
        (mass,) = lost.agg(f.sum("value")).collect()[0]
        base = (1.0 - damping + damping * (mass or 0.0)) / max(1, count)
        moved = ranks.join(ways, f.col("id") == f.col("src"))
        brought = moved.groupBy("dst").agg(f.sum(f.col("value") * f.col("share")).alias("brought"))
        joined = nodes.join(brought, f.col("id") == f.col("dst"), "left")
        value = f.lit(base) + damping * f.coalesce("brought", f.lit(0.0))
        ranks = joined.select("id", value.alias("value")).localCheckpoint()
    return ranks.toArrow()


def connected_components(nodes: DataFrame, edges: DataFrame) -> pa.Table:
    """Each round a node takes the smallest label around it."""
    back = edges.select(f.col("dst").alias("src"), f.col("src").alias("dst"))
    both = edges.unionByName(back).distinct().localCheckpoint()
    labels = nodes.select("id", f.col("id").alias("value"))
    while True:
        around = labels.join(both, f.col("id") == f.col("src")).groupBy("dst")
        smallest = around.agg(f.min("value").alias("other"))
        joined = labels.join(smallest, f.col("id") == f.col("dst"), "left")
        value = f.least("value", "other")
        after = joined.select("id", value.alias("value"), (value < f.col("value")).alias("changed"))
        after = after.localCheckpoint()
        labels = after.select("id", "value")
        if not after.where("changed").limit(1).count():
            return labels.toArrow()


def shortest_paths(nodes: DataFrame, edges: DataFrame, sources: Sequence[str]) -> pa.Table:
    spark = nodes.sparkSession
    asked = spark.createDataFrame([(each,) for each in dict.fromkeys(sources)], "id string")
    for missing in asked.join(nodes, "id", "left_anti").limit(1).collect():
        raise UsageError(f"there is no node '{missing[0]}'")
    reached = asked.withColumn("value", f.lit(0).cast("long"))
    while True:
        step = reached.join(edges, f.col("id") == f.col("src")).select(f.col("dst").alias("id"))
        fresh = step.distinct().join(reached, "id", "left_anti")
        hop = f.lit(_farthest(reached) + 1).cast("long")
        fresh = fresh.withColumn("value", hop).localCheckpoint()
        if not fresh.limit(1).count():
            return reached.toArrow()
        reached = reached.unionByName(fresh).localCheckpoint()


def _farthest(reached: DataFrame) -> int:
    return int(reached.agg(f.max("value")).collect()[0][0] or 0)


def triangles(nodes: DataFrame, edges: DataFrame) -> pa.Table:
    one, other = f.least("src", "dst"), f.greatest("src", "dst")
    pairs = edges.where("src != dst").select(one.alias("a"), other.alias("b")).distinct()
    pairs = pairs.localCheckpoint()
    second = pairs.select(f.col("a").alias("b"), f.col("b").alias("c"))
    third = pairs.select("a", f.col("b").alias("c"))
    found = pairs.join(second, "b").join(third, ["a", "c"])
    corners = found.select(f.explode(f.array("a", "b", "c")).alias("corner"))
    counts = corners.groupBy("corner").agg(f.count("*").alias("value"))
    joined = nodes.join(counts, f.col("id") == f.col("corner"), "left")
    return joined.select("id", f.coalesce("value", f.lit(0)).alias("value")).toArrow()
