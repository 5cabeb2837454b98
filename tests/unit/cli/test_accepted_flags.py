"""Flags and commands: what means something to which."""

import json
import logging
from pathlib import Path

import pytest

from omnigraph.cli.accepted_flags import BY_COMMAND, check_flags
from omnigraph.cli.app import COMMANDS, run
from omnigraph.cli.globals import Globals
from omnigraph.errors import Misaddressed

Streams = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("command", "flags", "hint"),
    [
        ("init x --schema s.pg", "--server prod", "it makes a graph"),
        ("init x --schema s.pg", "--store y", "it makes a graph"),
        ("cleanup", "--server prod", "it works on storage"),
        ("repair", "--cluster brain", "it works on storage"),
        ("lint --query q.gq --schema s.pg", "--server prod", "it works on storage"),
        ("lint --query q.gq --schema s.pg", "--graph g", "it works on storage"),
        ("commit list", "--as eve", "it only reads"),
        ("branch list", "--cluster brain", "--server"),
        ("graphs list", "--graph g", "it asks a server"),
        ("graphs list", "--store g", "it asks a server"),
        ("alias who Ada", "--server prod", "binds an alias"),
        ("alias who Ada", "--profile ops", "binds an alias"),
        ("login prod --token t", "--store x", "concerns no graph"),
        ("policy validate --file p.yaml", "--server prod", "concerns no graph"),
        ("version", "--as eve", "concerns no graph"),
        ("serve --graph g=x", "--store x", "--graph ID=URI"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_flag_that_means_nothing_to_a_command_is_refused(
    capsys: Streams, command: str, flags: str, hint: str, *, is_first: bool
) -> None:
    words, given = command.split(), flags.split()
    assert run([*given, *words] if is_first else [*words, *given]) == 1
    error = capsys.readouterr().err
    assert f"error: {given[0]} is not for 'omnigraph {words[0]}" in error
    assert hint in error


def test_every_command_says_which_flags_it_accepts() -> None:
    planned = {name.split()[0] for name in BY_COMMAND}
    assert COMMANDS.keys() <= planned


@pytest.mark.parametrize(
    "words", [["mutate"], ["load"], ["schema", "apply"], ["branch", "merge", "x"], ["ingest"]]
)
def test_writes_take_an_actor_and_either_address(words: list[str]) -> None:
    check_flags(Globals(store="g", actor="ada", yes=True, quiet=True), words)
    check_flags(Globals(server="prod", graph="g", profile="ops"), words)
    with pytest.raises(Misaddressed, match="--cluster"):
        check_flags(Globals(cluster="brain"), words)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["query", "--alias", "who"], "omnigraph alias NAME"),
        (["query", "--config=omnigraph.yaml"], "~/.omnigraph/config.yaml"),
        (["serve", "--cluster", "."], "--config server.yaml"),
        (["serve", "--config", "omnigraph.yaml"], "write a server.yaml"),
    ],
)
def test_flags_of_old_say_what_to_do_instead(
    capsys: Streams,
    arguments: list[str],
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    # A server takes over what is logged, and this process goes on after it.
    monkeypatch.setattr(logging.root, "handlers", [])
    (tmp_path / "omnigraph.yaml").write_text("graphs: {}")
    assert run(arguments) in (1, 2)
    assert advice in capsys.readouterr().err


@pytest.mark.parametrize("is_first", [True, False])
def test_whoever_serves_takes_the_flags_of_every_command_beside_graphs_of_its_own(
    capsys: Streams, tmp_path: Path, *, is_first: bool
) -> None:
    words, given = ["serve", "--graph", f"g={tmp_path}", "--bind", "nowhere"], ["--errors", "json"]
    assert run([*given, *words] if is_first else [*words, *given]) != 0
    error = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert "tokens" in error["error"], "the graph was understood as one to serve"


@pytest.mark.parametrize(
    "words",
    [
        ["branch", "list", "a.omni"],
        ["branch", "delete", "dev", "a.omni"],
        ["mutate", "add", "a.omni", "-e", "query add() { delete Person }"],
        ["diff", "main..dev", "a.omni"],
        ["index", "a.omni"],
        ["commit", "show", "a.omni", "01J"],
        ["commit", "changes", "a.omni", "01J"],
    ],
)
def test_a_graph_that_is_named_twice_is_never_guessed(capsys: Streams, words: list[str]) -> None:
    assert run([*words, "--uri", "b"]) == 1
    assert "name the graph once: 'a.omni' and --uri 'b' were given" in capsys.readouterr().err


def test_flags_that_no_command_takes_are_not_offered(capsys: Streams) -> None:
    assert run(["--help"]) == 0
    told = capsys.readouterr().out
    assert "--store" in told
    assert "--cluster" not in told
    assert "--uri" not in told
