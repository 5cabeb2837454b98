"""Work for Spark to do in tests. It is here because workers have to be able to import it."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import FileUnreadable
from omnigraph.pipeline.ingest import Ingest


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


def fill_the_disk(number: int) -> dict[str, Any]:
    raise ValueError(f"the disk is full, said task {number}")


def read_nothing(number: int) -> dict[str, Any]:
    raise FileUnreadable(f"file-{number}", reason="gone")
