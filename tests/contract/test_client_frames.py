"""Tables and numbers of other libraries go into a graph and come out, embedded and served alike."""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.load.inputs import Format, Input
from omnigraph.errors import ConstraintViolation, ExtraMissing, LoadRejected, UsageError
from omnigraph.sdk.client import GraphClient
from omnigraph.server.runtime.settings import Flags
from support.serving import running

pl = import_module("polars")

SCHEMA = """
node Person {
  name: String @key  age: I32?  score: F64?  ok: Bool?  day: Date?  at: DateTime?
  tags: [String]?  v: Vector(2)?
}
edge Knows: Person -> Person
"""
ALL = """query q($least: I32?) {
  match { $p: Person }
  return {
    $p.name as name, $p.age as age, $p.score as score, $p.ok as ok, $p.day as day, $p.at as at,
    $p.tags as tags, $p.v as v
  } order { name }
}"""
FULL = {
    "age": 36,
    "score": 1.5,
    "ok": True,
    "day": date(2024, 5, 1),
    "at": datetime(2024, 5, 1, 12, 30, tzinfo=UTC),
    "tags": ["a", "b"],
    "v": [1.0, 2.0],
}
EMPTY = dict.fromkeys(FULL)
MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": lambda columns: pl.DataFrame(columns).lazy(),
    "table": pa.table,
    "reader": lambda columns: pa.table(columns).to_reader(),
    "duckdb": lambda columns: duckdb.from_arrow(pa.table(columns)),
}


@pytest.fixture(params=["embedded", "served"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphClient]:
    embedded = omnigraph.init(tmp_path / "g", SCHEMA)
    if request.param == "embedded":
        yield embedded
        return
    flags = Flags(graphs=(f"g={embedded.uri}",), unauthenticated=True)
    with running(flags) as server, omnigraph.connect(server.url, graph="g") as remote:
        yield remote


def columns_of(*names: str) -> dict[str, Any]:
    """The first row is full, the others have only a name."""
    rest = [None] * (len(names) - 1)
    return {"name": list(names), **{name: [value, *rest] for name, value in FULL.items()}}


def test_every_kind_of_table_is_inserted_upserted_and_loaded(graph: GraphClient) -> None:
    for kind, make in MAKERS.items():
        graph.insert("Person", make(columns_of(f"{kind}-1", f"{kind}-2")))
        graph.upsert("Person", make(columns_of(f"{kind}-2", f"{kind}-3")))
        frame = make(columns_of(f"{kind}-4", f"{kind}-3"))
        assert graph.load(frame, mode="merge", type="Person").counts == {"node:Person": 2}
    expected = [
        {"name": f"{kind}-{number}", **(FULL if number != 3 else EMPTY)}
        for kind in sorted(MAKERS)
        for number in (1, 2, 3, 4)
    ]
    assert list(graph.query(ALL)) == expected


def test_columns_of_a_table_are_mapped(graph: GraphClient) -> None:
    frame = pd.DataFrame({"who": pd.Categorical(["ada", "bo"]), "age": [1, None], "ok": None})
    graph.load(frame, mode="append", type="Person", mapping={"name": "who"})
    graph.load(pl.DataFrame({"from": ["ada"], "to": ["bo"]}), mode="append", edge="Knows")
    rows = list(graph.query(ALL))
    assert [(row["name"], row["age"], row["ok"]) for row in rows] == [
        ("ada", 1, None),
        ("bo", None, None),
    ]
    assert (
        len(graph.query("query q() { match { $p: Person  $p knows $q } return { $q.name } }")) == 1
    )


def test_a_file_is_read_as_its_input_says(graph: GraphClient, tmp_path: Path) -> None:
    people, ties = tmp_path / "people.txt", tmp_path / "ties.csv"
    people.write_text('a line\nada;36;01.05.2024\nthe "bo";-;02.05.2024\n')
    ties.write_text("36\n")
    table = Input(
        str(people),
        type="Person",
        format=Format.CSV,
        delimiter=";",
        null="-",
        header=("name", "age", "when"),
        skip=1,
        is_quoted=False,
        mapping={"day": "when"},
        patterns={"day": "%d.%m.%Y"},
        constants={"ok": "true", "score": "1.5"},
    )
    graph.load(table, mode="append")
    edges = Input(
        str(ties),
        edge="Knows",
        header=(),
        mapping={"from": "1"},
        constants={"to": 'the "bo"'},
        lookups={"from": "Person.age"},
    )
    graph.load([edges], mode="append")
    rows = [(row["name"], row["age"], row["day"], row["ok"]) for row in graph.query(ALL)]
    assert rows == [
        ("ada", 36, date(2024, 5, 1), True),
        ('the "bo"', None, date(2024, 5, 2), True),
    ]
    known = "query q() { match { $p: Person  $p knows $q } return { $p.name, $q.name as q } }"
    assert graph.query(known).rows() == [{"p.name": "ada", "q": 'the "bo"'}]


def test_a_server_takes_one_kind_of_table_in_a_load() -> None:
    one, other = Input("a.csv", type="Person"), Input("b.csv", edge="Knows")
    remote = omnigraph.connect("http://127.0.0.1:9", graph="g")
    with pytest.raises(UsageError, match="different tables"):
        remote.load([one, other], mode="append")
    with pytest.raises(UsageError, match="comma"):
        remote.load(Input("a.csv", type="Person", header=("a,b",)), mode="append")


def test_tables_and_files_are_one_load(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    file = tmp_path / "more.jsonl"
    file.write_text('{"type":"Person","data":{"name":"cy"}}\n')
    inputs = [Input(pa.table({"name": ["ada"]}), type="Person"), Input(str(file))]
    result = graph.load(inputs, mode="append", idempotency_key="k")
    assert result.counts == {"node:Person": 2}
    assert graph.load(inputs, mode="append", idempotency_key="k").commit == result.commit


def test_numpy_scalars_and_arrays_are_numbers_and_lists(graph: GraphClient) -> None:
    row = {
        "name": np.str_("ada"),
        "age": np.int64(36),
        "score": np.float32(1.5),
        "ok": np.bool_(True),
        "day": np.datetime64("2024-05-01"),
        "at": np.datetime64("2024-05-01T12:30:00.000000000"),
        "tags": np.array(["a", "b"]),
        "v": np.array([1, 2], dtype=np.float32),
    }
    graph.insert("Person", [row])
    assert list(graph.query(ALL)) == [{"name": "ada", **FULL}]
    older = "query q($least: I32) { match { $p: Person  $p.age > $least } return { $p.name } }"
    assert len(graph.query(older, params={"least": np.int16(35)})) == 1
    birthday = "query q($n: I32) { update Person set { age: $n } where name = 'ada' }".replace(
        "'", '"'
    )
    graph.mutate(birthday, {"n": np.int32(37)})
    assert next(iter(graph.query(ALL)))["age"] == 37


def test_what_is_wrong_with_a_table_is_said_in_its_terms(graph: GraphClient) -> None:
    with pytest.raises(UsageError, match="row 2 is a list"):
        graph.insert("Person", [{"name": "ada"}, ["bo"]])
    with pytest.raises(UsageError, match="not one mapping"):
        graph.insert("Person", {"name": "ada"})
    with pytest.raises(UsageError, match="row 1 is a str"):
        graph.insert("Person", pd.Series(["ada"]))
    with pytest.raises(ConstraintViolation, match="age"):
        graph.insert("Person", pd.DataFrame({"name": ["ada"], "age": ["old"]}))
    with pytest.raises(LoadRejected, match="age"):
        graph.load(pa.table({"name": ["ada"], "age": ["old"]}), mode="append", type="Person")
    with pytest.raises(UsageError, match="is a table"):
        graph.load(pl.DataFrame({"name": ["ada"]}), mode="append")


def test_a_result_becomes_what_every_library_has(
    graph: GraphClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.insert("Person", pa.table(columns_of("ada", "bo")))
    found = graph.query(ALL)
    assert found.arrow().num_rows == len(found.pandas()) == 2
    assert found.polars().rows(named=True) == pl.DataFrame(found).rows(named=True)
    assert found.polars()["age"].to_list() == [36, None]
    asked = duckdb.sql("select name from found where age > 30")
    assert asked is not None
    assert asked.fetchall() == [("ada",)]
    assert "<td>ada</td>" in found._repr_html_()
    graph.upsert("Person", found)
    assert list(graph.query(ALL)) == list(found)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ExtraMissing, match=r"omnigraph\[polars\]"):
        found.polars()
