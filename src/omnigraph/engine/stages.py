"""What long work is doing, for whoever watches, and how long each part of it took.

Work says `with stage("committing"):` and need not know whether anybody looks. Whoever does says
`with watching(watcher):` around the call. A stage that is entered again adds to its time; one
inside another counts for both.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol

from omnigraph.effects import REAL


class Watcher(Protocol):
    """Is told as it happens, from any thread."""

    def begin(self, stage: str) -> None: ...

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:
        """So many of so many parts of a stage are done, and so many rows with them, if known."""
        ...

    def count(self, stage: str, rows: int) -> None:
        """So many rows went through a stage."""
        ...

    def end(self, stage: str, *, elapsed_ms: int) -> None: ...


@dataclass(slots=True)
class StageRecord:
    """What was done so far."""

    watcher: Watcher | None = None
    timings_ms: dict[str, int] = field(default_factory=dict)
    stages: list[str] = field(default_factory=list)
    """Those that are under way, innermost last."""

    def advance(self, *, done: int, total: int, rows: int | None = None) -> None:
        if self.watcher is not None and self.stages:
            self.watcher.advance(self.stages[-1], done=done, total=total, rows=rows)


_current: Final[ContextVar[StageRecord | None]] = ContextVar("omnigraph_stages", default=None)


@contextmanager
def watching(watcher: Watcher | None = None) -> Iterator[StageRecord]:
    """Keep a record of the work inside. Without a watcher, whoever watches already is told."""
    above = _current.get()
    record = StageRecord(watcher or (None if above is None else above.watcher))
    token = _current.set(record)
    try:
        yield record
    finally:
        _current.reset(token)


@contextmanager
def stage(name: str) -> Iterator[StageRecord | None]:
    """One part of the work. Gives the record, if there is one."""
    record = _current.get()
    if record is None:
        yield None
        return
    began_ms = REAL.monotonic_ms()
    record.stages.append(name)
    if record.watcher is not None:
        record.watcher.begin(name)
    try:
        yield record
    finally:
        elapsed_ms = REAL.monotonic_ms() - began_ms
        record.stages.pop()
        record.timings_ms[name] = record.timings_ms.get(name, 0) + elapsed_ms
        if record.watcher is not None:
            record.watcher.end(name, elapsed_ms=elapsed_ms)


def count_rows(name: str, rows: int) -> None:
    """Tell how many rows went through a stage, which may have ended."""
    record = _current.get()
    if record is not None and record.watcher is not None:
        record.watcher.count(name, rows)
