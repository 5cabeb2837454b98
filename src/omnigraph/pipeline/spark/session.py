"""The Spark session: started late, once for each process, and kept.

A session costs seconds and hundreds of megabytes, so only bulk work starts one. If the
process has an active session already it is used as it is: its owner knows the cluster. Else
one is started on this machine, or reached, as the settings say.

The settings of a local session: no web interface, and no listening except on this
machine; a collector without threads of its own, because two cores have none to spare; few shuffle
partitions, which the adaptive planner would otherwise have to merge; workers that are kept, because
starting one costs more than most tasks; no speculation, because two copies of a task write twice.
The JVM logs to a file; when it dies, our error quotes the end of that file.
"""

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Final
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.engine.stages import stage
from omnigraph.errors import SparkUnusable
from omnigraph.pandas_guard import show_pandas, without_pandas
from omnigraph.pipeline.settings import SCRATCH, SparkSettings, read_settings
from omnigraph.pipeline.spark.class_archive import archive_options
from omnigraph.pipeline.spark.java import find_java
from omnigraph.pipeline.spark.liveness import (
    SPARK_ERRORS,
    forget,
    forget_gateway,
    give_up_in_time,
    hush,
    is_lost,
    reach,
)
from omnigraph.pipeline.spark.worker_environment import equip

__all__ = ["SCRATCH", "SparkSettings", "find_session", "read_settings", "stop_session", "tuned"]

SHUFFLES_PER_CORE: Final = 2
CONNECT_PORT: Final = 15002

_starting: Final = Lock()
_UNREACHABLE: Final[tuple[type[Exception], ...]] = (*SPARK_ERRORS, ImportError)
_DEAD: Final[tuple[type[Exception], ...]] = (*SPARK_ERRORS, OSError)

_ours: Final[list[SparkContext]] = []
"""The sessions that were started here, the newest last."""


def find_session(settings: SparkSettings, *, is_small: bool = False) -> SparkSession:
    """The session of this process, started if there is none.

    `is_small` says that what is about to run takes less time than getting ready for it. Raises
    JavaMissing, SparkUnusable.
    """
    with _starting:
        _forget_lost()
        active = SparkSession.getActiveSession()
        if active is None and SparkContext._active_spark_context is not None:  # noqa: SLF001 - nothing else tells
            # A session is active for the thread that started it; the others have to ask for it.
            active = SparkSession.builder.getOrCreate()
        with stage("starting Spark") if active is None else nullcontext():
            session = active or _begin(settings, is_hasty=is_small and settings.is_brief)
            if not is_remote():
                equip(session)
        return session


def _begin(settings: SparkSettings, *, is_hasty: bool) -> SparkSession:
    if settings.remote is not None:
        return _connect(settings, settings.remote)
    return _start(settings, is_hasty=is_hasty)


def _forget_lost() -> None:
    """Replace a session of ours that died. The death of a session that the user made is reported,
    because the next one runs elsewhere. Raises SparkUnusable, once.
    """
    if not is_lost():
        return
    context = SparkContext._active_spark_context  # noqa: SLF001 - as above
    forget()
    if context is not None and context not in _ours:
        raise SparkUnusable(
            "the Java machine of the session that was active is gone; make another session, or ask "
            "again to have one started"
        )


def _connect(settings: SparkSettings, remote: str) -> SparkSession:
    host, port = check_reachable(remote)
    builder = SparkSession.builder.remote(remote)
    for name, value in settings.configuration.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except _UNREACHABLE as error:
        raise SparkUnusable(f"{remote}: {_first_line(error)}") from error
    show_pandas()  # the client of Spark Connect passes data frames to Arrow
    give_up_in_time(session, host, port)
    return session


def check_reachable(remote: str) -> tuple[str, int]:
    """Host and port of a server that accepts connections. Spark's client would retry for minutes.

    Raises SparkUnusable.
    """
    address = urlsplit(remote)
    try:
        host, port = address.hostname, address.port or CONNECT_PORT
    except ValueError as error:
        raise SparkUnusable(f"{remote}: {error}") from None
    if address.scheme != "sc" or host is None:
        raise SparkUnusable(f"'{remote}' is not an address such as sc://host:{CONNECT_PORT}")
    try:
        reach(host, port)
    except OSError as error:
        raise SparkUnusable(f"nobody answers at {remote}: {error.strerror or error}") from error
    return host, port


def _start(settings: SparkSettings, *, is_hasty: bool) -> SparkSession:
    java = find_java()
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    configuration = SparkConf(loadDefaults=True)
    configuration.setMaster(settings.master).setAppName("omnigraph")
    options = ["-XX:+UseSerialGC", *archive_options(java), *(_HASTY_JAVA if is_hasty else ())]
    hasty = _HASTY if is_hasty else {}
    near = tuned(folder, options)
    if not settings.is_near:
        # Workers of other machines have to find the driver; Spark knows by what name.
        near = {name: near[name] for name in near if name not in _NEAR}
    for name, value in {**near, **hasty, **settings.configuration}.items():
        configuration.set(name, value)
    log = folder / "spark.log"
    try:
        with log.open("wb") as noise, warnings.catch_warnings():
            # Lance warns of every fork. This one runs another program and touches nothing of ours.
            warnings.filterwarnings("ignore", message="lance is not fork-safe")
            streams = {"stdout": noise, "stderr": noise}
            gateway = launch_gateway(configuration, streams)  # type: ignore[no-untyped-call] # theirs
        with without_pandas():
            # Spark's first call to Java asks this module whether there is numpy, of all things, and
            # the module asks for pandas.
            import_module("pyspark.testing.utils")
        context = SparkContext(conf=configuration, gateway=gateway)
    except _DEAD as error:
        raise SparkUnusable(f"{_first_line(error)}; {tail_of(log)}") from error
    hush(context)
    _ours.append(context)
    # Without a word from the environment the workers run whatever python3 there is.
    if settings.is_local and not os.environ.get("PYSPARK_PYTHON"):
        context.pythonExec = sys.executable
    return SparkSession(context)


def tuned(folder: Path, java_options: Sequence[str]) -> dict[str, str]:
    """What a session of ours is started with; `folder` is its own."""
    quiet = folder / "log4j2.properties"
    quiet.write_text(_QUIET, encoding="utf-8")
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(
            [*java_options, f"-Dlog4j2.configurationFile={quiet}"]
        ),
        "spark.local.dir": str(folder),
        "spark.python.use.daemon": "true",
        "spark.python.worker.reuse": "true",
        "spark.speculation": "false",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(SHUFFLES_PER_CORE * (os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


_NEAR: Final = ("spark.driver.host", "spark.driver.bindAddress")

# What is compiled well, or into a program of its own, pays only if it runs for a while.
_HASTY_JAVA: Final = ("-XX:TieredStopAtLevel=1",)
_HASTY: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}

# The gateway is named because Spark raises its level to WARN unless it has one of its own.
_QUIET: Final = """\
rootLogger.level = error
rootLogger.appenderRef.noise.ref = noise
appender.noise.type = Console
appender.noise.name = noise
appender.noise.target = SYSTEM_ERR
appender.noise.layout.type = PatternLayout
appender.noise.layout.pattern = %d %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


def stop_session(session: SparkSession) -> None:
    """End a session, and wait until its Java machine is gone."""
    gateway = getattr(SparkContext, "_gateway", None)
    process = getattr(gateway, "proc", None)
    session.stop()
    if gateway is not None and process is not None:
        gateway.shutdown()
        process.stdin.close()
        process.wait()
        forget_gateway()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def tail_of(log: Path) -> str:
    """The last line of the log of the JVM."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it said nothing"
