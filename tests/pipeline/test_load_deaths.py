"""Workers that die, disks that are full, a driver that is killed: all or nothing, and go on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from omnigraph.engine.load.bulk import BulkLoader, Ingested, LoadJob, LoadMode
from omnigraph.engine.load.run import LoadRequest
from omnigraph.engine.opening import open_graph
from omnigraph.errors import JobFailed
from omnigraph.ids import TableKey
from omnigraph.pipeline.head_start import HeadStartLoader
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.tasks import Work
from omnigraph.testing.invariants import check_graph
from support.loading import HUGE, LARGE, SETTINGS, SMALL, Loader, new_loader, person
from support.processes import Died, find_below, launch, wait_until
from support.tasks import Cramped, CrampedPart, PartDiesOnce
from support.writing import stores_at

PEOPLE = [person(f"p{number}", age=1) for number in range(4)]
MERGED = [person(f"p{number}", age=2) for number in range(2, 6)]
NOTHING_FITS = 64
DEADLINE_S = 120.0


@pytest.fixture
def huge(spark: SparkSession, tmp_path: Path) -> Loader:  # noqa: ARG001 - starts Spark
    return new_loader(tmp_path, HUGE)


def ages(loader: Loader) -> dict[str, object]:
    return {name: row["age"] for name, row in loader.tables()["Person"].items()}


def check_merged(loader: Loader) -> None:
    assert ages(loader) == {f"p{number}": 1 if number < 2 else 2 for number in range(6)}
    assert check_graph(stores_at(Path(loader.graph.uri))) == []


def test_a_worker_that_is_killed_while_it_merges_is_replaced(
    huge: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge.put(LoadMode.APPEND, *PEOPLE)
    marker = huge.folder / "died"
    mortal = partial(PartDiesOnce, marker=str(marker))
    monkeypatch.setattr("omnigraph.pipeline.stage.write_pending.WritePart", mortal)
    huge.put(LoadMode.MERGE, *MERGED)
    assert marker.exists()
    check_merged(huge)


def test_a_full_disk_on_a_worker_is_told_and_nothing_is_loaded(
    huge: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge.put(LoadMode.APPEND, *PEOPLE)

    def run_cramped(spark: SparkSession, work: Work, count: int, **rest: Any) -> Any:
        tight = Cramped(work, NOTHING_FITS) if isinstance(work, Ingest) else work
        return run_tasks(spark, tight, count, **rest)

    before = huge.graph.snapshot()
    with monkeypatch.context() as patch:
        patch.setattr("omnigraph.pipeline.stage.read_input.run_tasks", run_cramped)
        with pytest.raises(JobFailed, match="reading the input failed"):
            huge.put(LoadMode.APPEND, *MERGED[2:])
        patch.setattr("omnigraph.pipeline.stage.read_input.run_tasks", run_tasks)
        tight = partial(CrampedPart, size_bytes=NOTHING_FITS)
        patch.setattr("omnigraph.pipeline.stage.write_pending.WritePart", tight)
        with pytest.raises(JobFailed, match="writing the rows failed"):
            huge.put(LoadMode.MERGE, *MERGED)
    assert huge.graph.snapshot() == before
    huge.put(LoadMode.MERGE, *MERGED)
    check_merged(huge)


@dataclass(frozen=True)
class Waiting:
    """Bulk work that is done, and says so; and then nothing happens any more."""

    bulk: BulkLoader
    marker: Path

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with self.bulk.ingest(job) as ingested:
            self.marker.touch()
            signal.pause()
            yield ingested


def load_and_wait(uri: str, source: str, marker: Path, bulk: BulkLoader) -> None:
    order = LoadRequest((source,), LoadMode.APPEND)
    open_graph(uri).load(order, Waiting(bulk, marker))


@pytest.mark.slow
@pytest.mark.parametrize("bulk", [LARGE, HeadStartLoader(SETTINGS, split_bytes=150)])
def test_a_driver_that_is_killed_leaves_nothing_that_shows_and_no_spark(
    spark: SparkSession,  # noqa: ARG001 - for the load that follows
    tmp_path: Path,
    bulk: BulkLoader,
) -> None:
    loader = new_loader(tmp_path, SMALL)
    loader.put(LoadMode.APPEND, *PEOPLE)
    before = loader.graph.snapshot()
    marker = tmp_path / "read"
    source = loader.write(*MERGED[2:], name="other.jsonl")
    driver = launch(load_and_wait, loader.graph.uri, source, marker, bulk)
    driver.await_ready()
    driver.begin()
    wait_until(marker.exists)
    below = find_below(driver.pid)
    assert bool(below) == (bulk is LARGE), "Spark runs below the driver"
    driver.kill()
    assert isinstance(driver.finish(DEADLINE_S), Died)
    wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in below))
    assert loader.graph.snapshot() == before
    pin = before.pins[TableKey("node:Person")]
    written = list((Path(loader.graph.uri) / pin.path / "data").glob("*.lance"))
    assert len(written) > 1, "workers had written, and nobody shows it"
    loader.put(LoadMode.MERGE, *MERGED)
    check_merged(loader)
