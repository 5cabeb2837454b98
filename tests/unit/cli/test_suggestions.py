"""What a mistyped command line is answered with."""

from pathlib import Path

import pytest

from omnigraph.cli.app import run

Streams = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("brnch", "there is no command 'brnch'; did you mean 'branch'?"),
        ("qeury g.omni", "there is no command 'qeury'; did you mean 'query'?"),
        ("branch crate g.omni x", "there is no command 'branch crate'; did you mean 'create'?"),
        ("branch zzz", "there is no command 'branch zzz'; there are: create, list, delete, merge"),
        ("frobnicate", "there is no command 'frobnicate'; omnigraph --help lists them"),
        ("branch create g.omni x --frm main", "no flag '--frm'; did you mean '--from'?"),
        ("query g.omni --stor h.omni", "no flag '--stor'; did you mean '--store'?"),
        ("--stoer g.omni query", "no flag '--stoer'; did you mean '--store'?"),
        ("--verson", "no flag '--verson'; did you mean '--version'?"),
        ("query g.omni --no-pagr", "did you mean '--no-pager'?"),
        ("query g.omni --xyz", "there is no flag '--xyz'"),
        ("query g.omni --format xyz", "invalid value for '--format': 'xyz' is not one of"),
        ("revert g.omni", "missing argument 'COMMIT...'"),
        ("query g.omni -e q.gq", "-e takes the text of a query; 'q.gq' is a file: --query q.gq"),
        ("mutate g.omni -e q.gq", "-e takes the text of a query; 'q.gq' is a file: --query q.gq"),
    ],
)
@pytest.mark.parametrize("is_json", [False, True])
def test_a_mistyped_line_is_answered_with_the_nearest_one(
    line: str, message: str, capsys: Streams, *, is_json: bool
) -> None:
    assert run([*line.split(), *(["--json"] if is_json else [])]) == 2
    streams = capsys.readouterr()
    assert message in (streams.out if is_json else streams.err)


def test_a_wrong_command_line_names_the_help_of_its_command(capsys: Streams) -> None:
    assert run(["branch", "create", "g.omni", "x", "--frm", "main"]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == ["  hint: omnigraph branch create --help"]


def test_a_group_without_a_command_prints_its_help(capsys: Streams) -> None:
    assert run(["branch"]) == 2
    assert "Create, list, merge and delete branches." in capsys.readouterr().out


def test_a_program_where_a_file_is_expected_is_told_apart(capsys: Streams) -> None:
    assert run(["query", "g.omni", "--query", "query q() { match { $p: P } return { $p } }"]) == 2
    assert "give the text of a query with -e" in capsys.readouterr().err


def test_a_file_of_any_name_is_told_from_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Streams
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries").write_text("query q() { match { $p: P } return { $p } }")
    assert run(["query", "g.omni", "-e", "queries"]) == 2
    assert "--query queries" in capsys.readouterr().err
