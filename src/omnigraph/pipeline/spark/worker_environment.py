"""Checks that the workers of a cluster can run our tasks, before a job depends on it.

A worker that lacks this package fails when it unpacks its task, after Spark has tried four times.
So a first task that needs nothing of ours reports what the worker has. If no setting names the
Python of workers, they run the Python of the driver if they have it, else the one Spark would take.
"""

import json
import os
import socket
import sys
from importlib import import_module
from typing import Any, Final

from pyspark import SparkContext
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession, functions

from omnigraph.effects import REAL
from omnigraph.errors import SparkUnusable
from omnigraph.jsontext import read_json
from omnigraph.pipeline.spark.liveness import SPARK_ERRORS

PYTHON: Final = "PYSPARK_PYTHON"

VERSION: Final[str] = sys.modules["omnigraph"].__version__
"""Read so, because to import the package is to depend on all of it."""

REMEDY: Final = (
    f"install omnigraph {VERSION} for the workers and set {PYTHON} to their Python, "
    "or ship it (docs/pipeline.md, On a cluster)"
)

EXECUTOR_MS_MAX = 60_000
"""How long the first worker may take to come."""
_STEP_MS: Final = 100

register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # theirs
"""Workers that lack the package cannot look anything up in it."""


def equip(spark: SparkSession) -> None:
    """Choose a Python that runs our tasks on the workers of a cluster. Raises SparkUnusable."""
    context = spark.sparkContext
    if str(context.master).startswith("local") or context in _equipped:
        return
    _await_executor(context)
    usual = context.pythonExec
    is_said = os.environ.get(PYTHON) or context.getConf().get("spark.pyspark.python", "")
    found = ""
    for python in [usual] if is_said else [sys.executable, usual]:
        context.pythonExec = python
        found = _find_lack(spark)
        if not found:
            _equipped.append(context)
            return
    raise SparkUnusable(f"its workers cannot run tasks of ours: {found}; {REMEDY}")


_equipped: Final[list[SparkContext]] = []


def _await_executor(context: SparkContext) -> None:
    """Without an executor Spark would wait for ever, silently. Raises SparkUnusable."""
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return  # they come with the work
    java: Any = context._jsc  # noqa: SLF001 - nothing else tells
    until_ms = REAL.monotonic_ms() + EXECUTOR_MS_MAX
    try:
        while java.sc().getExecutorMemoryStatus().size() <= 1:  # the driver counts as one
            if REAL.monotonic_ms() > until_ms:
                raise SparkUnusable(
                    f"no worker of {context.master} took the job in {EXECUTOR_MS_MAX // 1000} s: "
                    "there is none, none is free, or none has the memory and the cores that "
                    "spark.executor.memory and spark.executor.cores ask for"
                )
            REAL.sleep_ms(_STEP_MS)
    except SPARK_ERRORS as error:
        raise SparkUnusable(
            f"{context.master} ended the session: its executors do not start; see the worker's log"
        ) from error


def _find_lack(spark: SparkSession) -> str:
    """What workers lack, in a line; empty if nothing. One task per slot looks."""
    slots = max(1, spark.sparkContext.defaultParallelism)
    describe = functions.udf(_describe, "string", useArrow=False).asNondeterministic()
    try:
        rows = spark.range(0, slots, 1, slots).select(describe("id").alias("found")).collect()
    except SPARK_ERRORS as error:
        return _why(str(error))
    for row in rows:
        found = read_json(row["found"])
        if found["lack"]:
            return f"{found['python']} on {found['host']}: {found['lack']}"
        if found["version"] != VERSION:
            return f"{found['host']} has omnigraph {found['version']}"
    return ""


def _describe(number: int) -> str:
    """Runs on a worker, which may have nothing of ours."""
    del number
    lack = version = ""
    try:
        tasks = import_module("omnigraph.pipeline.stage.ingest")
    except ImportError as error:
        lack = f"{type(error).__name__}: {error}"
    else:
        version = sys.modules[tasks.__name__.partition(".")[0]].__version__
    return json.dumps(
        {
            "host": socket.gethostname(),
            "python": sys.executable,
            "lack": lack,
            "version": version,
        }
    )


def _why(said: str) -> str:
    """The line of Spark's pages that has the cause."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "Cannot run program" in line or "Error: " in line]
    return (telling or lines or [said])[-1]
