"""A standalone cluster of Spark: a master and its workers as processes, and a way to kill workers.

A worker is a Java machine that starts executors, which start Python. All that a worker started
dies with it, as on a machine that loses its power. Each worker listens at a loopback address of
its own, so Spark counts it as a host of its own.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark

from omnigraph.pipeline.spark.class_archive import archive_options
from omnigraph.pipeline.spark.java import find_java
from support.processes import find_below, wait_until

HOME: Final = Path(pyspark.__file__).parent
DEPLOY: Final = "org.apache.spark.deploy"
QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For Java machines that live for seconds."""


@dataclass
class Cluster:
    """A master and its workers. Make one with `running_cluster`."""

    folder: Path
    address: str = ""
    kills: int = 0
    _master: "subprocess.Popen[bytes] | None" = None
    _workers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    _started: int = 0

    def start_master(self) -> None:
        log = self.folder / "master.log"
        words = [f"{DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", "0"]
        self._master = _start([*words, "--webui-port", "0"], log)
        wait_until(lambda: "I have been elected leader" in _read(log), "a master")
        (self.address,) = re.findall(r"Starting Spark master at (spark://\S+)", _read(log))

    def start_worker(self) -> Path:
        """Start a worker of one core, and do not wait for it; its log."""
        self._started += 1
        name = f"worker-{self._started}"
        log = self.folder / f"{name}.log"
        words = [f"{DEPLOY}.worker.Worker", "--host", f"127.0.0.{1 + self._started}"]
        words += ["--webui-port", "0", "-c", "1", "-m", "600m", "-d", str(self.folder / name)]
        self._workers.append(_start([*words, self.address], log))
        return log

    def await_worker(self, log: Path) -> None:
        wait_until(lambda: "Successfully registered" in _read(log), "a worker")

    def kill_worker_of(self, pid: int) -> None:
        """Kill the worker below which a process runs, with all it started; start another one."""
        (victim,) = (each for each in self._workers if pid in find_below(each.pid))
        for each in [victim.pid, *find_below(victim.pid)]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        victim.wait(60)
        self._workers.remove(victim)
        self.kills += 1
        self.start_worker()

    def stop(self) -> None:
        for each in [*self._workers, *([self._master] if self._master else [])]:
            each.terminate()
            each.wait(60)


@contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    try:
        cluster.start_master()
        logs = [cluster.start_worker() for _ in range(workers)]
        for log in logs:
            cluster.await_worker(log)
        yield cluster
    finally:
        cluster.stop()


def executor_settings(python_path: str) -> dict[str, str]:
    """What executors of this cluster need, and their sessions: little memory, a quick start."""
    return {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": " ".join([*QUICK, *archive_options(find_java())]),
        "spark.executorEnv.PYTHONPATH": python_path,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    }


def _start(words: list[str], log: Path) -> "subprocess.Popen[bytes]":
    hidden = ("PYTHONPATH", "PYSPARK_PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    environment = {**kept, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}
    # The master gives up on a program whose executors end ten times; here they are killed.
    options = ["-Xmx128m", *QUICK, "-Dspark.deploy.maxExecutorRetries=-1"]
    java = ["java", *options, "-cp", f"{HOME}/jars/*"]
    with log.open("wb") as out:
        return subprocess.Popen([*java, *words], env=environment, stdout=out, stderr=out)


def _read(log: Path) -> str:
    return log.read_text(errors="replace")
