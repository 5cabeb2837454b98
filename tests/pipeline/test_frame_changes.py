"""The change feed as rows, and a graph that follows another graph."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import omnigraph
from omnigraph.errors import CommitNotFound, OmnigraphError
from omnigraph.pipeline import register
from omnigraph.pipeline.datasource import OmnigraphSource
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from support.loading import SCHEMA


def new_graph(folder: Path) -> LocalGraph:
    return omnigraph.init(folder, SCHEMA, durability=Durability.RELAXED)


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return new_graph(tmp_path / "g")


def source(graph: LocalGraph, **options: str) -> OmnigraphSource:
    return OmnigraphSource({"path": graph.uri, "changes": "true", **options})


def told(reader: Any, parts: Any) -> list[tuple[str, str, str]]:
    batches = [batch for each in parts for batch in reader.read(each)]
    return [
        (row["_change"], row["id"], row["_actor"] or "")
        for batch in batches
        for row in batch.to_pylist()
    ]


def batches_of(stream: Any, start: Any, limit: Any = None) -> list[list[tuple[str, str, str]]]:
    """What a query would see, batch by batch, until nothing is left."""
    found = []
    while (end := stream.latestOffset(start, limit or stream.getDefaultReadLimit())) != start:
        found.append(told(stream, stream.partitions(start, end)))
        start = end
    return found


def fill(graph: LocalGraph) -> list[str]:
    """Five commits; their ids."""
    rows = [{"name": "ann", "age": 1}, {"name": "bob"}]
    made = [
        graph.insert("Person", rows, actor="eve"),
        graph.insert("Knows", [{"id": "k", "from": "ann", "to": "bob"}]),
        graph.upsert("Person", [{"name": "ann", "age": 2}], actor="adam"),
        graph.insert("Note", [{"id": "n", "text": "hi"}]),
        graph.delete("Person", ["bob"]),
    ]
    return [str(each.commit.id) for each in made if each.commit is not None]


def test_changes_between_two_commits_are_rows(graph: LocalGraph) -> None:
    ids = fill(graph)
    reader = source(graph, start=f"after:{ids[0]}", end=ids[2]).reader(None)  # type: ignore[arg-type]
    (part,) = reader.partitions()
    rows = [row for batch in reader.read(part) for row in batch.to_pylist()]
    assert [(row["_change"], row["type"], row["_commit"]) for row in rows] == [
        ("insert", "Knows", ids[1]),
        ("update", "Person", ids[2]),
    ]
    assert json.loads(rows[0]["after"]) == {"id": "k", "from": "ann", "to": "bob", "since": None}
    assert json.loads(rows[1]["before"])["age"] == 1
    assert json.loads(rows[1]["after"])["age"] == 2
    assert rows[1]["_actor"] == "adam"
    assert rows[0]["_position"] < rows[1]["_position"]
    nodes = source(graph, type="Note").reader(None)  # type: ignore[arg-type]
    assert told(nodes, nodes.partitions()) == [("insert", "n", "")]
    with pytest.raises(CommitNotFound):
        source(graph, end="nothing").reader(None)  # type: ignore[arg-type]


def test_a_stream_has_whole_commits_within_its_limit(graph: LocalGraph) -> None:
    ids = fill(graph)
    stream = source(graph, start="beginning", maxChanges="1").streamReader(None)  # type: ignore[arg-type]
    found = batches_of(stream, stream.initialOffset())
    assert [len(each) for each in found] == [2, 1, 1, 1, 2]
    assert sorted(found[-1]) == [("delete", "bob", ""), ("delete", "k", "")]
    whole = batches_of(stream, stream.initialOffset(), ReadAllAvailable())
    assert [row for each in whole for row in each] == [row for each in found for row in each]
    later = source(graph, start=f"after:{ids[3]}").streamReader(None)  # type: ignore[arg-type]
    assert batches_of(later, later.initialOffset()) == found[-1:]
    now = source(graph, start="now").streamReader(None)  # type: ignore[arg-type]
    assert batches_of(now, now.initialOffset()) == []


def test_a_baseline_comes_before_the_changes(graph: LocalGraph) -> None:
    fill(graph)
    stream = source(graph, maxChanges="1").streamReader(None)  # type: ignore[arg-type]
    start = stream.initialOffset()
    graph.insert("Person", [{"name": "cyd"}])
    found = batches_of(stream, start)
    assert sorted(row[1] for each in found[:-1] for row in each) == ["ann", "n"]
    assert found[-1] == [("insert", "cyd", "")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"colour": "red"}, "no option 'colour'"),
        ({"maxChanges": "0"}, "positive number"),
        ({"type": "Person", "edge": "Knows"}, "name one type"),
        ({"start": "yesterday"}, "a feed starts at"),
        ({"start": "baseline"}, "for streams"),
    ],
)
def test_wrong_options_of_changes(graph: LocalGraph, options: dict[str, str], said: str) -> None:
    with pytest.raises(OmnigraphError, match=said):
        source(graph, **options).reader(None)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_graph_follows_another_graph(
    spark: SparkSession, graph: LocalGraph, tmp_path: Path
) -> None:
    register(spark)
    copy = new_graph(tmp_path / "copy")
    fill(graph)

    def follow() -> None:
        reading = spark.readStream.format("omnigraph").option("changes", "true").load(graph.uri)
        writing = reading.writeStream.format("omnigraph").option("changes", "true")
        writing = writing.option("sinkId", "copy").option("checkpointLocation", str(tmp_path / "c"))
        writing.trigger(availableNow=True).start(copy.uri).awaitTermination()

    follow()
    graph.insert("Person", [{"name": "dan"}])
    graph.insert("Knows", [{"id": "d", "from": "dan", "to": "ann"}])
    graph.delete("Note", ["n"])
    before = len(copy.commits())
    follow()
    assert len(copy.commits()) == before + 1
    copy.export(tmp_path / "a.jsonl")
    graph.export(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()
