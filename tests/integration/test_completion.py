"""What a shell offers at the tab key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import omnigraph
from omnigraph.cli.app import app, run
from omnigraph.cli.completion import find_candidates

Streams = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, whose branches have all kinds of names, and other things."""
    made = tmp_path_factory.mktemp("completion")
    graph = omnigraph.init(str(made / "museum.omni"), "node P { name: String @key }")
    for name in ("review", "revised/autumn", "hot-fix_2.1"):
        graph.branches.create(name)
    (made / "deep" / "inner.omni").mkdir(parents=True)
    (made / "rows.jsonl").touch()
    return made


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    return folder


def candidates(line: str) -> list[str]:
    """The line is completed at its end."""
    *words, incomplete = line.split(" ")
    return find_candidates(get_command(app), words, incomplete)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bra", ["branch"]),
        ("inge", []),
        ("branch ", ["create", "delete", "list", "merge"]),
        ("--store museum.omni branch de", ["delete"]),
        ("query --bran", ["--branch"]),
        ("query --no-p", ["--no-pager"]),
        ("--col", ["--color"]),
        ("--color ", ["always", "auto", "never"]),
        ("query --format j", ["json", "jsonl"]),
        ("load --format ", ["csv", "jsonl", "parquet"]),
        ("query ", ["deep/", "museum.omni"]),
        ("query mus", ["museum.omni"]),
        ("query deep/", ["deep/inner.omni"]),
        ("--store d", ["deep/"]),
        ("branch delete museum.omni rev", ["review", "revised/autumn"]),
        ("branch delete --store museum.omni h", ["hot-fix_2.1"]),
        ("query museum.omni --branch m", ["main"]),
        ("query museum.omni --branch=m", ["--branch=main"]),
        ("query museum.omni --branch = m", ["main"]),
        ("query museum.omni --branch =", ["hot-fix_2.1", "main", "review", "revised/autumn"]),
        ("diff museum.omni ma", ["main"]),
        ("load museum.omni ro", []),
        ("nonsense ", []),
        ("query nowhere/", []),
        ("branch delete nowhere.omni ", ["main"]),
    ],
)
def test_a_line_is_completed(line: str, expected: list[str]) -> None:
    assert candidates(line) == expected


@pytest.mark.usefixtures("here")
def test_profiles_and_servers_come_from_the_configuration(tmp_path: Path) -> None:
    settings = tmp_path / "config.yaml"
    settings.write_text(
        "servers: {prod: {url: 'https://example.org'}}\nprofiles: {ops: {server: prod}}"
    )
    assert candidates("query --profile ") == ["ops"]
    assert candidates("query --server ") == ["prod"]
    settings.write_text("servers: 7")
    assert candidates("query --server ") == []


def test_bash_completes_by_the_script(here: Path) -> None:
    line = "omnigraph branch delete museum.omni rev"
    program = f"""
        source <(omnigraph completion bash)
        COMP_WORDS=({line}); COMP_CWORD=4; _omnigraph; printf '[%s]' "${{COMPREPLY[@]}}"
        COMP_WORDS=(omnigraph query de); COMP_CWORD=2; _omnigraph; printf '[%s]' "${{COMPREPLY[@]}}"
        complete -p omnigraph
    """
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=here,
        env={**os.environ, "PATH": places},
        capture_output=True,
        text=True,
        check=True,
    )
    first = "[review ][revised/autumn ][deep/]"
    assert done.stdout == f"{first}complete -o default -o nospace -F _omnigraph omnigraph\n"
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_every_shell(shell: str, capsys: Streams) -> None:
    assert run(["completion", shell]) == 0
    assert "omnigraph completion --words --" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
def test_another_shell_is_refused(words: list[str], capsys: Streams) -> None:
    assert run(["completion", *words]) == 2
    assert "name a shell: bash, zsh, fish" in capsys.readouterr().err
