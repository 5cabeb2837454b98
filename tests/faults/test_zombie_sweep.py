"""A writer of two tables, frozen at every step, recovered by another, and woken.

Whatever it still does once it runs again, its bytes never show: not to whoever writes next, and not
to whoever opens, refreshes, examines or repairs the graph, with any flag. Either all of it is
visible, because its heir found it whole, or nothing is and nothing is left.

Real processes and real signals. One process plays many cases, because starting one takes longer
than a case; between two cases it stops as well.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.fences import find_fences
from omnigraph.commit.leases.lease import Timing
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.graph import Mode
from omnigraph.engine.maintain.doctor import CLEANUP, RESOLVE
from omnigraph.engine.maintain.repair import RepairRequest
from omnigraph.engine.opening import open_in
from omnigraph.errors import OmnigraphError
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.layout import RECOVERY
from omnigraph.storage.stores import Stores
from omnigraph.testing.failpoints import COMMIT, At, Trigger, crash
from omnigraph.testing.faults import Crash, When, watch_stores
from omnigraph.testing.invariants import check_graph
from support.folders import put_back, read_folder
from support.processes import Process, launch
from support.writing import (
    COMPANY,
    PERSON,
    bench_of,
    mortal_bench,
    names_in,
    new_graph,
    stores_at,
    write,
)

IS_WHOLE: Final = os.environ.get("OMNIGRAPH_SWEEP_STRIDE") == "1"
"""Every way at every step; otherwise the ways take turns."""

SLEEPY: Final = Timing(ttl_ms=250, heartbeat_ms=60, wait_ms_max=5_000, poll_ms=2)
"""Of the writer that freezes. Its heir has time."""

SIDE: Final = BranchName("side")
WAYS: Final = ("write", "open", "refresh", "doctor", "repair", "repair --force", "repair --discard")
REFUSALS: Final = ("LeaseLost", "Fenced", "ExpectedVersionMismatch", "DriftFound")
PATIENCE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Case:
    """Freeze at one store call of a write, and look afterwards in one way."""

    call: str
    nth: int
    when: When
    way: str = ""


@dataclass
class Freezer:
    """Stops this process around one store call, and says so first."""

    case: Case
    said: Path
    seen: int = 0

    def before(self, call: str, *, is_write: bool) -> None:
        if call == self.case.call and is_write:
            self.seen += 1
            self._stop_if(call, When.BEFORE)

    def after(self, call: str, *, is_write: bool) -> None:
        if is_write:
            self._stop_if(call, When.AFTER)

    def _stop_if(self, call: str, when: When) -> None:
        is_here = (call, self.seen, when) == (self.case.call, self.case.nth, self.case.when)
        if is_here and not self.said.exists():
            self.said.touch()
            os.kill(os.getpid(), signal.SIGSTOP)


@dataclass
class Steps:
    """The writes of an attempt, each by its name and how often it came before. Leases are left out:
    they are renewed at any time, and whoever holds one and has left no sidecar has done nothing.
    """

    found: list[tuple[str, int]]

    def before(self, call: str, *, is_write: bool) -> None:
        if is_write and not call.startswith("volatile."):
            self.found.append((call, 1 + sum(name == call for name, _ in self.found)))

    def after(self, call: str, *, is_write: bool) -> None:
        pass


def play(root: Path, notes: Path, branch: BranchName, cases: list[Case]) -> None:
    """In a process of its own: one write for each case, frozen on the way and once it is over."""
    for number, case in enumerate(cases):
        freezer = Freezer(case, notes / f"{number}.frozen")
        said = "Returned"
        try:
            write(bench_of(watch_stores(stores_at(root), freezer), SLEEPY), "zombie", branch=branch)
        except OmnigraphError as error:
            said = type(error).__name__
        (notes / f"{number}.said").write_text(said)
        (notes / f"{number}.over").touch()
        os.kill(os.getpid(), signal.SIGSTOP)


class Stage:
    """A graph that is put back for each case, and the process that is frozen in it."""

    def __init__(self, folder: Path, branch: BranchName) -> None:
        self.root, self.notes, self.branch = folder / "g", folder / "notes", branch
        self.notes.mkdir()
        graph = new_graph(self.root)
        write(self.heir(), "first")
        if branch != MAIN:
            graph.create_branch(branch)
        self.files = read_folder(self.root)

    def stores(self) -> Stores:
        return stores_at(self.root)

    def heir(self) -> WriteContext:
        return bench_of(self.stores())

    def find_cases(self) -> list[Case]:
        steps = Steps([])
        write(bench_of(watch_stores(self.stores(), steps), SLEEPY), "zombie", branch=self.branch)
        put_back(self.root, self.files)
        places = [(*each, when) for each in steps.found for when in When]
        if IS_WHOLE:
            return [Case(*each, way) for each in places for way in WAYS]
        return [Case(*each, WAYS[at % len(WAYS)]) for at, each in enumerate(places)]

    def names(self) -> tuple[set[str], set[str]]:
        return names_in(self.root, PERSON, self.branch), names_in(self.root, COMPANY, self.branch)

    def await_stop(self, zombie: Process[None], note: str) -> None:
        """It says that it is about to stop, and then does."""
        deadline = time.monotonic() + PATIENCE_S
        state = Path(f"/proc/{zombie.pid}/stat")
        while time.monotonic() < deadline:
            is_said = (self.notes / note).exists()
            if is_said and state.read_text().rpartition(")")[2].split()[0] == "T":
                return
            time.sleep(0.005)
        raise AssertionError(f"it never got to {note}")

    def look(self, way: str) -> None:
        """Come by after everything is over, and leave the graph whole."""
        match way:
            case "write":
                write(self.heir(), "later", branch=self.branch)
            case "open":
                open_in(self.stores(), Mode.READ_WRITE)
            case "refresh":
                self.early.refresh()
            case "doctor":
                # A fork or a sidecar that it made when it woke up is not for doctor to remove.
                found = self.early.examine(is_deep=True)
                assert [each for each in found if each.remedy not in (CLEANUP, RESOLVE)] == []
                assert not any(each.is_over for each in found)
                assert "zombie" not in set.union(*self.names()) or found == []
                self.early.refresh()
            case _:
                order = RepairRequest(
                    is_confirmed=True,
                    is_forced=way.endswith("--force"),
                    is_discarded=way.endswith("--discard"),
                )
                assert not self.early.repair(order).has_refusals

    def check(self, case: Case, number: int, heirs: set[str]) -> None:
        people, companies = self.names()
        is_there = "zombie" in people
        assert ("zombie" in companies) is is_there, "half of it shows"
        said = (self.notes / f"{number}.said").read_text()
        if said == "Returned":
            assert is_there, "it was acknowledged"
        else:
            assert said in (*REFUSALS, "OutcomeUnknown"), said
            assert not is_there or said == "OutcomeUnknown", f"{said}, and it is there"
        extra = {"zombie"} if is_there else set()
        later = {"later"} if case.way == "write" else set()
        assert people == {"first"} | extra | later
        assert companies == {"first"} | extra | later | heirs
        assert check_graph(self.stores()) == []
        assert find_sidecars(self.stores().objects) == ()

    def sweep(self, zombie: Process[None], cases: list[Case]) -> Iterator[Case]:
        """Each case, when the writer was frozen, recovered and woken, and has ended."""
        for number, case in enumerate(cases):
            self.await_stop(zombie, f"{number}.frozen")
            self.early = open_in(self.stores(), Mode.READ_WRITE)
            time.sleep(SLEEPY.ttl_ms * 1.2 / 1000)
            # One table only: what lands in the other is nobody's business yet.
            write(self.heir(), "heir", branch=self.branch, keys=[COMPANY])
            os.kill(zombie.pid, signal.SIGCONT)
            self.await_stop(zombie, f"{number}.over")
            try:
                self.look(case.way)
                self.check(case, number, {"heir"})
            except BaseException as error:
                error.add_note(f"frozen {case.when.value} {case.call} {case.nth}, {case.way}")
                raise
            yield case
            put_back(self.root, self.files)
            os.kill(zombie.pid, signal.SIGCONT)


def begin(stage: Stage, cases: list[Case]) -> Process[None]:
    zombie = launch(play, stage.root, stage.notes, stage.branch, cases)
    zombie.await_ready()
    zombie.begin()
    return zombie


@pytest.mark.parametrize("branch", [MAIN, SIDE])
def test_the_bytes_of_a_writer_that_was_taken_for_dead_never_show(
    tmp_path: Path, branch: BranchName
) -> None:
    stage = Stage(tmp_path, branch)
    cases = stage.find_cases()
    assert len(cases) > 10
    zombie = begin(stage, cases)
    try:
        assert list(stage.sweep(zombie, cases)) == cases
    finally:
        zombie.kill()
        zombie.finish(PATIENCE_S)


def recover(root: Path, said: Path) -> None:
    """In a process of its own: recover what a dead writer left, and freeze before its fork goes."""
    freezer = Freezer(Case("tables.clear_branch", 1, When.BEFORE), said)
    heal(bench_of(watch_stores(stores_at(root), freezer), SLEEPY))


def test_who_recovers_and_sleeps_does_not_remove_what_others_made_meanwhile(
    tmp_path: Path,
) -> None:
    """Recovering is writing, too, and whoever does so can be taken for dead."""
    stage = Stage(tmp_path, SIDE)
    # One table of two has moved, so the write goes back, and its fork with it.
    dying = watch_stores(stage.stores(), Trigger(At(COMMIT, 1, When.AFTER), crash))
    with pytest.raises(Crash):
        write(mortal_bench(dying), "dead", branch=SIDE)
    said = stage.notes / "frozen"
    sleeper = launch(recover, stage.root, said)
    sleeper.await_ready()
    sleeper.begin()
    try:
        stage.await_stop(sleeper, said.name)
        time.sleep(SLEEPY.ttl_ms * 1.2 / 1000)
        write(stage.heir(), "heir", branch=SIDE)
        os.kill(sleeper.pid, signal.SIGCONT)
        sleeper.finish(PATIENCE_S)
    finally:
        sleeper.kill()
        sleeper.finish(PATIENCE_S)
    assert stage.names() == ({"first", "heir"}, {"first", "heir"})
    assert check_graph(stage.stores()) == []


def test_a_fence_goes_when_its_process_is_gone(tmp_path: Path) -> None:
    """Nothing it did is in doubt any more, and nobody looks at its tables for it again."""
    stage = Stage(tmp_path, MAIN)
    cases = [Case("tables.commit_exact", 1, When.BEFORE, "open")]
    zombie = begin(stage, cases)
    for _ in stage.sweep(zombie, cases):
        stores = stage.stores()
        (fence,) = find_fences(stores.objects, stores.effects, stores.objects.list(RECOVERY))
        assert {each.table for each in fence.lock_keys} == {PERSON, COMPANY}
        assert not fence.is_expired
        zombie.kill()
        zombie.finish(PATIENCE_S)
        open_in(stage.stores(), Mode.READ_WRITE)
        assert not stores.objects.list(RECOVERY)
        break
