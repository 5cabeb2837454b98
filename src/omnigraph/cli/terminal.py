"""What only a terminal gets: colour, and a pager for long output. A pipe and a file get neither.

`--color` and `NO_COLOR` decide about colour, `--no-pager` and `PAGER` about the pager. The pager
starts at the first output, so a command that fails before it prints anything starts none.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TextIO

from omnigraph.cli.exits import Exit

if TYPE_CHECKING:
    import subprocess

PAGER_DEFAULT: Final = "less"
PAGER_SETTINGS: Final = {"LESS": "FRX", "LV": "-c"}
"""`less` ends by itself if the output fits the screen, and shows colours."""


class ColorChoice(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Ink(StrEnum):
    """Colours by their meaning, as the codes of a terminal."""

    ERROR = "1;31"
    HINT = "36"
    WARNING = "33"
    HEADER = "1"
    ADDED = "32"
    CHANGED = "33"
    REMOVED = "31"
    NAME = "33"
    FAINT = "2"


def paint(text: str, ink: Ink, stream: TextIO | None = None) -> str:
    """The text in a colour, if the stream takes colours; standard output by default."""
    return f"\x1b[{ink.value}m{text}\x1b[0m" if text and has_color(stream) else text


def has_color(stream: TextIO | None = None) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    is_terminal = (sys.stdout if stream is None else stream).isatty()
    return is_terminal and os.environ.get("TERM") != "dumb"


@contextmanager
def coloring(choice: ColorChoice) -> Iterator[None]:
    """Apply `--color` to the work inside.

    The environment holds the choice, because the help texts of Typer read it there.
    """
    if choice is ColorChoice.AUTO:
        yield
        return
    wanted, unwanted = "FORCE_COLOR", "NO_COLOR"
    if choice is ColorChoice.NEVER:
        wanted, unwanted = unwanted, wanted
    before = {name: os.environ.pop(name, None) for name in (wanted, unwanted)}
    os.environ[wanted] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# --- the pager ------------------------------------------------------------------------------


@contextmanager
def paging(*, wanted: bool) -> Iterator[None]:
    """Show what is printed inside in a pager, if a person sits at the terminal."""
    command = _find_pager() if wanted and sys.stdout.isatty() and sys.stdin.isatty() else None
    if command is None:
        yield
        return
    before, paged = sys.stdout, PagedOutput(command, sys.stdout)
    sys.stdout = paged
    try:
        yield
    finally:
        sys.stdout = before
        paged.finish()


def _find_pager() -> list[str] | None:
    """The command of the pager; None if `PAGER` is empty or `cat`, or there is none."""
    import shlex
    import shutil

    words = shlex.split(os.environ.get("PAGER", PAGER_DEFAULT))
    if words in ([], ["cat"]) or shutil.which(words[0]) is None:
        return None
    return words


class PagedOutput(io.TextIOBase):
    """Standard output that a pager shows. It is still a terminal to those who ask."""

    def __init__(self, command: list[str], terminal: TextIO) -> None:
        self._command = command
        self._terminal = terminal
        self._pager: subprocess.Popen[str] | None = None

    def write(self, text: str) -> int:
        """Raises SystemExit if the user has left the pager."""
        if self._pager is None:
            import subprocess

            self._pager = subprocess.Popen(  # noqa: S603 - the user's own choice
                self._command,
                stdin=subprocess.PIPE,
                env={**PAGER_SETTINGS, **os.environ},
                encoding="utf-8",
                errors="replace",
            )
        assert self._pager.stdin is not None, "it was started with a pipe"
        try:
            return self._pager.stdin.write(text)
        except BrokenPipeError:
            raise SystemExit(Exit.OK) from None

    def flush(self) -> None:
        if self._pager is not None and self._pager.stdin is not None:
            with suppress(BrokenPipeError, ValueError):
                self._pager.stdin.flush()

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()

    def finish(self) -> None:
        """Wait until the user has read everything. Ctrl-C is for the pager."""
        if self._pager is None:
            return
        assert self._pager.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):
            self._pager.stdin.close()
        while self._pager.poll() is None:
            with suppress(KeyboardInterrupt):
                self._pager.wait()
