"""The Java machine of Spark dies: its job is told of it, and the next one has another."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph.engine.stages import watching
from omnigraph.errors import JobFailed
from support.processes import Returned, find_sparks, find_workers, launch, wait_until

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "from omnigraph.cli.app import main; main()"]
SCHEMA = "node Person { name: String @key }"
RECORD = '{"type":"Person","data":{"name":"ada"}}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    omnigraph.init(tmp_path / "g", SCHEMA)
    (tmp_path / "rows.jsonl").write_text(RECORD)
    return tmp_path


def count_people(folder: Path) -> int:
    pins = omnigraph.open(folder / "g").snapshot().pins
    return pins["node:Person"].row_count  # type: ignore[index]


class Killer:
    """Kills Spark when the first task of a job is under way."""

    def begin(self, stage: str) -> None: ...

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:  # noqa: ARG002
        for each in find_sparks(os.getpid()):
            os.kill(each, signal.SIGKILL)

    def count(self, stage: str, rows: int) -> None: ...

    def end(self, stage: str, *, elapsed_ms: int) -> None: ...


def load_through_a_death(folder: Path) -> tuple[str, int]:
    """What was said of the load during which Spark died, and what the next one loaded."""
    graph, rows = omnigraph.open(folder / "g"), str(folder / "rows.jsonl")
    try:
        with watching(Killer()):
            graph.load(rows, mode="append")
    except JobFailed as failed:
        return str(failed), graph.load(rows, mode="append").counts["node:Person"]  # type: ignore[index]
    raise AssertionError("the load went on without Spark")


def test_a_load_whose_spark_dies_fails_and_the_next_one_has_another(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    child = launch(load_through_a_death, folder)
    child.await_ready()
    child.begin()
    result = child.finish(300)
    assert isinstance(result, Returned), result
    said, loaded = result.value
    assert said.startswith("reading the input failed: Spark is gone")
    assert loaded == 1
    assert count_people(folder) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_command_whose_spark_dies_says_so_in_a_line(folder: Path) -> None:
    words = ["load", "g", "--data", "rows.jsonl", "--mode", "append"]
    with subprocess.Popen(
        [*COMMAND, *words, "--progress"], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as loading:
        assert loading.stderr is not None
        assert next(line for line in loading.stderr if line.startswith("reading the input"))
        for each in find_sparks(loading.pid):
            os.kill(each, signal.SIGKILL)
        rest = loading.stderr.read().strip().splitlines()
    assert loading.returncode == 1
    assert "Spark is gone" in rest[-1]
    assert len(rest) <= 3, rest
    assert count_people(folder) == 0


def load(url: str) -> httpx.Response:
    where = f"{url}/graphs/g/load/ndjson?mode=append"
    return httpx.post(where, content=RECORD, headers={"Idempotency-Key": "k"}, timeout=120)


def test_a_server_whose_spark_dies_answers_so_and_loads_again(folder: Path) -> None:
    words = ["serve", f"--graph=g={folder / 'g'}", "--unauthenticated", "--bind=127.0.0.1:0"]
    server = subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    try:
        url = f"http://{server.stdout.readline().strip().partition('=')[2]}"
        with ThreadPoolExecutor(1) as client:
            first = client.submit(load, url)
            wait_until(lambda: find_workers(server.pid), "a task of the server's Spark")
            for each in find_sparks(server.pid):
                os.kill(each, signal.SIGKILL)
            failed = first.result()
        assert failed.status_code == 500
        assert failed.json()["cause"]["code"] == "job_failed"
        assert failed.json()["retryable"]
        again = load(url)
        assert again.status_code == 200, again.text
        assert again.json()["total_entities"] == 1
    finally:
        server.terminate()
        server.wait(90)
        server.stdout.close()
    assert count_people(folder) == 1
