"""Jobs while they run: how far they are, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.cancellation import CancelToken, watched
from omnigraph.engine.stages import watching
from omnigraph.errors import JobFailed
from omnigraph.ids import TableKey
from omnigraph.pipeline.spark.jobs import run_tasks
from support.tasks import Dawdling, fill_the_disk


class Heard:
    def __init__(self) -> None:
        self.advances: list[tuple[str, int, int]] = []
        self.ended: list[str] = []
        self.rows: list[int] = []

    def begin(self, stage: str) -> None: ...

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:
        self.advances.append((stage, done, total))
        self.rows.append(rows or 0)

    def count(self, stage: str, rows: int) -> None: ...

    def end(self, stage: str, *, elapsed_ms: int) -> None:
        del elapsed_ms
        self.ended.append(stage)


def test_a_watcher_sees_tasks_being_done(spark: SparkSession) -> None:
    heard = Heard()
    with watching(heard) as record:
        run_tasks(spark, Dawdling(500), 10, job="dawdling")
    assert {(stage, total) for stage, _, total in heard.advances} == {("dawdling", 10)}
    assert any(0 < done < 10 for _, done, _ in heard.advances)
    assert any(0 < rows < 70 for rows in heard.rows)
    assert heard.rows == sorted(heard.rows)
    assert heard.ended == ["dawdling"]
    assert record.timings_ms["dawdling"] >= 500


def test_a_job_leaves_the_group_of_its_caller_as_it_was(spark: SparkSession) -> None:
    spark.sparkContext.setJobGroup("mine", "what I do")
    run_tasks(spark, Dawdling(0), 1, job="dawdling")
    with pytest.raises(JobFailed):
        run_tasks(spark, fill_the_disk, 1, job="writing")
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "mine"
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "what I do"


def processes_naming(text: str) -> list[str]:
    """Command lines that hold a text, of every process there is."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in words:
            found.append(words)
    return found


PROGRAM = """
import atexit, pathlib, sys
from omnigraph.cli.app import main
atexit.register(lambda: pathlib.Path("modules").write_text("\\n".join(sys.modules)))
main()
"""


@dataclass(frozen=True)
class Interrupted:
    """What was left of a command that Ctrl-C ended."""

    folder: Path
    code: int
    rest: str
    """What it said afterwards."""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """A real command, interrupted while its workers read."""
    folder = tmp_path_factory.mktemp("interrupted")
    omnigraph.init(folder / "g", "node Person { name: String @key }")
    with (folder / "rows.jsonl").open("w") as file:
        file.writelines(
            f'{{"type":"Person","data":{{"name":"person {number}"}}}}\n'
            for number in range(400_000)
        )
    (folder / "temporary").mkdir()
    command = ["load", "g", "--data", "rows.jsonl", "--mode", "append", "--progress"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as loading:
        assert loading.stderr is not None
        alarm = threading.Timer(240, loading.kill)
        alarm.start()
        said = []
        for line in loading.stderr:
            said.append(line)
            if line.startswith("reading the input"):
                # Long enough for workers to have begun, which they have to be stopped in.
                REAL.sleep_ms(1_500)
                os.killpg(loading.pid, signal.SIGINT)  # as a terminal does
                break
        rest = loading.stderr.read()
        code = loading.wait()
        alarm.cancel()
    assert said, rest
    return Interrupted(folder, code, rest)


@pytest.mark.slow
def test_ctrl_c_during_a_job_leaves_nothing_and_exits_with_130(interrupted: Interrupted) -> None:
    folder = interrupted.folder
    assert interrupted.code == 130, interrupted.rest
    assert "Traceback" not in interrupted.rest
    graph = omnigraph.open(folder / "g")
    assert graph.snapshot().pins[TableKey("node:Person")].row_count == 0
    assert graph.pending_writes() == ()
    assert list((folder / "g" / "__staging").iterdir()) == []
    until = REAL.monotonic_ms() + 60_000
    while (left := processes_naming(str(folder))) and REAL.monotonic_ms() < until:
        REAL.sleep_ms(200)
    assert left == []


@pytest.mark.slow
def test_a_command_starts_spark_without_pandas(interrupted: Interrupted) -> None:
    """Importing it takes a second and a half."""
    modules = (interrupted.folder / "modules").read_text().split()
    assert {"pyspark", "pyarrow", "lance"} <= set(modules)
    assert "pandas" not in modules


def test_a_token_stops_a_job_that_nobody_waits_for_any_more(spark: SparkSession) -> None:
    token, over = CancelToken(), threading.Event()

    def cancel() -> None:
        while not over.wait(0.3):  # a job that has not quite begun does not hear it
            token.cancel()

    threading.Thread(target=cancel).start()
    try:
        with watched(lambda _: None, token), pytest.raises(JobFailed):
            run_tasks(spark, Dawdling(60_000), 4, job="dawdling")
    finally:
        over.set()
    run_tasks(spark, Dawdling(0), 1, job="dawdling")
