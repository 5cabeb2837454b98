"""`omnigraph.spark`: several data frames as one commit."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
import omnigraph.spark
from omnigraph.errors import LoadRejected, TypeUnknown, UsageError
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from support.loading import SCHEMA


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)


def test_frames_of_several_types_are_one_commit(spark: SparkSession, graph: LocalGraph) -> None:
    people = spark.createDataFrame([("ann", 4), ("bob", 5)], "name string, age int")
    knows = spark.createDataFrame([("ann", "bob")], "src string, dst string")
    before = len(graph.commits())
    frames = {"Person": people, "edge:Knows": knows}
    written = omnigraph.spark.write(graph, frames, actor="eve", message="both", idempotency_key="k")
    assert written.counts == {"edge:Knows": 1, "node:Person": 2}
    assert written.commit is not None
    assert (written.commit.actor, written.commit.message) == ("eve", "both")
    again = omnigraph.spark.write(
        graph.uri, frames, actor="eve", message="both", idempotency_key="k"
    )
    assert again.commit is not None
    assert again.commit.id == written.commit.id
    assert len(graph.commits()) == before + 1
    with pytest.raises(LoadRejected, match="'nam'"):
        omnigraph.spark.write(graph, {"Person": people.withColumnRenamed("name", "nam")})


def test_a_name_that_is_no_type_is_refused(graph: LocalGraph) -> None:
    with pytest.raises(UsageError, match="nothing to write"):
        omnigraph.spark.write(graph, {})
    with pytest.raises(TypeUnknown):
        omnigraph.spark.write(graph, {"node:Knows": None})  # type: ignore[dict-item]
