"""The scratch folder and the graph, as the workers of Spark see them."""

from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.engine.load.bulk import LoadJob
from omnigraph.engine.merge.workers import MergeJob
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.stage.fragments import Storage

REACHING: Final = "reaching the workers"


def storage_of(job: LoadJob | MergeJob) -> Storage:
    """How the workers of a job reach the graph.

    A Connect server continues the work of a client that was killed, so its workers check the
    staging record of the operation; other workers end with their driver.
    """
    operation_id = job.operation_id if is_remote() else None
    return Storage(job.root, job.storage_options, job.durability, operation_id)


def check_shared(spark: SparkSession, scratch: Path) -> None:
    """Check that a worker sees the scratch folder (D22). Raises SparkUnusable."""
    marker = leave_marker(spark, scratch)
    if marker is not None:
        run_tasks(spark, answer_nothing, 1, job=REACHING, marker=marker)


def leave_marker(spark: SparkSession, scratch: Path) -> str | None:
    """A file that tasks must find in the scratch folder; None if they run on this machine."""
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
