"""Four processes write three branches at random, and are killed and frozen at random."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.effects import REAL
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph
from support.processes import Process, Returned, launch
from support.storm import TIMING, judge, prepare, work

WORKERS = 4


def kills_wanted() -> int:
    """Forty, unless the soak asks for more."""
    return int(os.environ.get("OMNIGRAPH_KILLS", "40"))


def seed_wanted() -> int:
    return int(os.environ.get("OMNIGRAPH_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_is_half_visible(tmp_path: Path) -> None:
    seed = seed_wanted()
    print(f"seed {seed}: OMNIGRAPH_SEED={seed} repeats this storm")  # noqa: T201
    chance = random.Random(seed)
    root = tmp_path / "g"
    prepare(root)
    notes: list[Path] = []
    running: list[Process[int]] = []

    def begin() -> None:
        notes.append(tmp_path / f"{len(notes)}.jsonl")
        name = f"w{len(notes)}"
        process = launch(work, root, notes[-1], name, chance.randrange(10**9), 10_000)
        process.await_ready()
        process.begin()
        running.append(process)

    for _ in range(WORKERS):
        begin()
    for _ in range(kills_wanted()):
        time.sleep(chance.uniform(0.02, 0.25))
        victim = running.pop(chance.randrange(len(running)))
        if chance.random() < 0.2:
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(chance.uniform(0, 2) * TIMING.ttl_ms / 1000)
            os.kill(victim.pid, signal.SIGCONT)
            time.sleep(chance.uniform(0, 0.1))
        victim.kill()
        victim.finish(20)
        begin()
    for process in running:
        process.kill()
        process.finish(20)

    problems = judge(root, notes)
    assert problems == [], f"seed {seed}"
    stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    assert check_graph(stores) == [], f"seed {seed}"
    assert find_sidecars(stores.objects) == ()
    last = launch(work, root, tmp_path / "last.jsonl", "last", seed, 10)
    last.await_ready()
    last.begin()
    assert isinstance(last.finish(60), Returned)
    assert judge(root, [*notes, tmp_path / "last.jsonl"]) == [], f"seed {seed}"
