"""What the driver and all workers see, for as long as one bulk job takes."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.engine.load.bulk import LoadJob
from omnigraph.engine.merge.workers import MergeJob
from omnigraph.errors import SparkUnusable
from omnigraph.ids import OperationId
from omnigraph.pipeline.settings import SCRATCH, SparkSettings
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.storage.layout import STAGING, Root

REACHING: Final = "reaching the workers"


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


def storage_of(job: LoadJob | MergeJob) -> Storage:
    """How its workers reach the graph. A Connect server goes on with the work of a client that was
    killed, so its workers look for themselves whether they are wanted; others end with the driver.
    """
    operation_id = job.operation_id if is_remote() else None
    return Storage(job.root, job.storage_options, job.durability, operation_id)


def check_shared(spark: SparkSession, scratch: Path) -> None:
    """Ask a worker whether it sees what we see (D22). Raises SparkUnusable."""
    marker = leave_marker(spark, scratch)
    if marker is not None:
        run_tasks(spark, answer_nothing, 1, job=REACHING, marker=marker)


def leave_marker(spark: SparkSession, scratch: Path) -> str | None:
    """What tasks must find there; None if there is no doubt that they would."""
    if runs_here(spark):
        return None
    (scratch / "marker").touch()
    return str(scratch / "marker")


def runs_here(spark: SparkSession) -> bool:
    # A server may run its jobs locally, and yet on another machine.
    return not is_remote() and (spark.conf.get("spark.master", None) or "").startswith("local")


def answer_nothing(number: int) -> dict[str, Any]:
    del number
    return {}
