"""A write with a key dies anywhere, and is asked for again: its effect is there once."""

from pathlib import Path

import pytest

from omnigraph.engine.write.idempotency import IdempotencyKey
from omnigraph.engine.write.mutate import MutationResult, WriteRequest
from omnigraph.ids import MAIN, BranchName
from omnigraph.testing.faults import CrashAt, When, sweep
from support.breaking import (
    LINK,
    PAIR,
    PROGRAM,
    SIDE,
    Ask,
    BreakableGraph,
    check_whole,
    open_mortal,
)
from support.scenes import set_write

KEY = IdempotencyKey("key-1", "hash-of-it")
NOTHING = Ask("age", {"name": "nobody", "age": 1})


def ask_with_key(graph: BreakableGraph, ask: Ask, branch: BranchName) -> MutationResult:
    order = WriteRequest(branch, actor="writer", idempotency=KEY)
    return graph.mutate(PROGRAM, name=ask.query, params=ask.params, request=order)


def keyed_commits(root: Path, branch: BranchName) -> list[str]:
    commits = open_mortal(root).commits(branch)
    return [each.id for each in commits if each.extension.idempotency is not None]


# A link gets an id of its own every time, so doing it twice would show. Dying after a write is
# dying before the next one, so this is every place there is.
@pytest.mark.parametrize("ask", [LINK, PAIR, NOTHING], ids=["edge", "two tables", "no effect"])
@pytest.mark.parametrize("branch", [MAIN, SIDE])
def test_asking_again_after_a_death_anywhere_does_it_once(
    tmp_path: Path, ask: Ask, branch: BranchName
) -> None:
    stage = set_write(ask, branch, tmp_path / "g")

    def attempt(fault: CrashAt) -> None:
        stage.reset()
        ask_with_key(open_mortal(stage.root, fault), ask, branch)

    for _ in sweep(When.BEFORE, attempt):
        first = ask_with_key(open_mortal(stage.root), ask, branch)
        again = ask_with_key(open_mortal(stage.root), ask, branch)
        assert again == first
        assert first.commit is not None
        assert keyed_commits(stage.root, branch) == [first.commit.id]
        assert check_whole(stage.root, stage.allowed) == (0 if ask is NOTHING else 1)
