"""A client of a Connect server is killed, or the server is: neither works on for nobody."""

import gzip
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.stages import watching
from omnigraph.errors import JobFailed
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.spark.connect import ConnectServer, start_server, stop_server
from support.processes import Died, Result, Returned, launch, wait_until

pytestmark = pytest.mark.slow

CHUNK_LINES = 20_000
CHUNKS = 125
FRAGMENTS = 25
"""What a load of all chunks would write."""
STILL_MS = 5_000

P = ParamSpec("P")
T = TypeVar("T")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    folder = tmp_path_factory.mktemp("connect") / "server"
    started = run_alone(start, folder)
    assert isinstance(started, Returned), started
    yield started.value
    stop_server(folder)


def start(folder: Path) -> ConnectServer:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    return start_server(port, folder=folder)


def run_alone(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Result[T]:
    child = launch(function, *args, **kwargs)
    child.await_ready()
    child.begin()
    return child.finish(300)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A graph, and input that one task reads for a while."""
    omnigraph.init(tmp_path / "g", "node Note { text: String }")
    line = '{"type":"Note","data":{"text":"' + 300 * "x" + '"}}\n'
    chunk = gzip.compress((CHUNK_LINES * line).encode(), 1)
    with (tmp_path / "rows.jsonl.gz").open("wb") as file:
        file.writelines(CHUNKS * [chunk])
    (tmp_path / "few.jsonl").write_text(line)
    return tmp_path


def fragments(folder: Path) -> frozenset[str]:
    return frozenset(each.name for each in folder.glob("g/nodes/*/data/*.lance"))


def load(folder: Path, address: str, name: str) -> int:
    graph = omnigraph.open(folder / "g")
    loaded = graph.load(str(folder / name), mode="append", spark=SparkSettings(remote=address))
    return sum(loaded.counts.values())


def test_the_job_of_a_client_that_is_killed_stops_staging(
    server: ConnectServer, folder: Path
) -> None:
    client = launch(load, folder, server.address, "rows.jsonl.gz")
    client.await_ready()
    client.begin()
    wait_until(lambda: fragments(folder), "a fragment")
    client.kill()
    assert isinstance(client.finish(300), Died)
    seen, since_ms = fragments(folder), REAL.monotonic_ms()
    while REAL.monotonic_ms() - since_ms < STILL_MS:
        REAL.sleep_ms(200)
        if (now := fragments(folder)) != seen:
            seen, since_ms = now, REAL.monotonic_ms()
    assert len(seen) < FRAGMENTS // 2
    other = run_alone(load, folder, server.address, "few.jsonl")
    assert other == Returned(1), "the server serves others"


class Killer:
    """Kills the server when a task is under way."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def begin(self, stage: str) -> None: ...

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:  # noqa: ARG002
        with suppress(ProcessLookupError):  # it was told so twice
            os.kill(self._pid, signal.SIGKILL)

    def count(self, stage: str, rows: int) -> None: ...

    def end(self, stage: str, *, elapsed_ms: int) -> None: ...


def load_through_a_death(folder: Path, address: str, pid: int) -> str:
    try:
        with watching(Killer(pid)):
            load(folder, address, "rows.jsonl.gz")
    except JobFailed as failed:
        return str(failed)
    raise AssertionError("the load went on without Spark")


def test_a_client_whose_server_is_killed_is_told_so_within_seconds(
    server: ConnectServer, folder: Path
) -> None:
    result = run_alone(load_through_a_death, folder, server.address, server.owner.pid)
    assert isinstance(result, Returned), result
    assert result.value.startswith("reading the input failed: Spark is gone")
