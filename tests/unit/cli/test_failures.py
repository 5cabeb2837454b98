"""A command that fails tells a program so: one object on stdout, whatever went wrong."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from omnigraph.cli.app import app, run

Streams = pytest.CaptureFixture[str]


def find_commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command there is, hidden ones too, by the words that call it."""
    if not hasattr(command, "list_commands"):
        yield words
        return
    for name in command.list_commands(None):
        yield from find_commands(command.get_command(None, name), (*words, name))


COMMANDS = sorted(find_commands(typer.main.get_command(app)))


def told(capsys: Streams) -> dict[str, Any]:
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    assert document.keys() >= {"error", "code", "facts", "retryable"}
    assert document["error"]
    return document


def test_all_commands_are_found() -> None:
    assert {("branch", "merge"), ("ingest",), ("version",), ("profile", "show")} <= {*COMMANDS}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("wrong", [["--no-such-flag"], ["--store"]], ids=["unknown", "valueless"])
def test_a_wrong_command_line_is_told_as_json(
    words: tuple[str, ...], wrong: list[str], capsys: Streams
) -> None:
    # A flag without its value has to come last, and what is unknown before what may be unknown too.
    given = ["--json", *wrong] if wrong == ["--store"] else [*wrong, "--json"]
    assert run([*words, *given]) == 2
    document = told(capsys)
    assert (document["code"], document["retryable"]) == ("usage", False)
    assert wrong[0] in document["error"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["branch", "create"], "'NAME'"),
        (["lint"], "'--query'"),
        (["cleanup", "g", "--keep", "many"], "'--keep'"),
        (["branch", "merg"], "merg"),
        (["nonsense"], "nonsense"),
        (["branch"], "--json"),
        (["query", "--errors", "xml"], "xml"),
        (["query", "--config", "x"], "--config"),
        (["branch", "merge", "b", "g.omni", "--conflicts", "f"], "--dry-run"),
    ],
    ids=" ".join,
)
def test_what_is_missing_or_does_not_fit_is_named(
    words: list[str], named: str, capsys: Streams
) -> None:
    assert run([*words, "--json"]) == 2
    document = told(capsys)
    assert document["code"] == "usage"
    assert named in document["error"]


FAILURES: list[tuple[list[str], str]] = [
    (
        ["query", "-e", "query q() { match { $a: A } return { $a.x } }", "--store"],
        "graph_not_found",
    ),
    (["mutate", "-e", "query q() { insert A { x: 1 } }", "--store"], "graph_not_found"),
    (["entity", "A", "x", "--store"], "graph_not_found"),
    (["load", "--data", "none.jsonl", "--mode", "append"], "graph_not_found"),
    (["export", "--output", "out.jsonl"], "graph_not_found"),
    (["snapshot"], "graph_not_found"),
    (["index"], "graph_not_found"),
    (["branch", "create", "b"], "graph_not_found"),
    (["branch", "list"], "graph_not_found"),
    (["branch", "delete", "b"], "graph_not_found"),
    (["branch", "merge", "b"], "graph_not_found"),
    (["commit", "list"], "graph_not_found"),
    (["commit", "show", "01X", "--uri"], "graph_not_found"),
    (["diff", "a..b"], "graph_not_found"),
    (["changes", "poll", "--start", "now"], "graph_not_found"),
    (["recovery", "list"], "graph_not_found"),
    (["recovery", "show", "01X"], "graph_not_found"),
    (["schema", "show"], "graph_not_found"),
    (["optimize"], "graph_not_found"),
    (["repair"], "graph_not_found"),
    (["cleanup", "--keep", "1", "--confirm"], "graph_not_found"),
    (["doctor"], "graph_not_found"),
    (["blob", "stat", "node", "A", "x", "p", "--store"], "graph_not_found"),
]


@pytest.mark.parametrize(
    ("words", "code"), FAILURES, ids=[" ".join(each[:2]) for each, _ in FAILURES]
)
def test_a_graph_that_is_not_there_is_told_as_json(
    words: list[str], code: str, tmp_path: Path, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    assert run([*words, str(tmp_path / "none.omni"), "--json"]) == 1
    document = told(capsys)
    assert (document["code"], document["retryable"]) == (code, False)
    assert str(tmp_path / "none.omni") in document["error"]


OTHERS: list[tuple[list[str], str]] = [
    (["lint", "--query", "none.gq", "--schema", "none.pg"], "file_unreadable"),
    (["explain", "--query", "none.gq", "--schema", "none.pg"], "file_unreadable"),
    (["init", "new.omni", "--schema", "none.pg"], "file_unreadable"),
    (["schema", "plan", "--schema", "none.pg", "--from", "none.pg"], "file_unreadable"),
    (["pipeline", "run", "none.yaml"], "misaddressed"),
    (["pipeline", "plan", "none.yaml"], "misaddressed"),
    (["policy", "validate", "--file", "none.yaml"], "file_unreadable"),
    (["policy", "test", "--file", "none.yaml", "--tests", "none.yaml"], "file_unreadable"),
    (["embed", "--seed", "none.yaml"], "file_unreadable"),
    (["alias", "nobody"], "misaddressed"),
    (["profile", "show", "nobody"], "misaddressed"),
    (["graphs", "list"], "misaddressed"),
    (["snapshot"], "misaddressed"),
    (["cleanup", "--server", "x", "g"], "misaddressed"),
]


@pytest.mark.parametrize(("words", "code"), OTHERS, ids=[" ".join(each[:2]) for each, _ in OTHERS])
def test_every_other_failure_is_told_as_json(
    words: list[str], code: str, tmp_path: Path, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    assert run([*words, "--json"]) == 1
    assert told(capsys)["code"] == code


def test_people_read_the_same_on_stderr(capsys: Streams) -> None:
    assert run(["snapshot", "none.omni", "--json"]) == 1
    assert "error: no graph at" in capsys.readouterr().err
    assert run(["snapshot", "none.omni"]) == 1
    assert capsys.readouterr().out == "", "nobody asked for JSON"
    assert run(["alias", "nobody", "--", "--json"]) == 1
    assert capsys.readouterr().out == "", "an argument is not a flag"


def test_a_wrong_command_line_is_told_on_stderr_where_errors_are_json(capsys: Streams) -> None:
    assert run(["query", "--errors", "json", "--nope"]) == 2
    streams = capsys.readouterr()
    assert (json.loads(streams.err)["code"], streams.out) == ("usage", "")


def test_what_can_be_done_is_told_too(capsys: Streams) -> None:
    url = "http://127.0.0.1:9/"
    assert run(["branch", "list", "--server", url, "--graph", "g", "--json"]) == 1
    document = told(capsys)
    assert (document["code"], document["retryable"]) == ("server_unreachable", True)
    assert "omnigraph serve" in document["hint"]
    assert document["facts"]["url"].startswith("http://127.0.0.1:9")


def test_what_succeeds_has_an_exit_code_as_before(capsys: Streams) -> None:
    assert run(["version", "--json"]) == 0
    assert "version" in json.loads(capsys.readouterr().out)
    assert run(["query", "--json", "--help"]) == 0
