"""Workers of one server load on one Spark, which ends with them."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph.errors import SparkUnusable
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.server.runtime import shared_spark
from omnigraph.server.runtime.shared_spark import SHARED, find_spark, run_on_spark
from support.processes import wait_until

COMMAND = "import sys; from omnigraph.cli.app import run; sys.exit(run(sys.argv[1:]))"


def find_javas(folder: Path) -> list[int]:
    """The Java machines whose files are below a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0].endswith("/java") and any(str(folder) in word for word in words):
            found.append(int(each.parent.name))
    return found


def load(url: str, name: str) -> int:
    record = json.dumps({"type": "Person", "data": {"name": name}}) + "\n"
    answer = httpx.post(f"{url}/graphs/g/load/ndjson?mode=append", content=record, timeout=300)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["total_entities"])


@pytest.mark.slow
def test_workers_share_one_spark_and_take_it_along(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", "node Person { name: String @key }")
    (tmp_path / "tmp").mkdir()
    words = ["serve", f"--graph=g={graph.uri}", "--unauthenticated", "--bind=127.0.0.1:0"]
    server = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words, "--workers=2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )
    assert server.stdout is not None
    try:
        url = f"http://{server.stdout.readline().strip().partition('=')[2]}"
        with ThreadPoolExecutor(4) as clients:
            # Connections of their own, so that both workers are asked.
            assert list(clients.map(lambda at: load(url, f"p{at}"), range(8))) == [1] * 8
        (java,) = find_javas(tmp_path)
        os.kill(java, signal.SIGKILL)
        # Until the kernel has ended it, it accepts connections, and a job on one of them fails.
        wait_until(lambda: java not in find_javas(tmp_path))
        with ThreadPoolExecutor(4) as clients:
            assert list(clients.map(lambda at: load(url, f"q{at}"), range(4))) == [1] * 4
        assert len(set(find_javas(tmp_path)) - {java}) == 1, "those who lost it have another"
    finally:
        server.terminate()
        server.wait(90)
        server.stdout.close()
    assert graph.snapshot().pins["node:Person"].row_count == 12  # type: ignore[index]
    assert find_javas(tmp_path) == []


def test_a_spark_that_somebody_named_is_used_instead(tmp_path: Path) -> None:
    assert find_spark({}) is None
    named = {SHARED: str(tmp_path / "spark"), "OMNIGRAPH_SPARK_MASTER": "local[1]"}
    assert find_spark(named) is None
    assert not (tmp_path / "spark").exists()


def test_a_job_runs_again_only_where_another_spark_took_the_place_of_a_dead_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[SparkSettings | None] = []

    def job(spark: SparkSettings | None) -> None:
        tried.append(spark)
        raise SparkUnusable("nobody answers")

    dead, new = SparkSettings(remote="sc://localhost:1"), SparkSettings(remote="sc://localhost:2")
    for known, runs in (([dead, new], [dead, new]), ([dead, dead], [dead])):
        tried.clear()
        servers = iter(known)
        monkeypatch.setattr(shared_spark, "find_spark", lambda found=servers: next(found))
        with pytest.raises(SparkUnusable):
            run_on_spark(job)
        assert tried == runs
