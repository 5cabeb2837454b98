"""The command at a terminal and in a pipe: colour, pager, help. Real processes, a real terminal."""

import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

MUSEUM = Path(__file__).parents[2] / "examples" / "museum"
EXPLAIN = ("explain", "on_floor", "--query", str(MUSEUM / "queries.gq"))
EXPLAIN_PLAN = (*EXPLAIN, "--schema", str(MUSEUM / "schema.pg"))
MISTAKE = (*EXPLAIN, "--schema", "nowhere.pg")
COLOR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


def at_terminal(*arguments: str, **variables: str) -> str:
    """What a terminal shows: standard output and standard error of the command, in colour."""
    ours, theirs = pty.openpty()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "FORCE_COLOR", "PAGER", "LESS")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm-256color", **variables},
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            some = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        if not some:
            break
        shown += some
    process.wait(300)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def in_pipe(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "omnigraph", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PAGER": "sed s/^/paged:/", **variables},
    )


def test_a_terminal_gets_a_pager_and_a_pipe_gets_none() -> None:
    shown = at_terminal(*EXPLAIN_PLAN, PAGER="sed s/^/paged:/").splitlines()
    assert shown
    assert all(line.startswith("paged:") for line in shown)
    piped = in_pipe(*EXPLAIN_PLAN).stdout.splitlines()
    assert piped == [line.removeprefix("paged:") for line in shown]
    plain = at_terminal(*EXPLAIN_PLAN, "--no-pager", PAGER="sed s/^/paged:/").splitlines()
    assert plain == piped


def test_a_pager_that_is_left_early_ends_the_command_quietly() -> None:
    assert at_terminal(*EXPLAIN_PLAN, PAGER="true") == ""


def test_an_error_starts_no_pager_and_is_red_at_a_terminal_only() -> None:
    shown = at_terminal(*MISTAKE, PAGER="sed s/^/paged:/")
    assert shown.startswith("\x1b[1;31merror:\x1b[0m ")
    assert "nowhere.pg" in shown
    assert in_pipe(*MISTAKE).stderr == shown.replace("\x1b[1;31m", "").replace("\x1b[0m", "")


def test_help_has_colours_at_a_terminal_unless_they_are_refused() -> None:
    assert COLOR.search(at_terminal("version", "--help")) is not None
    assert COLOR.search(at_terminal("version", "--help", "--color", "never")) is None
    assert COLOR.search(in_pipe("version", "--help", "--color", "always").stdout) is not None
