"""A writer that is stopped beyond its lease, recovered by another process, and wakes up again.

It cannot publish, and it cannot damage: whatever it still does, nobody sees it, and the next writer
puts it right without being asked.
"""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from omnigraph.commit.leases.holder import AcquireMode
from omnigraph.commit.leases.lease import Timing
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.recovery.audit import read_audit
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.recovery_commit import ACTOR
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.errors import Contention, Fenced, LeaseHeld, OutcomeUnknown
from omnigraph.ids import MAIN, OperationId
from omnigraph.storage.layout import SCHEMA_SOURCE
from omnigraph.testing.failpoints import COMMIT, At, Trigger
from omnigraph.testing.faults import Crash, CrashOn, When, watch_stores
from omnigraph.testing.invariants import check_graph
from support import breaking
from support.processes import Process, Raised, Returned, launch
from support.writing import (
    BOTH,
    COMPANY,
    PERSON,
    bench_of,
    mortal_bench,
    names_in,
    new_graph,
    stores_at,
    write,
)

TIMING = Timing(ttl_ms=400, heartbeat_ms=100, wait_ms_max=200, poll_ms=2)


class StopAt:
    """Stops this process around one store call, as if the machine had frozen."""

    def __init__(self, call: str, nth: int, when: When) -> None:
        self.call = call
        self.left = nth
        self.when = when

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        if self.when is When.BEFORE:
            self._count(call)

    def after(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        if self.when is When.AFTER:
            self._count(call)

    def _count(self, call: str) -> None:
        if call == self.call:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGSTOP)


def write_and_freeze(root: Path, call: str, nth: int, when: When = When.BEFORE) -> None:
    stores = watch_stores(stores_at(root), StopAt(call, nth, when))
    write(bench_of(stores, TIMING), "zombie")


def await_frozen(process: Process[None]) -> None:
    for _ in range(2000):
        if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return
        time.sleep(0.005)
    raise AssertionError("it never froze")


@pytest.mark.parametrize(
    ("call", "nth", "when", "landed"),
    [
        ("objects.put_over", 1, When.BEFORE, False),  # about to write its sidecar
        ("tables.commit_exact", 1, When.BEFORE, False),  # armed, nothing moved
        ("tables.commit_exact", 2, When.BEFORE, False),  # one table of two moved
        ("tables.commit_exact", 2, When.AFTER, True),  # both moved, about to look at its leases
        ("tables.single_step.swap_rows", 1, When.BEFORE, True),  # both moved, about to publish
        ("objects.delete", 1, When.BEFORE, True),  # published, about to remove its sidecar
    ],
)
def test_a_writer_that_froze_and_was_recovered_does_no_harm(
    tmp_path: Path, call: str, nth: int, when: When, *, landed: bool
) -> None:
    root = tmp_path / "g"
    new_graph(root)
    zombie = launch(write_and_freeze, root, call, nth, when)
    zombie.await_ready()
    zombie.begin()
    await_frozen(zombie)

    context = bench_of(stores_at(root), TIMING)
    with pytest.raises(LeaseHeld, match=f"process {zombie.pid}"):
        write(context, "too early")
    time.sleep(TIMING.ttl_ms * 2 / 1000)
    write(context, "heir")
    expected = {"heir", "zombie"} if landed else {"heir"}
    assert names_in(root, PERSON) == names_in(root, COMPANY) == expected

    os.kill(zombie.pid, signal.SIGCONT)
    outcome = zombie.finish(300)
    # Its heir finished what had moved whole, and that is what it must say (D4).
    if landed:
        assert isinstance(outcome, Returned)
    else:
        assert isinstance(outcome, Raised)
        assert outcome.kind in ("LeaseLost", "Fenced", "ExpectedVersionMismatch", "OutcomeUnknown")
    assert names_in(root, PERSON) == names_in(root, COMPANY) == expected

    write(bench_of(stores_at(root), TIMING), "later")
    assert names_in(root, PERSON) == names_in(root, COMPANY) == expected | {"later"}
    assert check_graph(stores_at(root)) == []
    assert find_sidecars(stores_at(root).objects) == ()


def test_a_waking_writer_leaves_the_audit_row_to_recovery(
    tmp_path: Path,
) -> None:
    root = tmp_path / "g"
    new_graph(root)
    zombie = launch(write_and_freeze, root, "tables.single_step.swap_rows", 1)
    zombie.await_ready()
    zombie.begin()
    await_frozen(zombie)
    time.sleep(TIMING.ttl_ms * 2 / 1000)
    with pytest.raises(Crash):
        heal(mortal_bench(watch_stores(stores_at(root), CrashOn("tables.stage_create")), TIMING))
    assert read_audit(stores_at(root)).num_rows == 0

    os.kill(zombie.pid, signal.SIGCONT)
    assert isinstance(zombie.finish(300), Returned), "it was rolled forward"
    write(bench_of(stores_at(root), TIMING), "later")
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"zombie", "later"}
    assert list(breaking.find_audit_faults(stores_at(root))) == []
    assert check_graph(stores_at(root)) == []
    assert find_sidecars(stores_at(root).objects) == ()


def test_a_sidecar_without_movement_is_recovered_too_and_fences_its_writer(tmp_path: Path) -> None:
    """Nothing had moved, so nothing conflicts; only the recovery commit stands in the way (D2)."""
    root = tmp_path / "g"
    new_graph(root)
    zombie = launch(write_and_freeze, root, "tables.commit_exact", 1)
    zombie.await_ready()
    zombie.begin()
    await_frozen(zombie)
    time.sleep(TIMING.ttl_ms * 2 / 1000)
    stores = stores_at(root)
    (recovery,) = heal(bench_of(stores, TIMING))
    assert recovery.outcomes == ()
    assert Bases(stores).current(MAIN).manifest.log.commits[-1].actor == ACTOR

    os.kill(zombie.pid, signal.SIGCONT)
    assert isinstance(zombie.finish(300), Raised)
    assert names_in(root, PERSON) == set()
    write(bench_of(stores, TIMING), "heir")
    assert names_in(root, PERSON) == {"heir"}
    assert check_graph(stores_at(root)) == []


def test_a_writer_that_fails_after_its_heir_finished_it_says_that_it_is_there(
    tmp_path: Path,
) -> None:
    """Nothing of it is left to undo, and nothing of it failed in the end (D4)."""
    root = tmp_path / "g"
    new_graph(root)
    context, heir = mortal_bench(stores_at(root), TIMING), bench_of(stores_at(root), TIMING)

    def fail_late(step: str) -> None:
        if step == "publish":
            raise Contention(MAIN, attempts=1)
        if step == "undo":
            heal(heir)

    context.observe = fail_late
    published = write(context, "zombie")
    assert [each.actor for each in published.commits] == ["writer"]
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"zombie"}
    assert find_sidecars(stores_at(root).objects) == ()


def test_a_writer_whose_heir_is_not_done_does_not_guess(tmp_path: Path) -> None:
    """Its leases are gone, its sidecar exists: it may be rolled forward yet, or back (D4)."""
    root = tmp_path / "g"
    new_graph(root)
    context = mortal_bench(stores_at(root), TIMING)
    heir = bench_of(stores_at(root), TIMING)

    def take_over(step: str) -> None:
        if step == "publish":
            held = heir.leases.hold(
                [LockKey(key, MAIN) for key in BOTH], OperationId("heir"), AcquireMode.TAKE_OVER
            )
            taken.enter_context(held)
            time.sleep(TIMING.ttl_ms / 1000)

    context.observe = take_over
    with ExitStack() as taken, pytest.raises(OutcomeUnknown) as raised:
        write(context, "zombie")
    (recovery,) = heal(heir)
    assert raised.value.operation_id == recovery.operation_id
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"zombie"}


DESCRIBED = breaking.SCHEMA.replace("node Company", 'node Company @description("who pays")')
GROWN = breaking.SCHEMA + "node Pet { name: String @key }\n"


def change_schema_and_freeze(root: Path) -> None:
    """Frozen once the change is visible, before its files are put in place."""

    def freeze(step: str) -> None:
        if step == "promote":
            os.kill(os.getpid(), signal.SIGSTOP)

    graph = breaking.open_living(root, timing=TIMING, observe=freeze)
    graph.apply_schema(SchemaRequest(DESCRIBED))


def test_who_was_taken_over_does_not_put_its_schema_over_a_newer_one(tmp_path: Path) -> None:
    """Its heir put the files in place, and then those of another schema."""
    root = tmp_path / "g"
    breaking.populate(root)
    zombie = launch(change_schema_and_freeze, root)
    zombie.await_ready()
    zombie.begin()
    await_frozen(zombie)
    time.sleep(TIMING.ttl_ms * 2 / 1000)
    heir = breaking.open_living(root, timing=TIMING)
    heir.refresh()
    assert heir.schema_source == DESCRIBED
    assert heir.apply_schema(SchemaRequest(GROWN)).applied

    os.kill(zombie.pid, signal.SIGCONT)
    assert isinstance(zombie.finish(300), Returned)
    assert (root / SCHEMA_SOURCE).read_text() == GROWN
    graph = breaking.open_living(root, timing=TIMING)
    assert graph.schema_source == GROWN
    assert not graph.apply_schema(SchemaRequest(GROWN)).applied, "it is in force"
    assert check_graph(stores_at(root)) == []


def test_a_writer_that_does_not_know_that_it_slept_is_fenced_by_the_publish(tmp_path: Path) -> None:
    """As on a machine that was suspended, by whose clock no time went by: its leases look fresh."""
    root = tmp_path / "g"
    breaking.populate(root)
    before = breaking.read_content(root)
    trigger = Trigger(At(COMMIT), lambda _: heal(breaking.open_mortal(root).context))
    with pytest.raises(Fenced):
        breaking.open_mortal(root, trigger).ask(breaking.INSERT)
    assert trigger.fired
    breaking.slip_in(breaking.open_mortal(root).context, PERSON)
    assert breaking.read_content(root) == breaking.with_rival(before, PERSON)
    assert check_graph(stores_at(root)) == []
