"""Worlds by their seeds: processes that die, pause and lose replies, and a history that is judged.

`make simulate SEED=7 STEPS=100000` runs more of them. A world that finds something prints its seed.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from support.simulation import CALM, Faults, simulate

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
def test_the_same_holds_of_all_kinds_of_work(tmp_path: Path) -> None:
    outcome = simulate(tmp_path / "g", SEED + 1, is_mixed=True)
    assert outcome.problems == [], f"seed {SEED + 1}"
    assert outcome.told["committed"] > 0


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_seed_repeats_a_world_step_by_step(tmp_path: Path, is_mixed: bool) -> None:  # noqa: FBT001
    faults = Faults(crash=0.02, pause=0.05, lose_reply=0.05)
    first = simulate(tmp_path / "one", 5, steps=250, faults=faults, is_mixed=is_mixed)
    second = simulate(tmp_path / "two", 5, steps=250, faults=faults, is_mixed=is_mixed)
    assert first.log == second.log
    assert first.told == second.told
    assert first.faulted["pause"] + first.faulted["crash"] > 0


def test_a_calm_world_commits_and_loses_nothing(tmp_path: Path) -> None:
    outcome = simulate(tmp_path / "g", 1, steps=600, faults=CALM)
    assert outcome.problems == []
    assert outcome.told["unknown"] == 0
    assert outcome.told["committed"] > 1
