"""Die at every single write of an attempt, and at every single write of its recovery.

Whatever dies wherever: the branch shows the old commit or the new one, whole; nothing is left over
and nothing dangles; and the next writer works, without anybody doing anything about it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.recovery.audit import read_audit
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.recovery_commit import ACTOR
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.ids import MAIN, BranchName
from omnigraph.testing.faults import STRIDE, Crash, CrashAt, When, watch_stores
from omnigraph.testing.invariants import check_graph
from support.writing import (
    COMPANY,
    PERSON,
    mortal_bench,
    names_in,
    new_graph,
    stores_at,
    write,
)

SIDE = BranchName("side")


@dataclass(frozen=True)
class Case:
    """A graph to break, made anew for every death."""

    root: Path
    branch: BranchName

    def prepare(self) -> None:
        graph = new_graph(self.root)
        write(mortal_bench(stores_at(self.root)), "first")
        if self.branch != MAIN:
            graph.create_branch(self.branch)

    def check(self) -> bool:
        """Everything that must hold, and whether the write is there."""
        stores = stores_at(self.root)
        people = names_in(self.root, PERSON, self.branch)
        assert people == names_in(self.root, COMPANY, self.branch), "half a commit is visible"
        assert people in ({"first"}, {"first", "second"})
        assert check_graph(stores) == []
        assert find_sidecars(stores.objects) == ()
        return "second" in people


@pytest.mark.parametrize("branch", [MAIN, SIDE])
@pytest.mark.parametrize("when", When)
def test_a_crash_anywhere_leaves_the_old_commit_or_the_new_one(
    tmp_path: Path, when: When, branch: BranchName
) -> None:
    seen = set()
    for step in count(1):
        case = Case(tmp_path / str(step), branch)
        case.prepare()
        survived = survives(
            case, lambda context: write(context, "second", branch=branch), step, when
        )
        if survived:
            assert case.check()
            break
        heal(mortal_bench(stores_at(case.root)))
        landed = case.check()
        seen.add(landed)
        write(mortal_bench(stores_at(case.root)), "third", branch=branch)
        expected = {"first", "third"} | ({"second"} if landed else set())
        assert names_in(case.root, PERSON, branch) == expected
        assert check_graph(stores_at(case.root)) == []
    assert seen == {True, False}


def survives(case: Case, work: Callable[[WriteContext], object], step: int, when: When) -> bool:
    fault = CrashAt(step, when)
    try:
        work(mortal_bench(watch_stores(stores_at(case.root), fault)))
    except Crash:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("branch", [MAIN, SIDE])
@pytest.mark.parametrize("when", When)
def test_recovery_may_die_anywhere_too(tmp_path: Path, when: When, branch: BranchName) -> None:
    for step in count(1, STRIDE):
        for again in count(1, STRIDE):
            case = Case(tmp_path / f"{step}-{again}", branch)
            case.prepare()
            if survives(case, lambda context: write(context, "second", branch=branch), step, when):
                return
            recovered = survives(case, heal, again, when)
            heal(mortal_bench(stores_at(case.root)))
            case.check()
            if recovered:
                break


def test_a_recovery_is_recorded_once(tmp_path: Path) -> None:
    """Every death that leaves a sidecar leaves, in the end, one audit row and one commit; but for
    those after the commit was there, which only left a sidecar to remove (D31).
    """
    for step in count(1):
        case = Case(tmp_path / str(step), MAIN)
        case.prepare()
        if survives(case, lambda context: write(context, "second"), step, When.AFTER):
            break
        stores = stores_at(case.root)
        visible = {
            each.extension.operation_id for each in Bases(stores).current(MAIN).manifest.log.commits
        }
        left = [each for each in find_sidecars(stores.objects) if each not in visible]
        heal(mortal_bench(stores))
        heal(mortal_bench(stores_at(case.root)))
        rows = read_audit(stores).to_pylist()
        commits = Bases(stores).current(MAIN).manifest.log.commits
        signed = [each for each in commits if each.actor == ACTOR]
        assert find_sidecars(stores.objects) == ()
        assert [row["operation_id"] for row in rows] == left
        assert [row["graph_commit_id"] for row in rows] == [each.id for each in signed]
        assert {row["recovery_for_actor"] for row in rows} <= {"writer"}
