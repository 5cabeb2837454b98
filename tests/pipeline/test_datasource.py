"""`spark.read.format("omnigraph")` and `graph.dataframe`."""

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    GreaterThanOrEqual as AtLeast,
    InputPartition,
)
from pyspark.sql.types import StructType

import omnigraph
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.pipeline import datasource, register
from omnigraph.pipeline.datasource import OmnigraphSource
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

PUSHES = "spark.sql.python.filterPushdown.enabled"

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


def ids_here(graph: LocalGraph, **options: str) -> set[str]:
    """What the tasks of a read would find, without a task."""
    made = source(graph, columns="id", **options)
    reader = made.reader(made.schema())
    batches = [batch for each in reader.partitions() for batch in reader.read(each)]
    return {found for batch in batches for found in batch["id"].to_pylist()}


def test_one_dataframe_can_be_filtered_in_several_ways(
    reading: SparkSession, graph: LocalGraph
) -> None:
    ants = read(reading, graph, type="Ant", columns="id,i")
    some = ants.where("i >= 18").union(ants.where("i < 0"))
    assert {row.id for row in some.collect()} == {"a", "c18", "c19"}
    eats = read(reading, graph, edge="Eats")
    joined = eats.join(ants, eats["from"] == ants["id"]).select("to", "i")
    assert [tuple(row) for row in joined.collect()] == [("b", -1)]


def test_filters_of_one_dataframe_are_never_mixed_up(
    reading: SparkSession, graph: LocalGraph
) -> None:
    """Whatever Spark is set to."""
    reading.conf.set(PUSHES, "true")
    try:
        ants = read(reading, graph, type="Ant", columns="id,i")
        counts = [ants.where("i >= 18").count(), ants.where("i < 3").count(), ants.count()]
        assert counts == [2, 4, 22]
        assert ants.where("i >= 18").union(ants.where("i < 0")).count() == 3
    finally:
        reading.conf.unset(PUSHES)


class Ten(DataSource):
    """The numbers below ten, and what Spark pushes of filters."""

    @classmethod
    def name(cls) -> str:
        return "ten"

    def schema(self) -> str:
        return "i int"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's
        class Reader(DataSourceReader):
            low = 0

            def pushFilters(self, asked: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's
                self.low = max(
                    [each.value for each in asked if isinstance(each, AtLeast)], default=0
                )
                yield from asked

            def read(self, partition: InputPartition) -> Iterator[tuple[int]]:  # noqa: ARG002
                return ((number,) for number in range(self.low, 10))

        return Reader()


def test_spark_keeps_what_it_pushed_for_one_use_of_a_dataframe_for_every_other(
    reading: SparkSession,
) -> None:
    """Why filters are not pushed. If this fails, Spark was mended: push them (docs/adr/0011)."""
    reading.conf.set(PUSHES, "true")
    try:
        reading.dataSource.register(Ten)
        numbers = reading.read.format("ten").load()
        assert numbers.where("i >= 8").count() == 2
        assert numbers.count() == 2, "and not 10"
    finally:
        reading.conf.unset(PUSHES)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name one type"),
        ({"type": "Ant", "edge": "Eats"}, "name one type"),
        ({"type": "Bee"}, "there is no table node:Bee"),
        ({"type": "Ant", "columns": "id,x"}, "there is no column 'x'"),
        ({"type": "Ant", "colums": "id"}, "there is no option 'colums'"),
        ({"type": "Ant", "pushdown": "true"}, "no option 'pushdown' any more"),
        ({"type": "Ant", "version": "x"}, "option 'version' is a number"),
        ({"type": "Ant", "version": "1", "at": "2020-01-01"}, "looks at one moment"),
        ({"type": "Ant", "at": "yesterday"}, "a time is written such as"),
        ({"type": "Ant", "at": "2020-01-01"}, "main"),
        ({"type": "Ant", "branch": "nowhere"}, "nowhere"),
        ({"type": "Ant", "branch": "main", "snapshot": "x"}, "name it alone"),
    ],
)
def test_a_wrong_option_is_named(graph: LocalGraph, options: dict[str, str], said: str) -> None:
    with pytest.raises(omnigraph.OmnigraphError, match=said):
        source(graph, **options).schema()


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
    equipped = omnigraph.open(graph.uri, storage_options={"secret_access_key": "hush-hush"})
    found = equipped.dataframe("Eats")
    assert found.count() == 1
    found.explain(extended=True)
    assert "hush" not in capsys.readouterr().out
    register(reading, storage_options={"secret_access_key": "hush-hush"})
    assert read(reading, graph, edge="Eats").count() == 1
