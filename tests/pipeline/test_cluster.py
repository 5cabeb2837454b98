"""A real cluster of Spark: what its workers need, and that work survives the death of workers.

A master and two workers are processes of their own, and the graph is in a bucket that another
process serves. The larger run is for `make soak`.
"""

import json
import os
import shutil
import socket
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.commit.leases.staging import find_staging
from omnigraph.effects import REAL
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.run import LoadRequest
from omnigraph.errors import SparkUnusable
from omnigraph.pipeline import export, register
from omnigraph.pipeline.dataframes.begun_write import Home
from omnigraph.pipeline.queries import scans
from omnigraph.pipeline.settings import EXPORT_ROWS, MERGE_ROWS, SCRATCH, SparkSettings
from omnigraph.pipeline.spark import jobs, worker_environment
from omnigraph.pipeline.spark.connect import ConnectServer, start_server, stop_server
from omnigraph.pipeline.spark.session import find_session
from omnigraph.pipeline.spark_load import SparkLoader
from omnigraph.pipeline.stage import read_input
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph
from support.bucket_server import BUCKET, serving_bucket
from support.clusters import Cluster, executor_settings, running_cluster
from support.held_tasks import HELD_AT, HeldScan, register_held, run_held
from support.loading import knows, person
from support.processes import Process, Result, Returned, launch

pytestmark = pytest.mark.slow

SOURCES = Path(omnigraph.__file__).parent.parent
TESTS = Path(__file__).parent.parent
MODEST = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def master(cluster: Cluster) -> str:
    return cluster.address


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


# ── a worker dies in the middle of everything ────────────────────────────────────────────────────

SIZE = int(os.environ.get("OMNIGRAPH_CLUSTER_ROWS", "60"))
SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
OPERATIONS = ("load", "merge", "write", "stream", "follow", "query", "export")
IS_SOAK = "OMNIGRAPH_CLUSTER_ROWS" in os.environ
STANDALONE = OPERATIONS if IS_SOAK else ("load", "merge", "stream", "query")
THROUGH_CONNECT = OPERATIONS if IS_SOAK else ("write", "export")
"""In which of them a worker is killed: a new one costs seconds. The others run all the same."""
TOWNS = """query q() {
  match { $a: Person $a knows $b }
  return { $a.age as age, count($b) as n }
  order { age asc }
}"""


@dataclass(frozen=True)
class Found:
    """What the driver saw when all was done."""

    ages: dict[str, int | None]
    edges: int
    answer: list[tuple[int | None, int]]
    exported: str
    copied: str
    commits: int
    unsound: list[str]
    staged: int


@dataclass
class Driver:
    """The program that uses the cluster; it runs in a process of its own."""

    folder: Path
    place: str
    storage: Mapping[str, str]
    settings: SparkSettings
    killed_in: tuple[str, ...]

    def work_through(self) -> Found:
        os.environ |= {EXPORT_ROWS.name: "0", MERGE_ROWS.name: "0", SCRATCH: str(self.folder)}
        graph = self._open("g")
        copy = self._open("copy")
        spark = find_session(self.settings)
        register(spark, storage_options=self.storage)
        modules: tuple[Any, ...] = (read_input, export, jobs)
        for module in modules:
            module.run_tasks = run_held
        self._hold("load")
        self._load(graph)
        self._hold("merge")
        self._merge(graph)
        self._hold("write", spark)
        rows = [(f"w{number}", 3) for number in range(SIZE)]
        frame = spark.createDataFrame(rows, "name string, age int").repartition(2)
        frame.write.format("held").option("type", "Person").mode("append").save(graph.uri)
        self._hold("stream", spark)
        self._stream(spark, graph)
        self._hold("follow", spark)
        self._follow(spark, graph, copy)
        self._hold("query")
        scans.ScanTask = lambda reader: HeldScan(reader, HELD_AT[0])  # type: ignore[assignment, misc]
        answer = [tuple(row) for row in graph.spark(spark).query(TOWNS).collect()]
        self._hold("export")
        graph.export(self.folder / "out.jsonl")
        HELD_AT[0] = str(self.folder / "export")  # it is there: nothing holds any more
        copy.export(self.folder / "copy.jsonl")
        stores = open_stores(graph.uri, REAL, storage_options=self.storage)
        people = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } }"
        return Found(
            ages={str(row["n"]): row["a"] for row in graph.query(people)},  # type: ignore[misc]
            edges=graph.engine.snapshot().pins["edge:Knows"].row_count,  # type: ignore[index]
            answer=answer,
            exported=(self.folder / "out.jsonl").read_text(),
            copied=(self.folder / "copy.jsonl").read_text(),
            commits=len(graph.commits()),
            unsound=[str(each) for each in check_graph(stores)],
            staged=len(find_staging(graph.objects)),
        )

    def _open(self, name: str) -> LocalGraph:
        return omnigraph.init(f"{self.place}/{name}", SCHEMA, storage_options=self.storage)

    def _hold(self, operation: str, spark: SparkSession | None = None) -> None:
        """From now on the tasks are those of this operation, and the first of them will hold."""
        HELD_AT[0] = str(self.folder / operation)
        if operation not in self.killed_in:
            Path(HELD_AT[0]).touch()
        if spark is not None:
            register_held(spark, Home(self.storage, self.settings), HELD_AT[0])

    def _load(self, graph: LocalGraph) -> None:
        people = [person(f"p{number}", age=number % 2) for number in range(SIZE)]
        edges = [knows(f"p{number}", f"p{(number + 1) % SIZE}") for number in range(SIZE)]
        path = self.folder / "rows.jsonl"
        path.write_text("".join(f"{json.dumps(each)}\n" for each in [*people, *edges]))
        loader = SparkLoader(self.settings, split_bytes=SIZE * 40, small_bytes=0)
        graph.engine.load(LoadRequest((str(path),), LoadMode.APPEND), loader)

    def _merge(self, graph: LocalGraph) -> None:
        graph.branches.create("dev")
        graph.upsert("Person", [{"name": f"p{n}", "age": 2} for n in (0, 1)], branch="dev")
        graph.insert("Person", [{"name": "dev", "age": None}], branch="dev")
        graph.upsert("Person", [{"name": "p3", "age": 2}])
        graph.merge("dev")

    def _stream(self, spark: SparkSession, graph: LocalGraph) -> None:
        incoming = self.folder / "in"
        incoming.mkdir()
        for number in range(2):
            rows = (json.dumps({"name": f"s{number}-{n}", "age": 4}) for n in range(SIZE // 2))
            (incoming / f"{number}.json").write_text("\n".join(rows))
        reading = spark.readStream.schema("name string, age int").option("maxFilesPerTrigger", 1)
        writing = reading.json(str(incoming)).writeStream.format("held").option("type", "Person")
        writing = writing.option("checkpointLocation", str(self.folder / "stream-checkpoint"))
        writing = writing.option("sinkId", "s").trigger(availableNow=True)
        writing.start(graph.uri).awaitTermination()

    def _follow(self, spark: SparkSession, graph: LocalGraph, copy: LocalGraph) -> None:
        reading = spark.readStream.format("omnigraph").option("changes", "true").load(graph.uri)
        writing = reading.writeStream.format("held").option("changes", "true")
        writing = writing.option("checkpointLocation", str(self.folder / "copy-checkpoint"))
        writing = writing.option("sinkId", "copy").trigger(availableNow=True)
        writing.start(copy.uri).awaitTermination()


def expected_ages() -> dict[str, int | None]:
    ages: dict[str, int | None] = {f"p{number}": number % 2 for number in range(SIZE)}
    ages |= {"p0": 2, "p1": 2, "p3": 2, "dev": None}
    ages |= {f"w{number}": 3 for number in range(SIZE)}
    return ages | {f"s{number}-{n}": 4 for number in range(2) for n in range(SIZE // 2)}


def kill_while_it_works(cluster: Cluster, task: Driver) -> Result[Found]:
    """Kill one worker in each operation, once a task of the operation holds."""
    driver: Process[Found] = launch(work_through, task)
    driver.await_ready()
    driver.begin()
    with ThreadPoolExecutor(1) as listener:
        ending = listener.submit(driver.finish, 1_200)
        for each in task.killed_in:
            marker = task.folder / each
            while not marker.exists() and not ending.done():
                REAL.sleep_ms(20)
            if ending.done():
                break
            cluster.kill_worker_of(int(marker.read_text()))
        return ending.result()


def check_found(found: Found) -> None:
    wanted = expected_ages()
    assert found.ages == wanted
    assert found.edges == SIZE
    counted = Counter(wanted[f"p{number}"] for number in range(SIZE))
    assert sorted(found.answer) == found.answer == sorted(counted.items())
    lines = [json.loads(line) for line in found.exported.splitlines()]
    named = {line["data"]["name"]: line["data"]["age"] for line in lines if "type" in line}
    assert named == wanted
    assert len(lines) == len(wanted) + SIZE
    assert found.copied == found.exported
    assert found.commits == 7, "init, load, an upsert, merge, write, two batches"
    assert found.unsound == []
    assert found.staged == 0


@pytest.fixture(scope="module")
def bucket() -> Iterator[Mapping[str, str]]:
    with serving_bucket() as options:
        yield options


def work_through(driver: Driver) -> Found:
    return driver.work_through()


def test_work_survives_the_death_of_a_worker(
    cluster: Cluster, bucket: Mapping[str, str], tmp_path: Path
) -> None:
    equipment = executor_settings(f"{SOURCES}:{TESTS}")
    settings = SparkSettings(master=cluster.address, scratch=str(tmp_path), configuration=equipment)
    driver = Driver(tmp_path, f"s3://{BUCKET}/standalone", bucket, settings, STANDALONE)
    before = cluster.kills
    result = kill_while_it_works(cluster, driver)
    assert isinstance(result, Returned), result
    check_found(result.value)
    assert cluster.kills - before == len(STANDALONE)


def start_connect(folder: Path, port: int, master: str) -> ConnectServer:
    return start_server(port, master=master, folder=folder)


def test_work_through_a_connect_server_survives_the_death_of_a_worker(
    cluster: Cluster, bucket: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    equipment = executor_settings(f"{SOURCES}:{TESTS}")
    lines = [f"{name} {value}\n" for name, value in equipment.items()]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(lines))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    starting = launch(start_connect, tmp_path / "server", port, cluster.address)
    starting.await_ready()
    starting.begin()
    started = starting.finish(300)
    assert isinstance(started, Returned), started
    try:
        settings = SparkSettings(remote=started.value.address, scratch=str(tmp_path))
        place = f"s3://{BUCKET}/connect"
        driver = Driver(tmp_path, place, bucket, settings, THROUGH_CONNECT)
        before = cluster.kills
        result = kill_while_it_works(cluster, driver)
        assert isinstance(result, Returned), result
        check_found(result.value)
        assert cluster.kills - before == len(THROUGH_CONNECT)
    finally:
        stop_server(tmp_path / "server")
