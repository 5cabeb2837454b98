"""`omnigraph query`, as people and scripts meet it."""

import json
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

import omnigraph
from omnigraph.cli.app import run
from omnigraph.storage.durability import Durability

SCHEMA = "node Person { name: String @key  age: I32?  big: I64?  tags: [String]? }"
QUERIES = """
query everyone() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }
query older($than: I32) { match { $p: Person $p.age > $than } return { $p.name } }
query add() { insert Person { name: "Cy" } }
"""
ODD = 'match { $p: Person { name: "a,\\"b\\"" } } return { $p.name, $p.tags, $p.age }'

Streams = pytest.CaptureFixture[str]


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMNIGRAPH_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries.gq").write_text(QUERIES)
    made = omnigraph.init("g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": "Ada", "age": 36}, {"name": "Bo"}])
    return "g"


def printed(capsys: Streams, *arguments: str) -> str:
    assert run(["query", "--store", "g", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("graph")
def test_a_table_is_what_people_get(capsys: Streams) -> None:
    out = printed(capsys, "everyone", "--query", "queries.gq")
    assert out.splitlines() == [
        "2 rows from branch main via everyone",
        "p.name | p.age",
        "-------+------",
        "Ada    | 36",
        "Bo     | null",
    ]


def configure(defaults: str) -> None:
    Path("home").mkdir(exist_ok=True)
    Path("home/config.yaml").write_text(f"defaults: {{ store: g, {defaults} }}")


@pytest.mark.usefixtures("graph")
def test_the_configuration_says_how_rows_are_printed(capsys: Streams) -> None:
    asked = ["query", "everyone", "--query", "queries.gq"]
    configure("output: csv")
    assert run(asked) == 0
    assert capsys.readouterr().out == "p.name,p.age\nAda,36\nBo,\n"
    assert run([*asked, "--format", "kv"]) == 0
    assert "row 1\n" in capsys.readouterr().out
    assert run([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["row_count"] == 2
    assert run(["profile", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output_format"] == "csv"
    configure("output: xml")
    assert run(asked) == 1
    assert "'xml' is none of table, kv" in capsys.readouterr().err


@pytest.mark.usefixtures("graph")
def test_a_terminal_gets_wide_cells_cut_and_a_pipe_gets_them_whole(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = ["query", "-e", "query q() { match { $p: Person } return { $p.name } }"]
    omnigraph.open("g").insert("Person", [{"name": "one two three four"}])
    configure("table_max_column_width: 10")
    assert run(query) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["-" * 18, "Ada", "Bo", "one two three four"]
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        assert run(query) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["-" * 10, "Ada", "Bo", "one two t…"]
    configure("table_max_column_width: 1, table_cell_layout: wrap")
    assert run(query) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == ["one two", "three fo", "ur"], "eight is the least"


@pytest.mark.usefixtures("graph")
def test_columns_align_by_the_width_of_their_characters(capsys: Streams) -> None:
    omnigraph.open("g").insert(
        "Person", [{"name": "東京タワー", "age": 1}, {"name": "e\u0301", "age": 2}]
    )
    query = "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.age } }"
    lines = printed(capsys, "-e", query).splitlines()[1:]
    assert {cell_len(line.partition("|")[0].partition("+")[0]) for line in lines} == {11}


@pytest.mark.usefixtures("graph")
def test_a_field_that_holds_a_line_end_of_any_kind_is_quoted(capsys: Streams) -> None:
    omnigraph.open("g").insert("Person", [{"name": "a\rb"}, {"name": "c\nd"}, {"name": 'e"f'}])
    out = printed(capsys, "everyone", "--query", "queries.gq", "--format", "csv")
    assert out == 'p.name,p.age\nAda,36\nBo,\n"a\rb",\n"c\nd",\n"e""f",\n'


@pytest.mark.usefixtures("graph")
def test_pairs_lines_and_commas(capsys: Streams) -> None:
    asked = ("everyone", "--query", "queries.gq", "--format")
    assert printed(capsys, *asked, "kv") == (
        "2 rows from branch main via everyone\nrow 1\np.name: Ada\np.age: 36\n\n"
        "row 2\np.name: Bo\np.age: null\n"
    )
    assert [json.loads(line) for line in printed(capsys, *asked, "jsonl").splitlines()] == [
        {"p.name": "Ada", "p.age": 36},
        {"p.name": "Bo", "p.age": None},
    ]
    assert printed(capsys, *asked, "csv") == "p.name,p.age\nAda,36\nBo,\n"


def test_a_cell_of_a_spreadsheet_is_quoted_when_it_must_be(graph: str, capsys: Streams) -> None:
    omnigraph.open(graph).insert("Person", [{"name": 'a,"b"', "tags": ["x", "y"]}])
    out = printed(capsys, "-e", f"query odd() {{ {ODD} }}", "--format", "csv")
    assert out.splitlines()[1] == '"a,""b""","[""x"",""y""]",'


@pytest.mark.usefixtures("graph")
def test_json_is_the_document_of_the_result(capsys: Streams) -> None:
    out = printed(capsys, "older", "--query", "queries.gq", "--params", '{"than": 30}', "--json")
    document = json.loads(out)
    assert document.pop("graph_commit_id")
    assert document == {
        "query_name": "older",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["p.name"],
        "rows": [{"p.name": "Ada"}],
    }


@pytest.mark.usefixtures("graph")
def test_a_mutation_is_not_run_as_a_query(capsys: Streams) -> None:
    assert run(["query", "add", "--store", "g", "--query", "queries.gq"]) == 1
    assert "changes the graph" in capsys.readouterr().err


@pytest.mark.usefixtures("graph")
def test_the_old_name_still_works(capsys: Streams) -> None:
    assert run(["read", "everyone", "--store", "g", "--query", "queries.gq"]) == 0
    streams = capsys.readouterr()
    assert "is now 'query'" in streams.err
    assert streams.out.startswith("2 rows")


def test_the_past_is_read_by_commit_version_and_time(graph: str, capsys: Streams) -> None:
    opened = omnigraph.open(graph)
    before = opened.commits()[0]
    opened.insert("Person", [{"name": "Cy"}])
    asked = ("everyone", "--query", "queries.gq")
    assert "3 rows from branch main" in printed(capsys, *asked)
    assert f"2 rows from snapshot {before.id}" in printed(capsys, *asked, "--snapshot", before.id)
    version = str(before.manifest_version)
    assert "2 rows from branch main" in printed(capsys, *asked, "--version", version)
    assert run(["query", *asked, "--store", graph, "--at", "1999-01-01T00:00:00Z"]) == 1
    assert "has no commit" in capsys.readouterr().err
    assert run(["query", *asked, "--store", graph, "--at", "yesterday"]) == 2
    assert run(["query", *asked, "--store", graph, "--branch", "main", "--snapshot", "x"]) == 2
