"""Progress of long operations: which stage is running, and how long each stage took.

An operation enters `with stage("committing"):`, whether or not a watcher listens. A caller that
wants progress wraps the call in `with watching(watcher):`. A stage that is entered again adds to
its time. The time of a nested stage counts for both stages.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol

from omnigraph.effects import REAL


class Watcher(Protocol):
    """Receives progress events, from any thread."""

    def begin(self, stage: str) -> None: ...

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:
        """`done` of `total` parts of a stage are finished, with so many rows if known."""
        ...

    def count(self, stage: str, rows: int) -> None:
        """So many rows passed through a stage."""
        ...

    def end(self, stage: str, *, elapsed_ms: int) -> None: ...


@dataclass(slots=True)
class StageRecord:
    """The running stages and the times so far."""

    watcher: Watcher | None = None
    timings_ms: dict[str, int] = field(default_factory=dict)
    stages: list[str] = field(default_factory=list)
    """The running stages, innermost last."""

    def advance(self, *, done: int, total: int, rows: int | None = None) -> None:
        if self.watcher is not None and self.stages:
            self.watcher.advance(self.stages[-1], done=done, total=total, rows=rows)


_current: Final[ContextVar[StageRecord | None]] = ContextVar("omnigraph_stages", default=None)


@contextmanager
def watching(watcher: Watcher | None = None) -> Iterator[StageRecord]:
    """Record the stages inside. Without a watcher, the watcher of the enclosing block is used."""
    above = _current.get()
    record = StageRecord(watcher or (None if above is None else above.watcher))
    token = _current.set(record)
    try:
        yield record
    finally:
        _current.reset(token)


@contextmanager
def stage(name: str) -> Iterator[StageRecord | None]:
    """One stage of the operation. Yields the record, if one is kept."""
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
        record.stages.remove(name)  # another thread may have entered a stage since
        record.timings_ms[name] = record.timings_ms.get(name, 0) + elapsed_ms
        if record.watcher is not None:
            record.watcher.end(name, elapsed_ms=elapsed_ms)


def count_rows(name: str, rows: int) -> None:
    """Report how many rows passed through a stage, which may have ended."""
    record = _current.get()
    if record is not None and record.watcher is not None:
        record.watcher.count(name, rows)


def advance_stage(done: int, total: int) -> None:
    """Report that `done` of `total` parts of the running stage are finished."""
    record = _current.get()
    if record is not None:
        record.advance(done=done, total=total)
