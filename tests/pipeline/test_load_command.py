"""`omnigraph load`, from the command line."""

import io
import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.cli.app import run
from omnigraph.errors import UsageError

SCHEMA = "node Person { name: String @key age: I32? }  edge Knows: Person -> Person"
GOOD = (
    '{"type":"Person","data":{"name":"ada"}}\n'
    '{"type":"Person","data":{"name":"bob"}}\n'
    '{"edge":"knows","from":"ada","to":"bob"}\n'
)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001 - starts Spark
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    (tmp_path / "good.jsonl").write_text(GOOD)
    omnigraph.init("g.omni", SCHEMA)
    return tmp_path


def test_a_load_prints_what_it_loaded(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["load", "g.omni", "--data", "good.jsonl", "--mode", "append", "--as", "dana"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[:2] == ["edge:Knows rows=1", "node:Person rows=2"]
    assert lines[2].startswith("loaded 3 rows onto main: commit ")
    assert lines[3] == "actor_id: dana"
    assert f"omnigraph load → {place}/g.omni (direct, local)" in shown.err


@pytest.mark.usefixtures("place")
def test_the_document_has_both_generations_of_names(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["load", "g.omni", "--data", "good.jsonl", "--mode", "merge", "--json"]
    assert run([*command, "--branch", "rev", "--from", "main"]) == 0
    document = json.loads(capsys.readouterr().out)
    graph = omnigraph.open("g.omni")
    assert document.pop("uri") == graph.uri
    assert document.pop("commit")["graph_commit_id"] == graph.commits("rev")[0].id
    assert set(document.pop("timings_ms")) >= {"reading the input", "checking", "committing"}
    assert document == {
        "branch": "rev",
        "base_branch": "main",
        "branch_created": True,
        "mode": "merge",
        "engine": "spark",
        "nodes_loaded": 2,
        "edges_loaded": 1,
        "node_types_loaded": 1,
        "edge_types_loaded": 1,
        "tables": [
            {"table_key": "edge:Knows", "rows_loaded": 1},
            {"table_key": "node:Person", "rows_loaded": 2},
        ],
        "nodes": [{"name": "Person", "entities_loaded": 2}],
        "edges": [{"name": "Knows", "entities_loaded": 1}],
        "total_entities": 3,
        "actor_id": None,
    }


def test_all_rejects_are_written_as_json_lines(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "bad.jsonl").write_text('{"type":"Person","data":{"name":"x","age":"old"}}\n{\n{\n')
    command = ["load", "g.omni", "--data", "bad.jsonl", "--mode", "append", "--max-errors", "2"]
    assert run([*command, "--rejects", "rejects.jsonl"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "bad.jsonl:1: Person.age is I32?: expected an integer, got a string" in shown.err
    assert "and 1 more" in shown.err
    assert "3 of 3 faults are in rejects.jsonl" in shown.err
    first, second, third = map(json.loads, (place / "rejects.jsonl").read_text().splitlines())
    assert first == {
        "file": "bad.jsonl",
        "line": 1,
        "kind": "value",
        "type": "Person",
        "property": "age",
        "ids": [],
        "value": "old",
        "reason": "Person.age is I32?: expected an integer, got a string",
    }
    assert [(each["line"], each["kind"]) for each in (second, third)] == [
        (2, "record"),
        (3, "record"),
    ]


@pytest.mark.usefixtures("place")
def test_standard_input_can_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert run(["load", "g.omni", "--data", "-", "--mode", "append"]) == 0
    assert "loaded 3 rows onto main" in capsys.readouterr().out


@pytest.mark.usefixtures("place")
def test_the_old_name_still_works_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ingest", "g.omni", "--data", "good.jsonl", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["mode"] == "merge"
    assert "'ingest' is now 'load'" in shown.err


@pytest.mark.usefixtures("place")
def test_a_mode_there_is_not_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["load", "g.omni", "--data", "good.jsonl", "--mode", "replace"]) == 2
    assert "append, merge or overwrite, not 'replace'" in capsys.readouterr().err
    with pytest.raises(UsageError):
        omnigraph.open("g.omni").load("good.jsonl", mode="replace")


@pytest.mark.usefixtures("place")
def test_python_loads_several_files_at_once() -> None:
    Path("more.jsonl").write_text('{"type":"Person","data":{"name":"eve"}}\n')
    graph = omnigraph.open("g.omni")
    result = graph.load([Path("good.jsonl"), "more.jsonl"], mode="append", actor="dana")
    assert dict(result.counts) == {"edge:Knows": 1, "node:Person": 3}
    assert result.commit == graph.commits()[0]


@pytest.mark.usefixtures("place")
def test_progress_is_shown_when_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["load", "g.omni", "--data", "good.jsonl", "--mode", "append", "--json"]
    assert run([*command, "--progress"]) == 0
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert lines.index("reading the input …") < lines.index("reading the input: 3 rows")
    assert any(line.startswith("committing: ") and line.endswith(" s") for line in lines)
    assert json.loads(shown.out)["total_entities"] == 3
    assert run(["load", "g.omni", "--data", "good.jsonl", "--mode", "merge", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
