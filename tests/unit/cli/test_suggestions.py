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
        ("branch crate g.omni x", "No such command 'crate'. Did you mean 'create'?"),
        ("branch create g.omni x --frm main", "No such option: --frm (Possible options: --from)"),
        ("query g.omni --stor h.omni", "--store)"),
        ("--stoer g.omni query", "--store)"),
        ("query g.omni --no-pagr", "--no-pager"),
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
    said = (streams.out if is_json else streams.err).replace("│", " ")
    assert message in " ".join(said.split())


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
