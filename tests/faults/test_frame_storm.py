"""Drivers, Java machines and workers are killed while frames and streams are written: every row
shows exactly once.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph
from omnigraph.testing.invariants import check_graph
from support.loading import SETTINGS
from support.processes import Process, Returned, find_sparks, find_workers, launch
from support.writing import stores_at
from support.writing_on_spark import Task, work

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("OMNIGRAPH_SPARK_KILLS", "3"))
"""A driver, a Java machine and a worker in turn."""
SEED = int(os.environ.get("OMNIGRAPH_SEED", "1")) or random.SystemRandom().randrange(1, 10**6)
STARTS_MAX = 4 * KILLS + 4
ROWS = 20


def kill_driver(program: Process[None]) -> bool:
    program.kill()
    return True


def kill_java(program: Process[None]) -> bool:
    return kill_one(find_sparks(program.pid))


def kill_worker(program: Process[None], chance: random.Random) -> bool:
    """Any Python that Spark started: of a task, of a commit, of a plan."""
    return kill_one([chance.choice(found)] if (found := find_workers(program.pid)) else [])


def kill_one(pids: list[int]) -> bool:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def test_every_row_shows_once_however_often_somebody_dies(tmp_path: Path) -> None:
    print(f"seed {SEED}: OMNIGRAPH_SEED={SEED} repeats these kills")  # noqa: T201
    chance = random.Random(SEED)
    task = Task(tmp_path, 3 + 2 * KILLS, ROWS, SETTINGS.configuration)
    task.prepare()
    kinds: list[Callable[[Process[None]], bool]] = [
        kill_driver,
        kill_java,
        lambda program: kill_worker(program, chance),
    ]
    killed = 0
    for _ in range(STARTS_MAX):
        killed_before = killed
        program = launch(work, task)
        program.await_ready()
        program.begin()
        with ThreadPoolExecutor(1) as listener:
            ending = listener.submit(program.finish, 600)
            awaited = count_commits(task) + chance.randint(1, 4)
            while not ending.done() and killed < KILLS:
                time.sleep(0.02)
                if count_commits(task) >= awaited:  # kill right here, or a batch later
                    time.sleep(chance.uniform(0, chance.choice([0.1, 1.5])))
                    killed += not ending.done() and kinds[killed % len(kinds)](program)
                    awaited = count_commits(task) + chance.randint(1, 4)
            result = ending.result()
        if isinstance(result, Returned):
            break
        assert killed_before < KILLS, f"it failed, and nobody killed anything: {result}"
    assert isinstance(result, Returned), f"not done after {STARTS_MAX} starts: {result}"
    assert killed == KILLS
    check_written(task)


def count_commits(task: Task) -> int:
    return len(omnigraph.open(task.uri, read_only=True).commits())


def check_written(task: Task) -> None:
    graph = omnigraph.open(task.uri)
    wanted = sorted(name for batch in range(task.batches) for name in task.names(batch))
    for type_ in ("Streamed", "Written"):
        text = f"query q() {{ match {{ $a: {type_} }} return {{ $a.name as n }} }}"
        assert sorted(row["n"] for row in graph.query(text)) == wanted  # type: ignore[type-var]
    mine = [each for each in graph.commits() if each.actor != "omnigraph:recovery"]
    assert len(mine) == 1 + 2 * task.batches
    assert check_graph(stores_at(Path(task.uri))) == []
