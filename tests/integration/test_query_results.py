"""What a read answers with, in every form, and what it looks at."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.compiler.parameters import IntegerEncoding
from omnigraph.engine.settings import AccessMode
from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    NotARead,
    NothingYet,
    QueryNotFound,
    TypeUnknown,
    UsageError,
    VersionNotFound,
)
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.sdk.remote.result import RemoteResult
from omnigraph.storage.durability import Durability

SCHEMA = """
node T {
    name: String @key   big: I64?   huge: U64?   real: F64?   day: Date?   at: DateTime?
    tags: [String]?   vec: Vector(2)?   days: [Date]?   flag: Bool?   bytes: Blob?
}
edge E: T -> T { since: Date? }
"""
EVERYTHING = """query everything() { match { $t: T } return {
  $t.name as name, $t.big as big, $t.huge as huge, $t.real as real, $t.day as day, $t.at as at,
  $t.tags as tags, $t.vec as vec, $t.days as days, $t.flag as flag } order { $t.name } }"""
NAMES = "query names() { match { $t: T } return { $t.name } order { $t.name } }"

FULL = {
    "name": "full",
    "big": 2**53 + 1,
    "huge": 2**64 - 1,
    "real": 0.5,
    "day": "2024-05-01",
    "at": "2024-05-01T08:00:00.123Z",
    "tags": ["a", "b"],
    "vec": [0.5, 1],
    "days": ["2024-05-01"],
    "flag": True,
}


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("T", [FULL, {"name": "void"}])
    return made


def test_json_spells_every_kind_of_value(graph: LocalGraph) -> None:
    full, void = graph.query(EVERYTHING).json_rows()
    assert full == {
        "name": "full",
        "big": 2**53 + 1,
        "huge": 2**64 - 1,
        "real": 0.5,
        "day": "2024-05-01",
        "at": "2024-05-01T08:00:00.123Z",
        "tags": ["a", "b"],
        "vec": [0.5, 1.0],
        "days": ["2024-05-01"],
        "flag": True,
    }
    assert list(full) == [*FULL], "in the order of the projection"
    assert void == {name: "void" if name == "name" else None for name in FULL}


def test_for_javascript_large_integers_are_text(graph: LocalGraph) -> None:
    full, _ = graph.query(EVERYTHING).json_rows(IntegerEncoding.JAVASCRIPT)
    assert (full["big"], full["huge"]) == (str(2**53 + 1), str(2**64 - 1))
    limit = graph.query(
        'query q() { match { $t: T { name: "full" } } return { 9007199254740991 } }'
    )
    assert limit.json_rows(IntegerEncoding.JAVASCRIPT) == [{"literal": 2**53 - 1}]


def test_the_document_names_query_target_columns_and_commit(graph: LocalGraph) -> None:
    document = json.loads(graph.query(NAMES).json())
    assert document == {
        "query_name": "names",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 2,
        "columns": ["t.name"],
        "rows": [{"t.name": "full"}, {"t.name": "void"}],
        "graph_commit_id": graph.commits()[0].id,
    }


def test_python_gets_dates_and_aware_instants(graph: LocalGraph) -> None:
    full, _ = graph.query(EVERYTHING).rows()
    assert full["day"] == date(2024, 5, 1)
    assert full["at"] == datetime(2024, 5, 1, 8, 0, 0, 123_000, UTC)
    assert full["days"] == [date(2024, 5, 1)]
    assert full["vec"] == [0.5, 1.0]


def test_a_date_beyond_pythons_calendar_is_text(graph: LocalGraph) -> None:
    graph.insert("T", [{"name": "later", "day": 10_000_000}])
    body = 'query q() { match { $t: T { name: "later" } } return { $t.day } }'
    assert graph.query(body).rows() == [{"t.day": "+29349-01-26"}]


def test_arrow_keeps_types_and_the_time_of_day(graph: LocalGraph) -> None:
    table = graph.query(EVERYTHING).arrow()
    assert table.schema.field("huge").type == pa.uint64()
    assert table.schema.field("day").type == pa.date32()
    assert table["at"][0].as_py() == datetime(2024, 5, 1, 8, 0, 0, 123_000, UTC)
    assert table["at"][1].as_py() is None


def test_pandas_has_days_that_pythons_calendar_does_not_reach(graph: LocalGraph) -> None:
    far = {"name": "far", "day": 2**31 - 1, "at": 2**62, "days": [0, -(2**31)]}
    graph.insert("T", [far])
    found = graph.query(EVERYTHING)
    remote = RemoteResult(found.arrow(), found.document())
    for frame, rows in ((found.pandas(), found.rows()), (remote.pandas(), remote.rows())):
        assert frame["big"].dtype == pd.ArrowDtype(pa.int64())
        for name in ("day", "at", "days"):
            assert frame[name].dtype == object
            assert frame[name].tolist() == [row[name] for row in rows]
        first = frame.iloc[0]
        assert (first["day"], first["days"]) == (
            "+5881580-07-11",
            [date(1970, 1, 1), "-5877641-06-23"],
        )
        assert frame.iloc[1]["day"] == date(2024, 5, 1)
        assert "+5881580" in frame.to_string()


def test_pandas_keeps_integers_beside_nulls(graph: LocalGraph) -> None:
    frame = graph.query(EVERYTHING).pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["big"][0] == 2**53 + 1
    assert pd.isna(frame["big"][1])


def test_nothing_found_still_has_columns(graph: LocalGraph) -> None:
    body = 'query q() { match { $t: T $t.name = "none" $t e $u } return { $t.name, $u.day } }'
    result = graph.query(body)
    assert len(result) == 0
    assert result.columns == ("t.name", "u.day")
    assert result.arrow().schema.types == [pa.string(), pa.date32()]
    assert result.document()["rows"] == []


# ── the past ─────────────────────────────────────────────────────────────────────────────────────


def names(graph: LocalGraph, **target: object) -> list[object]:
    rows = graph.query(NAMES, **target).rows()  # type: ignore[arg-type]
    return [each["t.name"] for each in rows]


def test_every_way_to_name_a_moment_reads_it(graph: LocalGraph) -> None:
    first = graph.commits()[0]
    snapshot = graph.snapshot()
    graph.branches.create("side")
    graph.delete("T", ["void"], branch="side")
    graph.insert("T", [{"name": "new"}])
    second = graph.commits()[0]
    assert names(graph) == ["full", "new", "void"]
    assert names(graph, branch="side") == ["full"]
    moment = datetime.fromtimestamp(first.created_at_us / 1e6, UTC)
    for target in (
        {"snapshot": snapshot},
        {"snapshot": first.id},
        {"commit": first.id},
        {"version": first.manifest_version},
        {"at": moment},
        {"at": moment.isoformat()},
        {"branch": "side", "at": moment},
    ):
        assert names(graph, **target) == ["full", "void"], target
    assert names(graph, commit=second.id) == ["full", "new", "void"]
    assert graph.query(NAMES, at=moment).target.snapshot == first.id


def test_one_entity_is_found_as_it_was(graph: LocalGraph) -> None:
    before = graph.commits()[0]
    graph.upsert("T", [{"name": "full", "big": 1}])
    found = graph.find("T", "full")
    assert found is not None
    assert (found["id"], found["big"], found["day"]) == ("full", 1, None)
    assert "bytes" not in found, "a Blob is not a value"
    past = graph.find("T", "full", commit=before.id)
    assert past is not None
    assert past["day"] == date(2024, 5, 1)
    assert graph.find("T", "nobody") is None
    with pytest.raises(TypeUnknown):
        graph.find("Unknown", "x")


def test_an_edge_is_found_with_its_ends(graph: LocalGraph) -> None:
    graph.insert("E", [{"id": "e1", "from": "full", "to": "void"}])
    assert graph.find("E", "e1") == {"id": "e1", "from": "full", "to": "void", "since": None}


def test_what_is_not_there_is_said(graph: LocalGraph) -> None:
    for error, target in (
        (BranchNotFound, {"branch": "none"}),
        (CommitNotFound, {"commit": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
        (VersionNotFound, {"version": 999}),
        (NothingYet, {"at": "1999-01-01"}),
        (UsageError, {"at": "1999-01-01", "version": 3}),
        (UsageError, {"branch": "main", "commit": "x"}),
        (UsageError, {"at": "noon"}),
    ):
        with pytest.raises(error):
            names(graph, **target)


def test_what_is_not_a_read_is_refused(graph: LocalGraph) -> None:
    with pytest.raises(NotARead):
        graph.query('query add() { insert T { name: "x" } }')
    with pytest.raises(QueryNotFound):
        graph.query(NAMES, name="other")
    assert len(graph.query(NAMES)) == 2


# ── what operators did ───────────────────────────────────────────────────────────────────────────


def test_an_analysis_tells_rows_time_and_reads_of_every_operator(graph: LocalGraph) -> None:
    graph.insert("E", [{"from": "full", "to": "void"}])
    body = "query q() { match { $t: T $t e $u } return { $t.name, $u.name } }"
    opened = omnigraph.open(graph.uri, read_only=True, query_access=AccessMode.RESIDENT)
    first = opened.explain(body, analyze=True)
    assert [(each["operator"], each["rows"]) for each in first.steps] == [
        ("project $t.name, $u.name", 1),
        ("expand $t -E-> $u: T", 1),
        ("scan $t: T", 2),
    ]
    costs = ("reads", "bytes", "io", "io_bytes")
    assert all(sum(int(str(each[cost])) for each in first.steps) > 0 for cost in costs)
    again = opened.explain(body, analyze=True)
    assert not any(each[cost] for each in again.steps for cost in costs), "all of it is kept"
    assert "[1 row, " in again.text
    counted = opened.explain(
        analyze=True, source="query q() { match { $t: T $t e $u } return { count($u) as n } }"
    )
    assert "1 counted" in counted.text


def test_the_command_analyses_on_the_graph(
    graph: LocalGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.gq").write_text(NAMES)
    command = ["explain", "--analyze", "--store", graph.uri, "--query", str(tmp_path / "q.gq")]
    assert run(command) == 0
    assert "2 rows" in capsys.readouterr().out
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["row_count"] == 2
    assert run([*command, "--schema", "s.pg"]) == 2


def test_the_command_shows_an_entity(graph: LocalGraph, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["entity", "T", "full", "--store", graph.uri]) == 0
    assert "day: 2024-05-01" in capsys.readouterr().out
    assert run(["entity", "T", "gone", "--store", graph.uri, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["entity"] is None


def test_a_path_where_a_program_is_expected_is_answered_with_a_hint(tmp_path: Path) -> None:
    graph = omnigraph.init(str(tmp_path / "hinted"), "node T { name: String @key }")
    for call in (graph.query, graph.mutate, graph.plan_schema):
        with pytest.raises(UsageError, match=r"pass pathlib\.Path\('programs/q\.gq'\)"):
            call("programs/q.gq")
    with pytest.raises(UsageError, match=r"pathlib\.Path\('s\.pg'\)"):
        omnigraph.init(str(tmp_path / "other"), "s.pg")
