"""The command as people and scripts meet it: streams, exit codes, no tracebacks."""

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run

MUSEUM = Path(__file__).parents[3] / "examples" / "museum"
SCHEMA, QUERIES, NEXT = MUSEUM / "schema.pg", MUSEUM / "queries.gq", MUSEUM / "schema-next.pg"

Streams = pytest.CaptureFixture[str]


def lint(query: Path, *extra: str, schema: Path = SCHEMA) -> int:
    return run(["lint", "--schema", str(schema), "--query", str(query), *extra])


def broken(tmp_path: Path, text: str = "query q() { match { $a: Nope } return { $a.x } }") -> Path:
    path = tmp_path / "broken.gq"
    path.write_text(text)
    return path


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-v"]])
def test_the_version_is_printed(arguments: list[str], capsys: Streams) -> None:
    assert run(arguments) == 0
    assert capsys.readouterr().out == f"omnigraph {omnigraph.__version__}\n"


def test_the_version_is_told_as_json(capsys: Streams) -> None:
    assert run(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": omnigraph.__version__}


def test_good_queries_exit_with_0(capsys: Streams) -> None:
    assert lint(QUERIES) == 0
    streams = capsys.readouterr()
    assert "OK    query 'on_floor'" in streams.out
    assert streams.err == ""


def test_the_report_as_json_names_its_sources(capsys: Streams) -> None:
    assert lint(QUERIES, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["status"] == "ok"
    assert report["schema_source"] == {"kind": "file", "path": str(SCHEMA)}
    assert report["query_path"] == str(QUERIES)
    assert report["queries_processed"] == len(report["results"]) == 7


def test_a_query_that_is_wrong_exits_with_1_and_is_reported_on_stdout(
    tmp_path: Path, capsys: Streams
) -> None:
    assert lint(broken(tmp_path)) == 1
    streams = capsys.readouterr()
    assert "ERROR query 'q'" in streams.out
    assert "Nope" in streams.out


def test_a_file_that_does_not_parse_exits_with_1(tmp_path: Path, capsys: Streams) -> None:
    assert lint(broken(tmp_path, "query ("), "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in report["findings"]] == ["Q000"]
    assert report["queries_processed"] == 0


def test_a_schema_that_is_wrong_is_an_error_on_stderr(tmp_path: Path, capsys: Streams) -> None:
    bad = tmp_path / "bad.pg"
    bad.write_text("node A { x: Strin }")
    assert lint(QUERIES, schema=bad) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert f"{bad}:1:13: parse error: 'Strin' is not a property type [S4]" in streams.err
    assert "Traceback" not in streams.err


def test_everything_that_is_wrong_with_a_schema_is_told_at_once(
    tmp_path: Path, capsys: Streams
) -> None:
    bad = tmp_path / "bad.pg"
    bad.write_text("node A { x: String x: I32 }\nedge E: A -> B {}")
    assert lint(QUERIES, schema=bad) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert f"{bad}:1:20: catalog error: property A.x is declared twice [R2]" in streams.err
    assert f"{bad}:2:14: catalog error: edge E needs a node B" in streams.err


def test_a_missing_file_is_named(tmp_path: Path, capsys: Streams) -> None:
    assert lint(tmp_path / "none.gq") == 1
    assert "none.gq" in capsys.readouterr().err


def test_a_file_that_is_not_text_is_named(tmp_path: Path, capsys: Streams) -> None:
    path = tmp_path / "bytes.gq"
    path.write_bytes(b"\xff\xfe\x00")
    assert lint(path) == 1
    assert "UTF-8" in capsys.readouterr().err


def test_errors_can_be_asked_for_as_json(tmp_path: Path, capsys: Streams) -> None:
    assert lint(tmp_path / "none.gq", "--errors", "json") == 1
    assert json.loads(capsys.readouterr().err)["code"] == "file_unreadable"


@pytest.mark.parametrize(
    "arguments", [["lint"], ["nonsense"], ["lint", "--nonsense"], ["--store"], ["schema", "plan"]]
)
def test_a_wrong_command_line_exits_with_2(arguments: list[str], capsys: Streams) -> None:
    assert run(arguments) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "Traceback" not in streams.err


@pytest.mark.parametrize("old", [["check"], ["query", "lint"], ["query", "check"]])
def test_old_spellings_work_and_say_the_new_one(old: list[str], capsys: Streams) -> None:
    assert run([*old, "--schema", str(SCHEMA), "--query", str(QUERIES)]) == 0
    assert "is now 'lint'" in capsys.readouterr().err


def test_a_plan_that_is_supported_exits_with_0(capsys: Streams) -> None:
    assert run(["schema", "plan", "--from", str(SCHEMA), "--schema", str(NEXT)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "supported: yes",
        "- update the description of node 'Artwork'",
        "- let 'medium' of node 'Artwork' also be photograph",
        "- add property 'worth: F64?' to node 'Artwork'",
        "- rename node type 'Gallery' to 'Room'",
    ]


def test_no_change_is_said_in_words(capsys: Streams) -> None:
    assert run(["schema", "plan", "--from", str(SCHEMA), "--schema", str(SCHEMA)]) == 0
    assert capsys.readouterr().out == "supported: yes\nno schema changes\n"


def test_a_plan_that_is_not_supported_exits_with_1(capsys: Streams) -> None:
    assert run(["schema", "plan", "--json", "--schema", str(SCHEMA), "--from", str(NEXT)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["supported"] is False
    assert document["step_count"] == len(document["steps"])


def test_a_plan_is_explained(capsys: Streams) -> None:
    assert run(["explain", "--schema", str(SCHEMA), "--query", str(QUERIES), "on_floor"]) == 0
    assert "Gallery" in capsys.readouterr().out


def test_a_plan_of_a_text_is_explained(capsys: Streams) -> None:
    text = "query q() { match { $g: Gallery } return { $g.code } }"
    assert run(["explain", "--schema", str(SCHEMA), "-e", text]) == 0
    assert "scan $g: Gallery" in capsys.readouterr().out


def test_a_text_without_a_query_says_so(capsys: Streams) -> None:
    assert run(["explain", "--schema", str(SCHEMA), "-e", "// nothing yet"]) == 1
    assert "the text holds no query" in capsys.readouterr().err


def test_explaining_one_of_several_queries_needs_its_name(capsys: Streams) -> None:
    assert run(["explain", "--schema", str(SCHEMA), "--query", str(QUERIES)]) == 1
    assert "on_floor" in capsys.readouterr().err


@pytest.mark.parametrize("flag", [["--params", "{}"], ["--branch", "dev"]])
def test_what_is_for_running_a_query_is_refused_when_it_is_not_run(
    capsys: Streams, flag: list[str]
) -> None:
    given = ["--schema", str(SCHEMA), "--query", str(QUERIES), "on_floor", *flag]
    assert run(["explain", *given]) == 2
    assert "--analyze" in capsys.readouterr().err


def test_help_lists_the_flags_for_every_command(capsys: Streams) -> None:
    assert run(["--help"]) == 0
    assert "--store" in capsys.readouterr().out
