"""Bars on a terminal: work that takes time leaves them, brief work does not."""

import io
import sys

import pytest

from omnigraph.cli import progress
from omnigraph.cli.globals import Globals
from omnigraph.engine.stages import stage

ERASE = "\x1b[1A\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("brief_ms", "is_erased"), [(60_000, True), (0, False)])
def test_only_the_bars_of_brief_work_are_erased(
    monkeypatch: pytest.MonkeyPatch, *, brief_ms: int, is_erased: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "BRIEF_MS", brief_ms)
    monkeypatch.setenv("TERM", "xterm")
    with progress.showing(Globals(), wanted=True), stage("reading the input"):
        pass
    shown = terminal.getvalue()
    assert "reading the input" in shown
    assert shown.endswith(ERASE) is is_erased
