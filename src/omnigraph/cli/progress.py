"""Progress of long work, on stderr: bars on a terminal, lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli.globals import Globals
from omnigraph.cli.render import print_note
from omnigraph.effects import REAL
from omnigraph.engine.stages import Watcher, watching

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

BRIEF_MS: Final = 1_000
"""Work of less time leaves no bars behind: they would push its result off the screen."""

ShowProgress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Show progress; by default on a terminal.",
        show_default=False,
    ),
]


@contextmanager
def showing(settings: Globals, *, wanted: bool | None) -> Iterator[None]:
    """Show the stages of the work inside, if `wanted`, or by default on a terminal."""
    on_terminal = sys.stderr.isatty()
    if not (on_terminal and not settings.quiet if wanted is None else wanted):
        yield
        return
    if not on_terminal:
        with watching(ProgressLines()):
            yield
        return
    with _bars() as bars, watching(bars):
        yield


class ProgressLines:
    """A line at the begin and at the end of each stage, for logs."""

    def begin(self, stage: str) -> None:
        print_note(f"{stage} …")

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:
        """Not printed: it would fill a log."""

    def count(self, stage: str, rows: int) -> None:
        print_note(f"{stage}: {_count_rows(rows)}")

    def end(self, stage: str, *, elapsed_ms: int) -> None:
        print_note(f"{stage}: {elapsed_ms / 1_000:.1f} s")


@contextmanager
def _bars() -> Iterator[Watcher]:
    """Bars that stay on the screen, unless the work was brief."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[facts]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    began_ms = REAL.monotonic_ms()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        try:
            yield Bars(progress)
        finally:
            progress.live.transient = REAL.monotonic_ms() - began_ms < BRIEF_MS


class Bars:
    """One bar for each stage: its tasks, its rows, their rate, the remaining time."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress
        self._bars: dict[str, TaskID] = {}
        self._began_ms: dict[str, int] = {}
        self._elapsed_ms: dict[str, int] = {}

    def begin(self, stage: str) -> None:
        self._began_ms[stage] = REAL.monotonic_ms()
        if stage not in self._bars:
            self._bars[stage] = self._progress.add_task(stage, total=None, facts="")
        else:
            self._progress.reset(self._bars[stage], total=None, facts="")

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:
        facts = f"{done}/{total} tasks"
        if rows is not None:
            elapsed_ms = REAL.monotonic_ms() - self._began_ms[stage]
            facts = f"{facts}, {_spell_rows(rows, elapsed_ms)}"
        self._progress.update(self._bars[stage], completed=done, total=total, facts=facts)

    def count(self, stage: str, rows: int) -> None:
        if stage in self._bars:
            facts = _spell_rows(rows, self._elapsed_ms.get(stage, 0))
            self._progress.update(self._bars[stage], facts=facts)

    def end(self, stage: str, *, elapsed_ms: int) -> None:
        self._elapsed_ms[stage] = elapsed_ms
        bar = self._bars[stage]
        self._progress.update(bar, total=1, completed=1)
        self._progress.stop_task(bar)


def _spell_rows(rows: int, elapsed_ms: int) -> str:
    rate = rows * 1_000 // max(1, elapsed_ms)
    return f"{_count_rows(rows)}, {rate:,}/s" if rate else _count_rows(rows)


def _count_rows(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"
