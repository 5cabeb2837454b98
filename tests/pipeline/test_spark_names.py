"""Spark beside a property called `id` and an edge over several ends."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph
import omnigraph.spark
from omnigraph import Input
from omnigraph.engine.load.bulk import BulkLoader, LoadMode
from omnigraph.errors import LoadRejected, UsageError
from omnigraph.pipeline import register
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.spark import frames
from omnigraph.storage.durability import Durability
from support.frame_writing import save
from support.loading import LARGE, SMALL, new_loader

SCHEMA = """
node Person { id: I64 @key  name: String? }
node City { name: String @key }
node Country { name: String @key }
edge LivesIn: Person -> City | Country @card(0..1) { id: String? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("City", [{"name": "Turin"}])
    made.insert("Country", [{"name": "Italy"}])
    return made


def test_a_property_id_goes_to_spark_and_comes_back(spark: SparkSession, graph: LocalGraph) -> None:
    register(spark)
    people = spark.createDataFrame([(7, "ada"), (8, None)], "id long, name string")
    people.write.format("omnigraph").option("type", "Person").mode("append").save(graph.uri)
    ends = spark.createDataFrame([(7, "City", "Turin")], "src long, to_type string, dst string")
    omnigraph.spark.write(graph, {"edge:LivesIn": ends.withColumn("id", ends.dst)})

    source = spark.read.format("omnigraph").option("path", graph.uri)
    read = source.option("type", "Person").load()
    assert read.columns == ["@id", "id", "name"]
    assert sorted(map(tuple, read.collect())) == [("7", 7, "ada"), ("8", 8, None)]
    chosen = source.option("columns", "id").load().where("id = 7")
    assert [row.asDict() for row in chosen.collect()] == [{"id": 7}]
    again = read.withColumn("name", read.id.cast("string"))
    again.write.format("omnigraph").option("type", "Person").option("mode", "merge").mode(
        "append"
    ).save(graph.uri)
    assert graph.find("Person", "7") == {"@id": "7", "id": 7, "name": "7"}

    vertices, edges = frames(graph, spark=spark)
    found = {row["id"]: row["Person_id"] for row in vertices.collect()}
    assert found == {"Person:7": 7, "Person:8": 8, "City:Turin": None, "Country:Italy": None}
    (edge,) = edges.collect()
    assert (edge["src"], edge["dst"]) == ("Person:7", "City:Turin")
    assert edge["type"] == "LivesIn.Person.City"


@pytest.mark.parametrize("bulk", [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)])
def test_spark_counts_the_edges_of_all_pairs(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path: Path,
    bulk: BulkLoader,
) -> None:
    loader = new_loader(tmp_path, bulk, SCHEMA)
    nodes = [("Person", {"id": 7}), ("Person", {"id": 8}), ("City", {"name": "Turin"})]
    records = [{"type": type_name, "data": data} for type_name, data in nodes]
    italy = {"type": "Country", "data": {"name": "Italy"}}
    edge = {"edge": "LivesIn", "from": "7", "to": {"Country": "Italy"}}
    loader.put(LoadMode.APPEND, *records, italy, edge)
    path = tmp_path / "e.csv"
    source = Input(str(path), edge="LivesIn")
    path.write_text("src,to_type,dst\n8,City,Turin\n7,City,Turin\n")
    refused = r"@card violation on edge LivesIn: '7' has 2 \(max 1\)"
    with pytest.raises(LoadRejected, match=refused) as caught:
        loader.load(LoadMode.APPEND, source)
    assert [each.line for each in caught.value.faults] == [3]
    path.write_text("src,to_type,dst\n8,City,Turin\n")
    assert loader.load(LoadMode.APPEND, source).counts == {"edge:LivesIn.Person.City": 1}


def test_one_write_feeds_one_pair(graph: LocalGraph) -> None:
    graph.insert("Person", [{"id": 7}])
    rows = pa.table({"src": ["7"], "to_type": ["City"], "dst": ["Turin"]})
    with pytest.raises(UsageError, match=r"name a pair, such as LivesIn\.Person\.City"):
        save(graph, rows, edge="LivesIn")
    save(graph, rows, edge="LivesIn.Person.City")
    found = graph.query("query q() { match { $p: Person $p livesIn $x } return { $x.name } }")
    assert [tuple(row.values()) for row in found] == [("Turin",)]
