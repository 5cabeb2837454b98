"""One load, in a process of its own, and what it took.

Unless its start is what is measured, it is warmed up with a small load of the same kind.
"""

import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import load_input
from load_input import Size
from measure import timed

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.bulk import CheckResult, Ingested, LoadJob, LoadMode
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.load.run import LoadRequest
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.settings import Settings
from omnigraph.errors import LoadRejected
from omnigraph.ids import TableKey
from omnigraph.pipeline.local_load import MEMORY_BYTES
from omnigraph.pipeline.spark.session import SparkSettings
from omnigraph.pipeline.spark_load import SparkLoader
from omnigraph.storage.durability import Durability
from support.processes import launch, race, values_of

TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is to load."""

    sources: tuple[Input, ...]
    schema: str
    folder: Path
    mode: LoadMode = LoadMode.APPEND
    master: str = "local[2]"
    before: Path | None = None
    """What is loaded first, and not measured."""
    memory_bytes: int = MEMORY_BYTES
    is_refused: bool = False
    """Is something wrong with it?"""


@dataclass(frozen=True, slots=True)
class Took:
    whole_s: float
    ingest_s: float
    check_s: float
    driver_mb: float
    workers_mb: float

    @property
    def commit_s(self) -> float:
        """Everything but reading and checking."""
        return self.whole_s - self.ingest_s - self.check_s


@dataclass
class Timed:
    """Bulk work, with a clock."""

    bulk: SparkLoader
    ingest_s: float = 0.0
    check_s: float = 0.0

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        began = time.perf_counter()
        with self.bulk.ingest(job) as ingested:
            self.ingest_s = time.perf_counter() - began
            check = ingested.check

            def timed_check(pins: Mapping[TableKey, Pin]) -> CheckResult | None:
                started = time.perf_counter()
                result = check(pins)
                self.check_s += time.perf_counter() - started
                return result

            ingested.check = timed_check  # type: ignore[method-assign] # to time it
            yield ingested


@dataclass
class Memory:
    """The most that this process, and the Python workers below it, had at once."""

    driver_mb: float = 0.0
    workers_mb: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            driver, workers = _memory_of_tree(os.getpid())
            self.driver_mb = max(self.driver_mb, driver)
            self.workers_mb = max(self.workers_mb, workers)


def _memory_of_tree(root: int) -> tuple[float, float]:
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text()
        except OSError:
            continue
        pid = int(entry.parent.name)
        names[pid] = text[text.index("(") + 1 : text.rindex(")")]
        children.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(pid)
    below, waiting = [], [root]
    while waiting:
        some = children.get(waiting.pop(), [])
        below += some
        waiting += some
    workers = [pid for pid in below if names[pid].startswith("python")]
    return _own_mb(root), max((_own_mb(pid) for pid in workers), default=0.0)


def _own_mb(pid: int) -> float:
    """What it has in memory and does not share."""
    try:
        _, resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[:3]
    except OSError:
        return 0.0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") / 2**20


def run_load(order: Order) -> Took:
    """Warm up, load, and say what it took."""
    settings = SparkSettings(master=order.master)
    bulk = SparkLoader(settings, memory_bytes=order.memory_bytes)
    shutil.rmtree(order.folder, ignore_errors=True)
    order.folder.mkdir(parents=True)
    _warm_up(order, bulk)
    graph = _new(order.folder / "g", order.schema)
    if order.before is not None:
        graph.load(LoadRequest((Input(str(order.before)),), LoadMode.APPEND), bulk)
    clock = Timed(bulk)

    def load() -> None:
        try:
            graph.load(LoadRequest(order.sources, order.mode), clock)
        except LoadRejected:
            assert order.is_refused
        else:
            assert not order.is_refused

    with Memory() as memory:
        whole_s = timed(load)
    took = Took(whole_s, clock.ingest_s, clock.check_s, memory.driver_mb, memory.workers_mb)
    shutil.rmtree(order.folder)
    return took


def _new(folder: Path, schema: str) -> Graph:
    # Upkeep is a write of its own after the load, and durability that of every write.
    return create(
        str(folder), schema, settings=Settings(durability=Durability.RELAXED, maintenance=False)
    )


def _warm_up(order: Order, bulk: SparkLoader) -> None:
    """So that what is measured is not how long Spark takes to compile its plans."""
    if any(each.is_table for each in order.sources):
        people, knows = load_input.write_parquet(order.folder / "warm", Size(2000))
        sources = tables_of(people, knows)
    elif "Item" in order.schema:
        sources = (Input(str(load_input.write_vectors(order.folder / "warm.jsonl", 500))),)
    else:
        sources = (Input(str(load_input.write_graph(order.folder / "warm.jsonl", Size(3000)))),)
    graph = _new(order.folder / "w", order.schema)
    large = replace(bulk, small_bytes=0)
    graph.load(LoadRequest(sources, LoadMode.APPEND), large)
    graph.load(LoadRequest(sources, LoadMode.MERGE), large)


def tables_of(people: Path, knows: Path) -> tuple[Input, ...]:
    return (Input(str(people), type="Person"), Input(str(knows), edge="Knows"))


def apart(order: Order) -> Took:
    """In a process of its own."""
    return values_of(race([launch(run_load, order)], timeout_s=TIMEOUT_S))[0]


def apart_twice(uri: str, source: str) -> float:
    return values_of(race([launch(load_twice, uri, source)], timeout_s=TIMEOUT_S))[0]


def load_twice(uri: str, source: str) -> float:
    graph, bulk = open_graph(uri), SparkLoader(SparkSettings())
    order = LoadRequest((Input(source),), LoadMode.MERGE)
    graph.load(order, bulk)
    return timed(lambda: graph.load(order, bulk))
