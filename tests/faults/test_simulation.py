"""Worlds by their seeds: processes that die, pause and lose replies, and a history that is judged.

`make simulate SEED=7 STEPS=100000` runs more of them. A world that finds something prints its seed.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from support.simulation import CALM, Faults, Kind, simulate

SEED: Final = int(os.environ.get("OMNIGRAPH_SEED", "0"))
WORLDS: Final = int(os.environ.get("OMNIGRAPH_WORLDS", "2"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [16, *range(SEED, SEED + WORLDS)])
def test_what_processes_were_told_is_what_the_graph_shows(tmp_path: Path, seed: int) -> None:
    """Seed 16 once found a table that nobody could write any more."""
    outcome = simulate(tmp_path / "g", seed)
    assert outcome.problems == [], f"seed {seed}"
    assert outcome.told["committed"] > 0


@pytest.mark.slow
def test_the_same_holds_of_threads_whose_writes_form_groups(tmp_path: Path) -> None:
    grouped = 0
    for seed in range(SEED, SEED + WORLDS):
        outcome = simulate(tmp_path / f"g{seed}", seed, kind=Kind.GROUPS)
        assert outcome.problems == [], f"seed {seed}"
        grouped += outcome.told["in groups"]
    assert grouped > 1


@pytest.mark.slow
def test_the_same_holds_of_all_kinds_of_work(tmp_path: Path) -> None:
    outcome = simulate(tmp_path / "g", SEED + 1, kind=Kind.MIXED)
    assert outcome.problems == [], f"seed {SEED + 1}"
    assert outcome.told["committed"] > 0


@pytest.mark.parametrize("kind", Kind)
def test_a_seed_repeats_a_world_step_by_step(tmp_path: Path, kind: Kind) -> None:
    faults = Faults(crash=0.02, pause=0.05, lose_reply=0.05)
    first = simulate(tmp_path / "one", 5, steps=250, faults=faults, kind=kind)
    second = simulate(tmp_path / "two", 5, steps=250, faults=faults, kind=kind)
    assert first.log == second.log
    assert first.told == second.told
    assert first.faulted["pause"] + first.faulted["crash"] > 0


def test_a_calm_world_commits_and_loses_nothing(tmp_path: Path) -> None:
    outcome = simulate(tmp_path / "g", 1, steps=600, faults=CALM)
    assert outcome.problems == []
    assert outcome.told["unknown"] == 0
    assert outcome.told["committed"] > 1
