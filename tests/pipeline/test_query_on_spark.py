"""`graph.spark(…).query`, and `omnigraph query --engine spark`."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, TimestampType

import omnigraph
from omnigraph.cli.app import run
from omnigraph.cli.hints import find_hint
from omnigraph.errors import ParameterInvalid, QueryMemoryExceeded, UsageError
from omnigraph.pipeline.queries import ranking
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
node Ant {
    code: String @key  w: U64?  at: DateTime?  l: I64?  f: F64?  vec: Vector(2)?  text: String?
}
edge Eats: Ant -> Ant
"""
MORE = "query more($c: String, $w: U64) { insert Ant { code: $c, w: $w } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    folder = tmp_path_factory.mktemp("queries")
    made = omnigraph.init(folder / "g", SCHEMA, durability=Durability.RELAXED)
    at = "2024-05-01T08:00:00.125"
    ants = [
        {"code": "a", "w": 2**64 - 1, "at": at, "l": 2**53 + 1, "f": 2.0**53, "vec": [0, 0]},
        {"code": "b", "w": 1, "l": 2**63 - 1, "f": 2.0**63, "vec": [1, 0], "text": "red ants"},
        {"code": "c", "vec": [2, 0], "text": "black ants"},
    ]
    lines = [json.dumps({"type": "Ant", "data": each}) for each in ants]
    lines += [json.dumps({"edge": "eats", "from": x, "to": y}) for x, y in ("ab", "bc", "cc")]
    source = folder / "ants.jsonl"
    source.write_text("\n".join(lines))
    made.load(str(source), mode="append", engine="local")
    return made


def test_a_result_has_the_types_of_the_source(spark: SparkSession, graph: LocalGraph) -> None:
    found = graph.spark(spark).query(
        "query q($c: String) { match { $a: Ant { code: $c } } return { $a.w, $a.at, now() as n } }",
        {"c": "a"},
    )
    kinds = [field.dataType for field in found.schema.fields]
    assert kinds == [DecimalType(20, 0), TimestampType(), TimestampType()]
    (first,), (again,) = found.collect(), found.collect()
    assert first == again, "now() is bound once"
    assert first[0] == Decimal(2**64 - 1)
    assert first[1].astimezone(UTC) == datetime(2024, 5, 1, 8, 0, 0, 125_000, tzinfo=UTC)


def test_integers_compare_exactly_with_floats(spark: SparkSession, graph: LocalGraph) -> None:
    text = "query q() { match { $a: Ant $a.l %s $a.f } return { $a.code } }"
    for comparator, expected in ((">", ["a"]), ("=", []), ("<", ["b"]), ("!=", ["a", "b"])):
        found = graph.spark(spark).query(text % comparator).collect()
        assert sorted(each[0] for each in found) == expected, comparator


def test_a_dataframe_shows_the_snapshot_it_was_made_from(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    graph.mutate(MORE, {"c": "x", "w": 1})
    first = graph.commits()[0].id
    text = "query q() { match { $a: Ant } return { count($a) as n } }"
    before = graph.spark(spark).query(text)
    graph.mutate(MORE, {"c": "y", "w": 2})
    assert before.collect()[0][0] == 1
    assert graph.spark(spark).query(text).collect()[0][0] == 2
    assert graph.spark(spark).query(text, commit=first).collect()[0][0] == 1


def test_the_driver_ranks_and_a_limit_is_needed(
    spark: SparkSession, graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = (
        "query q($v: Vector(2)) { match { $a: Ant %s } return { $a.code } "
        "order { nearest($a.vec, $v) } limit 2 }"
    )
    on_spark = graph.spark(spark)
    plain = on_spark.query(near % "", {"v": [3, 0]}).collect()
    assert [each[0] for each in plain] == ["c", "b"]
    walked = on_spark.query(near % "$b: Ant $b eats $a", {"v": [3, 0]}).collect()
    assert [each[0] for each in walked] == ["c", "c"]
    text = (
        "query q($t: String) { match { $a: Ant } return { $a.code } order { bm25($a.text, $t) } }"
    )
    with pytest.raises(UsageError, match="a limit"):
        on_spark.query(text, {"t": "ants"})
    monkeypatch.setattr(ranking, "CANDIDATES_MAX", 1)
    with pytest.raises(UsageError, match="keeps 2 nodes"):
        on_spark.query(near % "$b: Ant $b eats $a", {"v": [3, 0]})


def test_paths_are_refused_on_spark(spark: SparkSession, graph: LocalGraph) -> None:
    walked = "query q() { match { $a: Ant  shortest { $a eats{1,2} $b } as $p } return { %s } }"
    on_spark = graph.spark(spark)
    with pytest.raises(UsageError, match="shortest paths are found in the process"):
        on_spark.query(walked % "length($p) + 1 as n")
    assert on_spark.query(walked % "$b.code").count()


def test_faults_of_a_query_are_told_before_spark_runs(
    spark: SparkSession, graph: LocalGraph
) -> None:
    text = "query q($c: String) { match { $a: Ant { code: $c } } return { $a.code } }"
    with pytest.raises(ParameterInvalid):
        graph.spark(spark).query(text, {"c": 1})


QUERY = "query q() { match { $a: Ant $a eats $b } return { $a.code, $b.code as other } }"


def test_explain_shows_both_plans(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    graph: LocalGraph,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "q.gq").write_text(QUERY)
    command = ["explain", graph.uri, "--query", str(tmp_path / "q.gq"), "--engine", "spark"]
    assert run(command) == 0
    ours, sparks = capsys.readouterr().out.split("On Spark:")
    assert "Ant" in ours
    assert "MapInArrow" in sparks


def test_the_command_writes_a_folder(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    graph: LocalGraph,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "out"
    command = ["query", graph.uri, "-e", QUERY, "--engine", "spark", "--output", str(folder)]
    assert run([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "parquet"
    rows = pq.read_table(folder).to_pylist()
    pairs = sorted(tuple(each.values()) for each in rows)
    assert pairs == [("a", "b"), ("b", "c"), ("c", "c")]
    assert run(command) != 0
    assert "there is something at" in capsys.readouterr().err
    assert run(command[:-2]) != 0
    assert "--output" in capsys.readouterr().err


def test_a_query_that_needs_too_much_memory_says_how_to_go_on() -> None:
    error = QueryMemoryExceeded("sort", needed=2, allowed=1, setting="query_memory_bytes_max")
    assert "--engine spark --output" in (find_hint(error) or "")


def test_ids_are_read_like_properties(spark: SparkSession, graph: LocalGraph) -> None:
    found = graph.spark(spark).query(
        'query q() { match { $a: Ant  $a $e:eats $b  $b.@id != "c" } '
        "return { $a.@id, $e.@src, $e.@dst } }"
    )
    assert [tuple(row) for row in found.collect()] == [("a", "a", "b")]
