"""When there is colour, and which pager runs."""

import io
import os
import re
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.cli.terminal import (
    ColorChoice,
    Ink,
    PagedOutput,
    coloring,
    has_color,
    paging,
    paint,
)
from omnigraph.errors.base import counted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "PAGER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("variables", "at_terminal", "in_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_colour_depends_on_the_stream_and_the_environment(
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    at_terminal: bool,
    in_pipe: bool,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (has_color(Terminal()), has_color(io.StringIO())) == (at_terminal, in_pipe)


def test_a_choice_on_the_command_line_wins_and_is_forgotten_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    before = dict(os.environ)
    with coloring(ColorChoice.ALWAYS):
        assert paint("x", Ink.ERROR, io.StringIO()) == "\x1b[1;31mx\x1b[0m"
    with coloring(ColorChoice.NEVER):
        assert paint("x", Ink.ERROR, Terminal()) == "x"
    with coloring(ColorChoice.AUTO):
        assert paint("x", Ink.ERROR, Terminal()) == "x"
    assert dict(os.environ) == before


@pytest.mark.parametrize("pager", ["", "cat", "no-such-pager --really"])
def test_a_pager_that_does_nothing_or_is_missing_is_not_started(
    pager: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", pager)
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setattr(sys, "stdin", Terminal())
    with paging(wanted=True):
        assert sys.stdout is terminal


def test_a_pager_needs_a_person_on_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "sed s/^/paged:/")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with paging(wanted=True):
        assert sys.stdout is terminal
    monkeypatch.setattr(sys, "stdin", Terminal())
    with paging(wanted=False):
        assert sys.stdout is terminal
    with paging(wanted=True):
        assert isinstance(sys.stdout, PagedOutput)
        assert sys.stdout.isatty()
    assert sys.stdout is terminal


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_000, "1000 rows")]
)
def test_nouns_agree_with_their_number(count: int, text: str) -> None:
    assert counted(count, "row") == text
    assert counted(1, "query", "queries") == "1 query"
    assert counted(2, "query", "queries") == "2 queries"


def test_the_log_and_changes_are_coloured_by_their_meaning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = omnigraph.init(str(tmp_path / "g.omni"), "node P { name: String @key  note: String? }")
    graph.branches.create("review")
    long = "x" * 200
    graph.insert("P", [{"name": "ada", "note": long}], branch="review")
    store = str(tmp_path / "g.omni")
    assert run(["diff", store, "main...review", "--color", "always"]) == 0
    changed = capsys.readouterr().out
    assert "\x1b[32m+ node:P ada\x1b[0m" in changed
    assert long in changed, "a pipe gets values whole"
    assert run(["commit", "list", store, "--oneline", "--branch", "review"]) == 0
    plain = capsys.readouterr().out
    newest = plain.split()[0]
    asked = ["commit", "list", store, "--oneline", "--branch", "review", "--color", "always"]
    assert run(asked) == 0
    coloured = capsys.readouterr().out
    assert coloured.startswith(f"\x1b[33m{newest}\x1b[0m  ")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain, "columns align as without colour"
