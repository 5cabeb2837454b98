"""Formats that Spark reads: those it ships, and what is said of a package that it lacks."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.errors import RecipeInvalid, SparkPackageMissing
from omnigraph.sdk.embedded.graph import LocalGraph
from support.loading import SCHEMA
from support.mutations import Tables, read_tables
from support.writing import stores_at


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalGraph:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    return omnigraph.init("g", SCHEMA)


def tables(graph: LocalGraph) -> Tables:
    return read_tables(graph._graph, stores_at(Path(graph.uri)))


def test_orc_and_text_are_read_and_followed(spark: SparkSession, graph: LocalGraph) -> None:
    people = spark.createDataFrame([("ada", 36), ("bob", 7)], "name string, age int")
    people.coalesce(1).write.orc(str(Path("people").absolute()))
    Path("notes").mkdir()
    Path("notes/one.txt").write_text("first\nsecond\n")
    Path("pipeline.yaml").write_text(
        """
name: nightly
mode: append
inputs:
  - {name: people, data: people, format: orc, type: Person, since: last}
  - name: notes
    data: notes
    format: text
    type: Note
    columns: {text: upper(value)}
    where: value <> 'second'
    since: last
"""
    )
    planned = graph.plan_pipeline("pipeline.yaml").inputs
    assert [(each.table_key, each.problems) for each in planned] == [
        ("node:Person", ()),
        ("node:Note", ()),
    ]
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Person": 2, "node:Note": 1}
    assert {name: row["age"] for name, row in tables(graph)["Person"].items()} == {
        "ada": 36,
        "bob": 7,
    }
    Path("notes/two.txt").write_text("third\n")
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Note": 1}
    assert sorted(str(row["text"]) for row in tables(graph)["Note"].values()) == ["FIRST", "THIRD"]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("lines", "package"),
    [
        ("data: a, format: avro", "org.apache.spark:spark-avro_2.13"),
        ("data: a, format: delta, reader: spark", "io.delta:delta-spark_2.13"),
        ("data: a, format: iceberg, reader: spark", "iceberg-spark-runtime"),
        ("format: jdbc, options: {url: 'jdbc:h2:mem:x', dbtable: t}", "the JDBC driver"),
        ("data: a, format: com.acme.rows", "the package that reads 'com.acme.rows'"),
        ("data: s3://bucket/a, format: orc", "org.apache.hadoop:hadoop-aws"),
    ],
)
def test_a_package_that_the_session_lacks_is_named(
    graph: LocalGraph, lines: str, package: str
) -> None:
    Path("pipeline.yaml").write_text(f"mode: merge\ninputs:\n- {{{lines}, type: Person}}\n")
    with pytest.raises(SparkPackageMissing) as caught:
        graph.run_pipeline("pipeline.yaml")
    assert package in str(caught.value)


@pytest.mark.usefixtures("spark")
def test_what_spark_cannot_read_is_told_in_a_line(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", "hidden-word")
    Path("pipeline.yaml").write_text(
        "mode: merge\ninputs:\n- {data: none, format: orc, type: Person,"
        " options: {password: $LAKE_PASSWORD}}\n"
    )
    with pytest.raises(
        RecipeInvalid, match=r"pipeline\.yaml:3: input 1: Spark cannot read"
    ) as caught:
        graph.run_pipeline("pipeline.yaml")
    assert "hidden-word" not in str(caught.value)
