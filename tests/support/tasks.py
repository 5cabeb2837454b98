"""Work for Spark in tests. It has a module of its own because workers must be able to import it."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.effects import REAL
from omnigraph.errors import FileUnreadable
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.write_pending import WritePart


@dataclass(frozen=True)
class Marking:
    """Leaves a file for every time it is done."""

    folder: str

    def __call__(self, number: int) -> dict[str, Any]:
        marks = len(list(Path(self.folder).glob(f"{number}-*")))
        (Path(self.folder) / f"{number}-{marks}").touch()
        return {"number": number, "pid": os.getpid()}


@dataclass(frozen=True)
class DiesOnce:
    """The first try writes its files and then takes its process along."""

    work: Ingest
    marker: str

    def __call__(self, number: int) -> dict[str, Any]:
        answer = self.work(number)
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return answer
        os.kill(os.getpid(), signal.SIGKILL)
        return answer


@dataclass(frozen=True, slots=True)
class PartDiesOnce(WritePart):
    """The first part is written, and then takes its process along."""

    marker: str = ""

    def __call__(self, rows: pa.Table) -> pa.Table:
        answer = WritePart.__call__(self, rows)
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return answer
        os.kill(os.getpid(), signal.SIGKILL)
        return answer


@contextmanager
def cramped(size_bytes: int) -> Iterator[None]:
    """A disk on which no file can grow beyond this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    told = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, told)


@dataclass(frozen=True)
class Cramped:
    """Work on a disk that is full."""

    work: Ingest
    size_bytes: int

    def __call__(self, number: int) -> dict[str, Any]:
        with cramped(self.size_bytes):
            return self.work(number)


@dataclass(frozen=True, slots=True)
class CrampedPart(WritePart):
    """The same for parts."""

    size_bytes: int = 0

    def __call__(self, rows: pa.Table) -> pa.Table:
        with cramped(self.size_bytes):
            return WritePart.__call__(self, rows)


@dataclass(frozen=True)
class Dawdling:
    """Takes its time, and says that it went through seven rows."""

    duration_ms: int

    def __call__(self, number: int) -> dict[str, Any]:
        REAL.sleep_ms(self.duration_ms)
        return {"number": number, "rows": 7}


def fill_the_disk(number: int) -> dict[str, Any]:
    raise ValueError(f"the disk is full, said task {number}")


def read_nothing(number: int) -> dict[str, Any]:
    raise FileUnreadable(f"file-{number}", reason="gone")
