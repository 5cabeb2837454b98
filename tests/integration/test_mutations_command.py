"""`omnigraph mutate`, as people and scripts meet it."""

import json
from pathlib import Path

import pytest

from omnigraph.cli.app import run

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
QUERIES = """
query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query meet($a: String, $b: String) { insert Knows { from: $a, to: $b } }
"""
ADD = 'query add() { insert Person { name: "ann" } }'

Streams = pytest.CaptureFixture[str]


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Streams) -> str:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMNIGRAPH_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.pg").write_text(SCHEMA)
    (tmp_path / "queries.gq").write_text(QUERIES)
    assert run(["init", "g", "--schema", "schema.pg"]) == 0
    capsys.readouterr()
    return "g"


def head(graph: str, capsys: Streams) -> str:
    capsys.readouterr()
    assert run(["commit", "list", graph, "--json"]) == 0
    commits = json.loads(capsys.readouterr().out)["commits"]
    return str(commits[0]["graph_commit_id"])


def test_a_query_of_a_file_is_run_by_name_with_parameters(graph: str, capsys: Streams) -> None:
    command = ["mutate", "add", "--store", graph, "--query", "queries.gq", "--as", "dana"]
    assert run([*command, "--params", '{"name": "ann", "age": 3}']) == 0
    streams = capsys.readouterr()
    assert streams.out == "changed main via add: 1 node, 0 edges\nactor_id: dana\n"
    assert streams.err.startswith("omnigraph mutate → ")


def test_the_json_names_counts_actor_and_commit(graph: str, capsys: Streams) -> None:
    assert run(["mutate", "--store", graph, "-e", ADD, "--json", "--quiet"]) == 0
    streams = capsys.readouterr()
    assert streams.err == ""
    found = json.loads(streams.out)
    commit = found.pop("commit")
    assert found == {
        "branch": "main",
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": None,
    }
    assert commit["graph_commit_id"] == head(graph, capsys)


def test_parameters_come_from_a_file_and_the_graph_as_an_argument(
    graph: str, capsys: Streams
) -> None:
    Path("params.json").write_text('{"name": "bob"}')
    command = ["mutate", "add", graph, "--query", "queries.gq", "--params-file", "params.json"]
    assert run([*command, "--branch", "main"]) == 0
    assert "1 node" in capsys.readouterr().out


def test_nothing_to_do_is_a_success_without_a_commit(graph: str, capsys: Streams) -> None:
    text = 'query q() { delete Person where name = "nobody" }'
    assert run(["mutate", "--store", graph, "-e", text, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["commit"] is None


def test_a_lost_compare_and_set_exits_with_4(graph: str, capsys: Streams) -> None:
    before = head(graph, capsys)
    command = ["mutate", "--store", graph, "-e", ADD, "--if-commit", before]
    assert run(command) == 0
    assert run(command) == 4
    assert before in capsys.readouterr().err
    assert run([*command, "--errors", "json"]) == 4
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["code"] == "head_moved"


def test_a_rejected_write_exits_with_1_and_tells_every_violation(
    graph: str, capsys: Streams
) -> None:
    command = ["mutate", "meet", "--store", graph, "--query", "queries.gq"]
    assert run([*command, "--params", '{"a": "x", "b": "y"}', "--json"]) == 1
    streams = capsys.readouterr()
    violations = json.loads(streams.out)["facts"]["violations"]
    assert [each["property_name"] for each in violations] == ["src", "dst"]
    assert "src 'x' not found in Person" in streams.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-e", ADD, "--query", "queries.gq"],
        ["-e", ADD, "--params", "{"],
        ["-e", ADD, "--params", "[1]"],
        ["-e", ADD, "--params", "{}", "--params-file", "params.json"],
    ],
)
def test_a_wrong_command_line_exits_with_2(
    graph: str, capsys: Streams, arguments: list[str]
) -> None:
    assert run(["mutate", "--store", graph, *arguments]) == 2
    assert capsys.readouterr().out == ""


def test_the_old_name_still_works(graph: str, capsys: Streams) -> None:
    assert run(["change", "--store", graph, "-e", ADD]) == 0
    assert "'change' is now 'mutate'" in capsys.readouterr().err


def test_a_missing_query_file_is_named(graph: str, capsys: Streams) -> None:
    assert run(["mutate", "--store", graph, "--query", "nowhere.gq"]) == 1
    assert "nowhere.gq" in capsys.readouterr().err
