"""A folder that the driver and all workers see, for as long as one bulk job takes."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.errors import SparkUnusable
from omnigraph.ids import OperationId
from omnigraph.pipeline.jobs import run_tasks
from omnigraph.pipeline.settings import SCRATCH, SparkSettings
from omnigraph.storage.layout import STAGING, Root


@contextmanager
def open_scratch(settings: SparkSettings, root: Root, operation_id: OperationId) -> Iterator[Path]:
    """Raises SparkUnusable."""
    if settings.scratch is not None:
        above = Path(settings.scratch)
    elif root.is_local:
        above = Path(root.uri) / STAGING
    elif settings.is_local:
        above = Path(tempfile.gettempdir())
    else:
        raise SparkUnusable(f"set {SCRATCH} to a folder that the driver and all workers see")
    folder = above / f"{operation_id}.files"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_shared(spark: SparkSession, scratch: Path) -> None:
    """Ask a worker whether it sees what we see (D22). Raises SparkUnusable."""
    if runs_here(spark):
        return
    (scratch / "marker").touch()
    (answer,) = run_tasks(spark, Looking(str(scratch / "marker")), 1, job="reaching the workers")
    if not answer["found"]:
        raise SparkUnusable(
            f"its workers do not see {scratch}; set {SCRATCH} to a folder that they do see, and "
            "keep the graph and its input where they reach them"
        )


def runs_here(spark: SparkSession) -> bool:
    # A server may run its jobs locally, and yet on another machine.
    return not is_remote() and (spark.conf.get("spark.master", None) or "").startswith("local")


@dataclass(frozen=True, slots=True)
class Looking:
    """Work that looks for a file."""

    path: str

    def __call__(self, number: int) -> dict[str, Any]:
        del number
        return {"found": Path(self.path).exists()}
