"""`spark.read.format("omnigraph")` and `graph.dataframe`."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as filters

import omnigraph
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.pipeline import datasource, register
from omnigraph.pipeline.datasource import OmnigraphSource
from omnigraph.sdk.local import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
node Ant {
    code: String @key
    b: Bool?  i: I32?  l: I64?  u: U32?  w: U64?  f: F32?  d: F64?  day: Date?  at: DateTime?
    kind: enum(red, black)?  vec: Vector(2)?  raw: Blob?  ats: [DateTime]?  us: [U64]?
}
edge Eats: Ant -> Ant { since: Date? }
"""
FULL = {
    "b": True,
    "i": -1,
    "l": 2**63 - 1,
    "u": 2**32 - 1,
    "w": 2**64 - 1,
    "f": 0.5,
    "d": 0.1,
    "day": "2024-05-01",
    "at": "2024-05-01T08:00:00.125",
    "kind": "red",
    "vec": [0.5, 1],
    "raw": b"bytes",
    "ats": ["1969-12-31T23:59:59.999"],
    "us": [2**64 - 1],
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    """Three fragments of ants; nobody changes it."""
    folder = tmp_path_factory.mktemp("source")
    made = omnigraph.init(folder / "g", SCHEMA, durability=Durability.RELAXED)
    (folder / "far").write_bytes(b"kept elsewhere")
    made.insert("Ant", [{"code": "a", **FULL}, {"code": "b", "raw": (folder / "far").as_uri()}])
    made.insert("Ant", [{"code": f"c{number}", "i": number} for number in range(20)])
    made.insert("Eats", [{"from": "a", "to": "b", "since": "2020-01-01"}])
    made.branches.create("rev")
    made.insert("Ant", [{"code": "d"}], branch="rev")
    return made


@pytest.fixture
def reading(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def read(spark: SparkSession, graph: LocalGraph, **options: str) -> DataFrame:
    return spark.read.format("omnigraph").option("path", graph.uri).options(**options).load()


def test_every_kind_of_value_arrives(reading: SparkSession, graph: LocalGraph) -> None:
    found = {
        row["id"]: row.asDict(recursive=True) for row in read(reading, graph, type="Ant").collect()
    }
    assert len(found) == 22
    assert found["a"] == {
        "id": "a",
        "code": "a",
        **FULL,
        "w": Decimal(2**64 - 1),
        "us": [Decimal(2**64 - 1)],
        "day": date(2024, 5, 1),
        "at": datetime(2024, 5, 1, 8, 0, 0, 125_000),  # noqa: DTZ001 - Spark drops the zone
        "ats": [datetime(1969, 12, 31, 23, 59, 59, 999_000)],  # noqa: DTZ001
        "raw": {"data": b"bytes", "uri": None},
    }
    assert found["b"]["raw"]["uri"].endswith("/far")
    assert found["b"]["raw"]["data"] is None
    assert {name for name, value in found["c3"].items() if value is not None} == {"id", "code", "i"}
    edges = read(reading, graph, edge="Eats", columns="to,from,since").collect()
    assert [tuple(row) for row in edges] == [("b", "a", date(2020, 1, 1))]


def test_fragments_are_partitions_of_their_own(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(source(graph, type="Ant").reader(None).partitions()) == 1
    monkeypatch.setattr(datasource, "PARTITION_ROWS", 1)
    assert len(source(graph, type="Ant").reader(None).partitions()) == 2
    assert len(ids_here(graph, type="Ant", branch="rev")) == 23


def test_a_dataframe_shows_the_snapshot_it_was_made_of(
    reading: SparkSession, tmp_path: Path
) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    first = graph.insert("Ant", [{"code": "a"}]).commit
    assert first is not None
    early = read(reading, graph, type="Ant", columns="code")
    named = graph.dataframe("Ant", columns=["code"])
    graph.insert("Ant", [{"code": "b"}])
    both = early.union(named).union(graph.dataframe("Eats", columns=["id"]))
    assert [row.code for row in both.collect()] == ["a", "a"]
    assert ids_here(graph, type="Ant", snapshot=first.id) == {"a"}
    assert ids_here(graph, type="Ant") == {"a", "b"}


def source(graph: LocalGraph, **options: str) -> Any:
    return OmnigraphSource({"path": graph.uri, **options})


def ids_here(graph: LocalGraph, *asked: filters.Filter, **options: str) -> set[str]:
    """What the tasks of a read would find, without a task."""
    made = source(graph, columns="id", **options)
    reader = made.reader(made.schema())
    if asked:
        assert list(reader.pushFilters(list(asked))) == list(asked)
    batches = [batch for each in reader.partitions() for batch in reader.read(each)]
    return {found for batch in batches for found in batch["id"].to_pylist()}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (filters.EqualTo(("i",), 7), {"c7"}),
        (filters.GreaterThanOrEqual(("i",), 18), {"c18", "c19"}),
        (filters.LessThanOrEqual(("i",), -0.5), {"a"}),
        (filters.In(("id",), ("a", "c1", "it's")), {"a", "c1"}),
        (filters.IsNotNull(("at",)), {"a"}),
        (filters.EqualTo(("w",), Decimal(2**64 - 1)), {"a"}),
        (filters.GreaterThan(("day",), date(2024, 4, 30)), {"a"}),
        (filters.LessThan(("at",), datetime(2024, 5, 1, 8, 0, 1, tzinfo=UTC)), {"a"}),
        (filters.EqualTo(("b",), True), {"a"}),
        (filters.EqualTo(("i",), 2**40), set()),
    ],
)
def test_a_filter_that_is_pushed_is_decided_by_the_table(
    graph: LocalGraph, asked: filters.Filter, expected: set[str]
) -> None:
    assert ids_here(graph, asked, type="Ant", pushdown="true") == expected


@pytest.mark.parametrize(
    "asked",
    [
        filters.Not(filters.EqualTo(("i",), 7)),
        filters.EqualTo(("d",), float("nan")),
        filters.EqualTo(("at",), datetime(2024, 5, 1)),  # noqa: DTZ001 - the point
        filters.EqualTo(("raw", "uri"), "x"),
        filters.StringContains(("id",), "c"),
    ],
)
def test_a_filter_that_cannot_be_said_exactly_is_left_to_spark(
    graph: LocalGraph, asked: filters.Filter
) -> None:
    reader = source(graph, type="Ant", pushdown="true").reader(None)
    assert list(reader.pushFilters([asked])) == [asked]
    assert reader.where is None


def test_one_dataframe_can_be_filtered_in_several_ways(
    reading: SparkSession, graph: LocalGraph
) -> None:
    ants = read(reading, graph, type="Ant", columns="id,i")
    some = ants.where("i >= 18").union(ants.where("i < 0"))
    assert {row.id for row in some.collect()} == {"a", "c18", "c19"}
    eats = read(reading, graph, edge="Eats")
    joined = eats.join(ants, eats["from"] == ants["id"]).select("to", "i")
    assert [tuple(row) for row in joined.collect()] == [("b", -1)]


@pytest.mark.slow
def test_spark_loses_rows_when_filters_of_one_dataframe_are_pushed(
    reading: SparkSession, graph: LocalGraph
) -> None:
    """Why filters are pushed on request only. If this fails, Spark was mended: push always."""
    reading.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    ants = read(reading, graph, type="Ant", columns="id,i", pushdown="true")
    assert ants.where("i >= 18").count() == 2
    some = ants.where("i >= 18").union(ants.where("i < 0"))
    assert some.count() != 3
    reading.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name one type"),
        ({"type": "Ant", "edge": "Eats"}, "name one type"),
        ({"type": "Bee"}, "there is no table node:Bee"),
        ({"type": "Ant", "columns": "id,x"}, "there is no column 'x'"),
        ({"type": "Ant", "colums": "id"}, "there is no option 'colums'"),
        ({"type": "Ant", "pushdown": "yes"}, "option 'pushdown' is true or false"),
        ({"type": "Ant", "version": "x"}, "option 'version' is a number"),
        ({"type": "Ant", "branch": "nowhere"}, "nowhere"),
        ({"type": "Ant", "branch": "main", "snapshot": "x"}, "name it alone"),
    ],
)
def test_a_wrong_option_is_named(graph: LocalGraph, options: dict[str, str], said: str) -> None:
    with pytest.raises(omnigraph.OmnigraphError, match=said):
        source(graph, **options)


def test_spark_repeats_what_is_wrong(reading: SparkSession, graph: LocalGraph) -> None:
    with pytest.raises(AnalysisException, match="there is no table node:Bee"):
        read(reading, graph, type="Bee")
    with pytest.raises(TypeUnknown):
        graph.dataframe("Bee", spark=reading)
    with pytest.raises(UsageError, match="there is no column"):
        graph.dataframe("Ant", spark=reading, columns=["x"])


def test_credentials_travel_without_being_printed(
    reading: SparkSession, graph: LocalGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    equipped = omnigraph.open(graph.uri, storage_options={"secret_key": "hush-hush"})
    found = equipped.dataframe("Eats")
    assert found.count() == 1
    found.explain(extended=True)
    assert "hush" not in capsys.readouterr().out
    register(reading, storage_options={"secret_key": "hush-hush"})
    assert read(reading, graph, edge="Eats").count() == 1
