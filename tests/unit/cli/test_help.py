"""The help of every command: its words, the graph first, and the global flags that it takes."""

import pytest
from typer.core import TyperArgument

from omnigraph.cli.accepted_flags import find_accepted
from omnigraph.cli.app import run
from omnigraph.cli.command import GRAPH
from omnigraph.cli.globals import FLAGS
from support.commands import all_commands

Streams = pytest.CaptureFixture[str]
ALL = {name: command for name, command, _ in all_commands()}
GROUPS = sorted({name.split()[0] for name in ALL if " " in name})


def shown_help(words: list[str], capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*words, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ALL)
def test_help_shows_the_global_flags_that_the_command_takes_and_no_other(
    name: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, separator, below = shown_help(name.split(), capsys, monkeypatch).partition("Global flags")
    assert separator
    accepted = find_accepted(name.split())
    assert accepted is not None
    expected = {each.flag for each in FLAGS if each.meaning and each.field in accepted}
    assert {each.flag for each in FLAGS if f" {each.flag} " in below} == expected
    assert {"--errors", "--color", "--no-pager", "--quiet", "--yes"} <= expected


@pytest.mark.parametrize("words", [[], *([name] for name in GROUPS)])
def test_help_of_a_group_shows_those_of_its_commands(
    words: list[str], capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = shown_help(words, capsys, monkeypatch)
    assert "Global flags" in shown
    accepted = find_accepted(words) or {each.field for each in FLAGS}
    assert all(each.flag in shown for each in FLAGS if each.meaning and each.field in accepted)


@pytest.mark.parametrize("name", ALL)
def test_usage_shows_the_graph_first(
    name: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [each for each in ALL[name].params if isinstance(each, TyperArgument)]
    if any(each.name == GRAPH for each in arguments):
        usage = shown_help(name.split(), capsys, monkeypatch).split("Usage:")[1].splitlines()[0]
        _, _, words = usage.partition("[OPTIONS] ")
        assert words.split()[0].strip("[]{}") == "GRAPH"
