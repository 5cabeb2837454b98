"""A real master and a real worker of Spark, and what their workers need to run tasks of ours."""

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

import omnigraph
from omnigraph.errors import SparkUnusable
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.spark import worker_environment
from support.processes import Returned, launch, wait_until

pytestmark = pytest.mark.slow

SOURCES = Path(omnigraph.__file__).parent.parent
HOME = Path(pyspark.__file__).parent
JAVA = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", f"{HOME}/jars/*"]
DEPLOY = "org.apache.spark.deploy"
MODEST = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}


@contextmanager
def running(words: list[str], log: Path, said: str) -> Iterator[None]:
    """A program of Spark, once it has said something."""
    hidden = ("PYTHONPATH", "PYSPARK_PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    environment = {**kept, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}
    with log.open("wb") as out:
        process = subprocess.Popen([*JAVA, *words], env=environment, stdout=out, stderr=out)
    try:
        wait_until(lambda: said in log.read_text(errors="replace"), said)
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    at, log = ["--host", "127.0.0.1", "--webui-port", "0"], folder / "master.log"
    head = [f"{DEPLOY}.master.Master", *at, "--port", "0"]
    hand = [f"{DEPLOY}.worker.Worker", *at, "-c", "1", "-m", "600m", "-d", str(folder)]
    with ExitStack() as stack:
        stack.enter_context(running(head, log, "I have been elected leader"))
        (address,) = re.findall(r"Starting Spark master at (spark://\S+)", log.read_text())
        hand.append(address)
        stack.enter_context(running(hand, folder / "worker.log", "Successfully registered"))
        yield address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    omnigraph.init(tmp_path / "g", "node Person { name: String @key }")
    (tmp_path / "rows.jsonl").write_text('{"type":"Person","data":{"name":"ada"}}\n')
    return tmp_path


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python that has all that the package needs, and not the package."""
    library = tmp_path / "bare" / f"lib/python{sysconfig.get_python_version()}/site-packages"
    library.mkdir(parents=True)
    (library / "needed.pth").write_text(sysconfig.get_path("purelib"))
    base = Path(sys._base_executable)  # type: ignore[attr-defined] # what venv goes by
    (tmp_path / "bare" / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    python = tmp_path / "bare" / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(base)
    return python


def load(folder: Path, settings: SparkSettings, patience_ms: int) -> str:
    """What a load said."""
    worker_environment.EXECUTOR_MS_MAX = patience_ms
    try:
        graph = omnigraph.open(folder / "g")
        return f"{graph.load(str(folder / 'rows.jsonl'), mode='append', spark=settings).counts}"
    except SparkUnusable as unusable:
        return str(unusable)


def load_alone(
    folder: Path,
    master: str,
    configuration: Mapping[str, str] | None = None,
    patience_ms: int = 240_000,
) -> str:
    settings = SparkSettings(master=master, configuration={**MODEST, **(configuration or {})})
    child = launch(load, folder, settings, patience_ms)
    child.await_ready()
    child.begin()
    result = child.finish(600)
    assert isinstance(result, Returned), result
    return result.value


def test_workers_of_this_machine_run_the_python_that_runs_here(
    master: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    found = load_alone(folder, master, {"spark.executorEnv.PYTHONPATH": str(SOURCES)})
    assert found == "{'node:Person': 1}"


def test_workers_without_the_package_are_told_of_before_the_job_and_can_be_sent_it(
    master: str, folder: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    said = load_alone(folder, master)
    assert f"{bare} on {socket.gethostname()}: ModuleNotFoundError" in said
    assert "set PYSPARK_PYTHON" in said
    assert "ship it" in said
    shipped = shutil.make_archive(str(folder / "omnigraph"), "zip", SOURCES, "omnigraph")
    found = load_alone(folder, master, {"spark.submit.pyFiles": shipped})
    assert found == "{'node:Person': 1}"


def test_a_cluster_that_has_no_room_is_told_of(master: str, folder: Path) -> None:
    said = load_alone(folder, master, {"spark.executor.memory": "8g"}, patience_ms=500)
    assert f"no worker of {master} took the job" in said
    assert "spark.executor.memory" in said
