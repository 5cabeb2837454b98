"""`df.write.format("omnigraph")` and `df.writeStream`: the writers, and a run of each on Spark."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, IntegerType, StringType, StructType

import omnigraph
from omnigraph.commit.leases.staging import find_staging
from omnigraph.errors import (
    ExpectedVersionMismatch,
    JobFailed,
    KeyConflict,
    LoadRejected,
    OmnigraphError,
)
from omnigraph.pipeline import register
from omnigraph.pipeline.datasource import OmnigraphSource
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.testing.invariants import check_graph
from support.frame_writing import partition, run_tasks, save, write_batch
from support.loading import SCHEMA
from support.writing import stores_at

TEXT = StringType()


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)


def people(*rows: tuple[str, int | None, str | None]) -> pa.Table:
    names, ages, mails = zip(*rows, strict=True)
    return pa.table(
        {
            "name": pa.array(names, pa.string()),
            "age": pa.array(ages, pa.int32()),
            "mail": pa.array(mails, pa.string()),
        }
    )


def knows(*ends: tuple[str, str]) -> pa.Table:
    sources, targets = zip(*ends, strict=True)
    return pa.table({"src": pa.array(sources, pa.string()), "dst": pa.array(targets, pa.string())})


def ages(graph: LocalGraph, branch: str = "main") -> dict[object, object]:
    text = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } }"
    return {row["n"]: row["a"] for row in graph.query(text, branch=branch)}


def check_clean(graph: LocalGraph) -> None:
    """Nothing is staged any more, and the graph is sound."""
    assert find_staging(graph.objects) == ()
    assert list((Path(graph.uri) / "__staging").glob("*")) == []
    assert check_graph(stores_at(Path(graph.uri))) == []


def data_files(graph: LocalGraph) -> set[str]:
    return {str(each) for each in Path(graph.uri).glob("*/*/data/*")}


def test_a_write_is_one_commit_with_its_signature(graph: LocalGraph) -> None:
    graph.branches.create("dev")
    before = len(graph.commits())
    parts = people(("ann", 4, "a@x")), people(("bob", 5, None))
    for _ in range(2):
        save(
            graph,
            *parts,
            type="Person",
            branch="dev",
            actor="eve",
            message="two",
            idempotencyKey="k1",
        )
    save(graph, knows(("ann", "bob")), edge="Knows", branch="dev")
    assert ages(graph) == {}
    assert ages(graph, "dev") == {"ann": 4, "bob": 5}
    edge, nodes = graph.commits("dev")[:2]
    assert (nodes.actor, nodes.message, edge.actor) == ("eve", "two", None)
    assert len(graph.commits("dev")) == before + 2
    check_clean(graph)


def test_overwriting_and_merging(graph: LocalGraph) -> None:
    save(graph, people(("ann", 4, "a@x"), ("bob", 5, "b@x")), type="Person")
    swapped = people(("bob", 6, "a@x"), ("ann", 9, "b@x"), ("cyd", 1, None))
    save(graph, swapped, type="Person", mode="merge")
    assert ages(graph) == {"ann": 9, "bob": 6, "cyd": 1}, "and unique values changed places"
    save(graph, people(("dan", 7, None)), overwrite=True, type="Person")
    assert ages(graph) == {"dan": 7}
    check_clean(graph)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"nam": TEXT}, {"type": "Person"}, "feeds nothing of Person"),
        ({"name": TEXT, "age": TEXT}, {"type": "Person"}, "Person.age is I32"),
        ({"age": IntegerType()}, {"type": "Person"}, "no column feeds 'name'"),
        ({"src": TEXT}, {"edge": "Knows"}, "no column feeds 'to'"),
        ({"name": TEXT}, {"type": "Persn"}, "Persn"),
        ({"name": TEXT}, {}, "name one type"),
        ({"name": TEXT}, {"type": "Person", "colour": "red"}, "no option 'colour'"),
        ({"name": TEXT}, {"type": "Person", "sinkId": "s"}, "for streams"),
        ({"name": TEXT}, {"type": "Person", "mode": "ignore"}, "'merge' or nothing"),
        ({"name": TEXT}, {"changes": "true"}, "by a stream"),
    ],
)
def test_mistakes_are_told_before_a_task_starts(
    graph: LocalGraph, columns: dict[str, DataType], options: dict[str, str], said: str
) -> None:
    schema = StructType()
    for name, of in columns.items():
        schema = schema.add(name, of)
    with pytest.raises(OmnigraphError, match=said):
        OmnigraphSource({"path": graph.uri, **options}).writer(schema, overwrite=False)
    assert find_staging(graph.objects) == ()


def test_a_write_that_fails_leaves_nothing(
    spark: SparkSession,  # noqa: ARG001 - names the faults
    graph: LocalGraph,
) -> None:
    save(graph, people(("ann", 4, None)), type="Person")
    head, files = graph.commits()[0].id, data_files(graph)
    with pytest.raises(LoadRejected, match="zoe"):
        save(graph, knows(("ann", "ann"), ("ann", "zoe")), edge="Knows")
    with pytest.raises(KeyConflict, match="ann"):
        save(graph, people(("ann", 5, None)), type="Person")
    save(graph, people(("bob", 5, None)), fails=True, type="Person")
    assert graph.commits()[0].id == head
    assert data_files(graph) == files
    check_clean(graph)


def test_a_task_that_fails_deletes_what_it_wrote(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.pipeline.stage.fragments.FRAGMENT_BYTES", 1)
    source = OmnigraphSource({"path": graph.uri, "type": "Person"})
    writer = source.writer(StructType().add("name", TEXT), overwrite=False)
    written: list[set[str]] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield from pa.table({"name": ["ann"]}).to_batches()
        written.append(data_files(graph))
        raise OSError("the disk of a worker is gone")

    sent = pickle.dumps(writer)
    with partition(0), pytest.raises(OSError, match="disk"):
        pickle.loads(sent).write(rows())
    assert len(written[0]) == 1
    assert data_files(graph) == set()
    pickle.loads(sent).abort([None])
    check_clean(graph)


def test_an_overwrite_does_not_undo_a_write_that_came_between(graph: LocalGraph) -> None:
    source = OmnigraphSource({"path": graph.uri, "type": "Person"})
    writer = source.writer(StructType().add("name", TEXT), overwrite=True)
    answers = run_tasks(writer, [pa.table({"name": ["ann"]})])
    graph.insert("Person", [{"name": "bob"}])
    with pytest.raises(ExpectedVersionMismatch):
        writer.commit(answers)
    writer.abort(answers)
    assert ages(graph) == {"bob": None}
    check_clean(graph)


def test_files_change_hands_once(graph: LocalGraph) -> None:
    """An abort after a commit, whatever became of it, deletes nothing; a second commit is none."""
    source = OmnigraphSource({"path": graph.uri, "type": "Person"})
    writer = source.writer(StructType().add("name", TEXT), overwrite=False)
    answers = run_tasks(writer, [pa.table({"name": ["ann"]})])
    writer.commit(answers)
    writer.abort(answers)
    with pytest.raises(JobFailed, match="staging record"):
        writer.commit(answers)
    assert ages(graph) == {"ann": None}
    check_clean(graph)


# ── streams ──────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_is_one_commit_also_if_it_is_written_twice(graph: LocalGraph) -> None:
    before = len(graph.commits())
    for number in (0, 1, 1, 2):
        rows = people((f"p{number}", number, None))
        write_batch(graph, number, rows, type="Person", sinkId="s", actor="eve")
    made = graph.commits()
    assert len(made) == before + 3
    assert [each.actor for each in made[:3]] == ["eve"] * 3
    assert ages(graph) == {"p0": 0, "p1": 1, "p2": 2}
    again = people(("other", 9, None))
    write_batch(graph, 2, again, type="Person", sinkId="another")
    assert ages(graph)["other"] == 9
    check_clean(graph)
    with pytest.raises(OmnigraphError, match="sinkId"):
        write_batch(graph, 3, again, type="Person")


@pytest.mark.slow
def test_spark_writes_and_streams(spark: SparkSession, graph: LocalGraph, tmp_path: Path) -> None:
    register(spark)
    rows = spark.createDataFrame([("ann", 4)], "name string, age int")
    rows.write.format("omnigraph").option("type", "Person").mode("append").save(graph.uri)
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()

    def stream() -> None:
        reading = spark.readStream.schema("name string, age int").option("maxFilesPerTrigger", 1)
        writing = reading.json(str(folder)).writeStream.format("omnigraph")
        writing = writing.option("type", "Person").option("sinkId", "s")
        writing = writing.option("checkpointLocation", str(checkpoint))
        writing.trigger(availableNow=True).start(graph.uri).awaitTermination()

    (folder / "0.json").write_text('{"name": "bob", "age": 0}')
    stream()
    # As after a crash between our commit and Spark's: Spark writes the last batch again.
    for each in ("0", ".0.crc"):
        (checkpoint / "commits" / each).unlink(missing_ok=True)
    (folder / "1.json").write_text('{"name": "cyd", "age": 1}')
    stream()
    assert ages(graph) == {"ann": 4, "bob": 0, "cyd": 1}
    assert len(graph.commits()) == 4
    check_clean(graph)
