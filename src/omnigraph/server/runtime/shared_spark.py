"""One Spark for all workers: a Connect server that the first load starts (D23).

A worker that loads connects to it and starts no Java machine of its own. The supervisor owns the
folder with the server's record and stops the server; if the supervisor died, the last worker does.
If the environment names a Spark, loads use that one, and this module starts nothing.
"""

import fcntl
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from omnigraph.errors import SparkUnusable
from omnigraph.pipeline.settings import MASTER, REMOTE, SparkSettings

Result = TypeVar("Result")

SHARED: Final = "OMNIGRAPH_SERVER_SPARK_FOLDER"
"""The supervisor sets it for its workers."""


def find_spark(environment: Mapping[str, str] = os.environ) -> SparkSettings | None:
    """Where a load runs; None: as the environment says. Raises JavaMissing, SparkUnusable."""
    folder = environment.get(SHARED)
    if not folder or environment.get(MASTER) or environment.get(REMOTE):
        return None
    from omnigraph.pipeline.spark.connect import start_server  # noqa: PLC0415 - brings Spark along

    place = Path(folder)
    with place.with_suffix(".lock").open("w") as lock:
        # Several workers may need the server at the same time; one of them starts it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = start_server(_free_port(), folder=place)
    return SparkSettings(remote=server.address)


def run_on_spark(job: Callable[[SparkSettings | None], Result]) -> Result:
    """Run a job on the shared server; on a new one, if the server died before the job began.

    A server that was killed still listens for a moment, so `find_spark` can return its address.
    `SparkUnusable` means that the job staged nothing, so it may run again.
    """
    spark = find_spark()
    try:
        return job(spark)
    except SparkUnusable:
        replacement = find_spark()
        if replacement == spark:
            raise
        return job(replacement)


def stop_spark(folder: Path) -> None:
    """Stop the shared server, if a load ever started it."""
    if not (folder / "server.json").exists():
        return
    from omnigraph.pipeline.spark.connect import stop_server  # noqa: PLC0415 - brings Spark along

    stop_server(folder=folder)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
