"""Die before and after every single write of a mutation, and of the recovery that follows.

Real mutations of every kind, on main and as the first write of a branch. Whatever dies wherever,
every branch shows the old rows or the new ones, whole; nothing is left over, nothing dangles; and
the next writer works. Then the same with a second writer between the death and the recovery, who
had looked for notes before there was one.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.recovery.heal import heal
from omnigraph.errors import OutcomeUnknown, StorageFailure
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.testing.faults import STRIDE, Crash, CrashAt, FailAt, When, sweep
from support.breaking import (
    CASCADE,
    COMPANY,
    INSERT,
    LINK,
    PAIR,
    PERSON,
    REPLACE,
    SIDE,
    UPDATE,
    Ask,
    BreakableGraph,
    check_lasting,
    check_whole,
    find_orphans,
    open_living,
    open_mortal,
    slip_in,
    stores_at,
    with_rival,
)
from support.scenes import Stage, set_write

WRITES = {
    "keyed insert": INSERT,
    "upsert": REPLACE,
    "update": UPDATE,
    "delete with cascade": CASCADE,
    "edge insert": LINK,
    "insert into two tables": PAIR,
}
WIDE = ("delete with cascade", "insert into two tables")
"""Those that move several tables."""


def every_write(ids: tuple[str, ...] = tuple(WRITES)) -> Callable[[object], object]:
    return pytest.mark.parametrize("ask", [pytest.param(WRITES[each], id=each) for each in ids])


every_branch = pytest.mark.parametrize("branch", [MAIN, SIDE])


def deaths(
    stage: Stage, work: Callable[[BreakableGraph], object], when: When, stride: int = 1
) -> Iterator[int]:
    """Work again and again, dying some writes later each time; yields after every death."""

    def attempt(fault: CrashAt) -> None:
        stage.reset()
        work(open_mortal(stage.root, fault))

    for fault in sweep(when, attempt, stride):
        if fault.dead:
            yield fault.step


@every_write()
@every_branch
def test_a_crash_anywhere_leaves_the_old_rows_or_the_new_ones(
    tmp_path: Path, ask: Ask, branch: BranchName
) -> None:
    """Dying after a write is dying before the next one, so this is every place there is."""
    stage = set_write(ask, branch, tmp_path / "g")
    outcomes = []
    for step in deaths(stage, lambda graph: graph.ask(ask, branch), When.BEFORE):
        heal(open_mortal(stage.root).context)
        outcomes.append(check_whole(stage.root, stage.allowed))
        assert list(find_orphans(stores_at(stage.root))) == []
        if step % 3 == 0:
            check_lasting(stage.root)
    # Once the tables have moved the write is never undone: old, old, ... new, new.
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {0, 1}
    assert check_whole(stage.root, stage.allowed) == 1, "the run that survived"


@pytest.mark.slow
@every_write()
@every_branch
def test_after_a_crash_anywhere_the_graph_is_as_good_as_new(
    tmp_path: Path, ask: Ask, branch: BranchName
) -> None:
    stage = set_write(ask, branch, tmp_path / "g")
    for _ in deaths(stage, lambda graph: graph.ask(ask, branch), When.AFTER, STRIDE):
        heal(open_mortal(stage.root).context)
        check_whole(stage.root, stage.allowed)
        check_lasting(stage.root)
        assert list(find_orphans(stores_at(stage.root))) == []


@pytest.mark.slow
@every_write(WIDE)
@every_branch
def test_recovery_may_die_anywhere_too(tmp_path: Path, ask: Ask, branch: BranchName) -> None:
    stage = set_write(ask, branch, tmp_path / "g")
    for step in count(1, STRIDE):
        for again in count(1, STRIDE):
            stage.reset()
            with suppress(Crash):
                open_mortal(stage.root, CrashAt(step, When.BEFORE)).ask(ask, branch)
                return
            fault = CrashAt(again, When.BEFORE)
            with suppress(Crash):
                heal(open_mortal(stage.root, fault).context)
            heal(open_mortal(stage.root).context)
            check_whole(stage.root, stage.allowed)
            assert list(find_orphans(stores_at(stage.root))) == []
            if not fault.dead:
                break


@pytest.mark.parametrize("table", [PERSON, COMPANY])
@pytest.mark.parametrize(
    ("ask", "branch"),
    [
        pytest.param(CASCADE, MAIN, id="delete-main"),
        pytest.param(PAIR, SIDE, id="insert-side", marks=pytest.mark.slow),
        pytest.param(UPDATE, MAIN, id="update-main", marks=pytest.mark.slow),
        pytest.param(CASCADE, SIDE, id="delete-side", marks=pytest.mark.slow),
        pytest.param(PAIR, MAIN, id="insert-main", marks=pytest.mark.slow),
    ],
)
def test_a_second_writer_between_the_crash_and_the_recovery_loses_nothing(
    tmp_path: Path, ask: Ask, branch: BranchName, table: TableKey
) -> None:
    """One that writes the same table, and one that writes another."""
    stage = set_write(ask, branch, tmp_path / "g")
    allowed = [with_rival(each, table, branch) for each in stage.allowed]
    outcomes = []
    for _ in deaths(stage, lambda graph: graph.ask(ask, branch), When.BEFORE):
        slip_in(open_mortal(stage.root).context, table, branch)
        heal(open_mortal(stage.root).context)
        outcomes.append(check_whole(stage.root, allowed))
        assert list(find_orphans(stores_at(stage.root))) == []
    assert set(outcomes) == {0, 1}
    check_lasting(stage.root)


def test_a_second_writer_that_moves_what_was_only_read_undoes_the_write(tmp_path: Path) -> None:
    """The checks of an edge cannot be made again by a stranger, so the edge goes (D5)."""
    stage = set_write(LINK, MAIN, tmp_path / "g")
    allowed = [with_rival(each, PERSON) for each in stage.allowed]
    outcomes = []
    for _ in deaths(stage, lambda graph: graph.ask(LINK), When.BEFORE):
        slip_in(open_mortal(stage.root).context, PERSON)
        heal(open_mortal(stage.root).context)
        outcomes.append(check_whole(stage.root, allowed))
    assert outcomes == sorted(outcomes)
    # Only what was visible before the rival came is kept: the note's and the leases' removal.
    assert outcomes[-2:] == [1, 1]


class FailDurably(FailAt):
    """Leases that cannot be given back are another story: they run out."""

    def before(self, call: str, *, is_write: bool) -> None:
        super().before(call, is_write=is_write and not call.startswith("volatile."))


@pytest.mark.slow
@every_write(WIDE)
@every_branch
def test_a_store_that_fails_anywhere_leaves_all_or_nothing(
    tmp_path: Path, ask: Ask, branch: BranchName
) -> None:
    """The writer lives; whatever it reports as failed is gone without anybody's help."""
    stage = set_write(ask, branch, tmp_path / "g")
    for step in count(1):
        stage.reset()
        fault = FailDurably(step)
        graph = open_living(stage.root, fault)
        try:
            graph.ask(ask, branch)
        except StorageFailure:
            assert check_whole(stage.root, stage.allowed) == 0
        except OutcomeUnknown:
            graph.refresh()
            check_whole(stage.root, stage.allowed)
        else:
            graph.refresh()
            assert check_whole(stage.root, stage.allowed) == 1
        assert list(find_orphans(stores_at(stage.root))) == []
        if fault.seen < step:
            return
