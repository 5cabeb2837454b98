"""Leases that a process keeps between its writes (D30)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Event
from typing import cast

import pytest

from omnigraph.commit.leases.holder import AcquireMode, Leases
from omnigraph.commit.leases.lease import Lease, Timing, decode_lease, path_of
from omnigraph.commit.leases.lease_cache import CACHED_MAX
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.owner import Owner
from omnigraph.effects import REAL
from omnigraph.errors import LeaseHeld, LeaseLost, StorageFailure
from omnigraph.ids import OperationId, TableKey
from omnigraph.storage.layout import MEMORY_URI
from omnigraph.storage.objects import Objects
from omnigraph.storage.stores import open_objects
from omnigraph.testing.faults import FailOn, Recorder, Watch, When, _Watched

COMPANY, PERSON = (LockKey(TableKey(f"node:{each}"), "main") for each in ("Company", "Person"))
ONE, TWO, THREE = (OperationId(f"01{each}") for each in ("ONE", "TWO", "THREE"))
LASTING = Timing(kept_ms=60_000, surrender_poll_ms=20, heartbeat_ms=60_000)
"""Leases are kept for longer than any test takes."""
SILENT = replace(LASTING, surrender_poll_ms=60_000)
"""No tickets are looked for in the background, so every request belongs to an operation."""


@pytest.fixture
def objects() -> Objects:
    return open_objects(MEMORY_URI, REAL)


@contextmanager
def opened(
    objects: Objects, timing: Timing = LASTING, owner: Owner | None = None
) -> Iterator[Leases]:
    leases = Leases(objects, REAL, timing, owner, is_caching=True)
    try:
        yield leases
    finally:
        leases.close()


def read(objects: Objects, lock_key: LockKey) -> Lease:
    return decode_lease(objects.read(path_of(lock_key)).data, key="lease")


def watched(objects: Objects, watch: Watch) -> Objects:
    return cast("Objects", _Watched(objects, "objects", frozenset(), watch))


def await_free(objects: Objects, lock_key: LockKey, *, within_s: float) -> None:
    """Raises AssertionError if the lease is still held after that time."""
    until_ms = REAL.monotonic_ms() + int(within_s * 1_000)
    while not read(objects, lock_key).is_free:
        assert REAL.monotonic_ms() < until_ms, f"{lock_key} is still held"
        REAL.sleep_ms(2)


def test_a_kept_lease_is_taken_without_a_request_and_confirmed_by_one(objects: Objects) -> None:
    calls = Recorder()
    with opened(watched(objects, calls), SILENT) as leases:
        with leases.hold([PERSON], ONE):
            pass
        assert not read(objects, PERSON).is_free
        epoch = read(objects, PERSON).epoch
        calls.calls.clear()
        with leases.hold([PERSON], TWO, confirms=True) as held:
            assert calls.calls == []
            held.check()
            assert calls.calls == ["objects.put_if_match"]
            confirmed = read(objects, PERSON)
            assert (confirmed.operation_id, confirmed.epoch) == (TWO, epoch + 1)
    assert read(objects, PERSON).is_free, "closing releases it"


def test_an_operation_that_does_not_confirm_finds_its_name_in_the_lease(objects: Objects) -> None:
    with opened(objects) as leases:
        with leases.hold([PERSON], ONE):
            pass
        with leases.hold([PERSON], TWO):
            assert read(objects, PERSON).operation_id == TWO


def test_a_kept_lease_is_surrendered_to_another_process_that_asks(objects: Objects) -> None:
    with opened(objects) as ours:
        with ours.hold([PERSON], ONE):
            pass
        theirs = Leases(objects, REAL, LASTING)
        with theirs.hold([PERSON], TWO, wait_ms_max=10_000):
            assert read(objects, PERSON).operation_id == TWO


def test_two_processes_that_keep_what_the_other_wants_do_not_wait_for_each_other(
    objects: Objects,
) -> None:
    begin = Event()

    def take_both(leases: Leases, operation_id: OperationId) -> None:
        begin.wait()
        for _ in range(10):
            with leases.hold([COMPANY, PERSON], operation_id, wait_ms_max=10_000):
                pass

    with opened(objects) as ours, opened(objects) as theirs, ThreadPoolExecutor() as pool:
        with ours.hold([PERSON], ONE):
            pass
        with theirs.hold([COMPANY], TWO):
            pass
        running = [pool.submit(take_both, ours, ONE), pool.submit(take_both, theirs, TWO)]
        begin.set()
        for each in running:
            each.result(timeout=120)


def test_a_writer_that_never_pauses_lets_another_process_have_its_turn(objects: Objects) -> None:
    is_done = Event()

    def write_on() -> int:
        turns = 0
        while not is_done.is_set() and turns < 20_000:
            with ours.hold([PERSON], ONE):
                REAL.sleep_ms(1)
            turns += 1
        return turns

    timing = replace(LASTING, streak_ms=20)
    with opened(objects, timing) as ours, ThreadPoolExecutor() as pool:
        busy = pool.submit(write_on)
        theirs = Leases(objects, REAL, LASTING)
        try:
            with theirs.hold([PERSON], TWO, wait_ms_max=10_000):
                pass
        finally:
            is_done.set()
        assert busy.result() < 20_000


def test_a_lease_is_released_some_time_after_its_last_use(objects: Objects) -> None:
    with opened(objects, Timing(kept_ms=50, surrender_poll_ms=10)) as leases:
        with leases.hold([PERSON], ONE):
            pass
        assert not read(objects, PERSON).is_free
        await_free(objects, PERSON, within_s=10)


def test_a_bounded_number_is_kept_and_the_oldest_go_first(objects: Objects) -> None:
    keys = [LockKey(TableKey(f"node:{number:03}"), "main") for number in range(CACHED_MAX + 2)]
    with opened(objects, SILENT) as leases:
        for each in keys:
            with leases.hold([each], ONE):
                pass
        for each in keys[:2]:
            await_free(objects, each, within_s=10)
        assert not any(read(objects, each).is_free for each in keys[2:])


def test_a_lease_that_was_not_renewed_for_half_its_time_is_acquired_again(objects: Objects) -> None:
    now = [1_000_000]
    effects = replace(REAL, monotonic_ms=lambda: now[0])
    leases = Leases(objects, effects, replace(SILENT, ttl_ms=1_000), is_caching=True)
    with leases.hold([PERSON], ONE):
        pass
    now[0] += 499
    with leases.hold([PERSON], TWO, confirms=True):
        assert read(objects, PERSON).operation_id == ONE, "it is taken from the cache"
    now[0] += 1
    with leases.hold([PERSON], THREE, confirms=True):
        assert read(objects, PERSON).operation_id == THREE
    leases.close()


def test_a_lease_that_was_taken_over_meanwhile_is_noticed_before_anything_is_written(
    objects: Objects,
) -> None:
    """As if this process had been suspended, and its clock with it: recovery took the lease."""
    paused = Owner("another-host", "boot", 5, 5)
    asleep = replace(REAL, monotonic_ms=lambda: 0)
    ours = Leases(objects, asleep, replace(SILENT, ttl_ms=10), paused, is_caching=True)
    with ours.hold([PERSON], ONE):
        pass
    REAL.sleep_ms(50)
    theirs = Leases(objects, REAL, LASTING)
    with theirs.hold([PERSON], TWO, AcquireMode.TAKE_OVER):
        pass
    with ours.hold([PERSON], THREE, confirms=True) as held, pytest.raises(LeaseLost):
        held.check()
    assert read(objects, PERSON).operation_id == TWO


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_a_lost_reply_to_a_confirmation_is_looked_for(objects: Objects, when: When) -> None:
    with opened(objects, SILENT) as plain:
        with plain.hold([PERSON], ONE):
            pass
        failing = FailOn("objects.put_if_match", when=when)
        with plain.hold([PERSON], TWO, confirms=True) as held:
            held._objects = watched(objects, failing)
            held.check()
            assert read(objects, PERSON).operation_id == TWO
        assert failing.times == 0


def test_an_operation_that_fails_keeps_nothing(objects: Objects) -> None:
    with opened(objects) as leases:
        with suppress(StorageFailure), leases.hold([PERSON], ONE):
            raise StorageFailure("write", subject="it", reason="the test said so")
        assert read(objects, PERSON).is_free


def test_a_process_that_leaves_a_sidecar_gives_its_leases_up(objects: Objects) -> None:
    with opened(objects, SILENT) as leases:
        with leases.hold([PERSON], ONE):
            pass
        leases.give_up([PERSON])
        await_free(objects, PERSON, within_s=10)


def test_a_held_lease_is_not_surrendered(objects: Objects) -> None:
    with opened(objects) as ours:
        with ours.hold([PERSON], ONE):
            pass
        theirs = Leases(objects, REAL, LASTING)
        with (
            ours.hold([PERSON], TWO, confirms=True),
            pytest.raises(LeaseHeld),
            theirs.hold([PERSON], THREE, wait_ms_max=200),
        ):
            pass


def test_what_was_read_counts_only_if_the_leases_were_kept_since(objects: Objects) -> None:
    with opened(objects, SILENT) as leases:
        assert leases.find_cached([PERSON]) == {}
        with leases.hold([COMPANY, PERSON], ONE):
            pass
        epochs = leases.find_cached([COMPANY, PERSON])
        assert epochs.keys() == {COMPANY, PERSON}
        with leases.hold([COMPANY, PERSON], TWO, confirms=True) as held:
            assert held.are_untouched_since(epochs)
            held.check()
            assert not held.are_untouched_since(epochs)
        with leases.hold([COMPANY, PERSON], THREE, confirms=True) as held:
            assert not held.are_untouched_since(epochs), "another operation was between"


def test_what_was_read_counts_if_no_operation_ever_held_the_lease(objects: Objects) -> None:
    with opened(objects, SILENT) as leases:
        look = leases.look(PERSON)
        assert look.found is None
        with leases.hold([PERSON], ONE, confirms=True, looks={PERSON: look}) as held:
            assert held.are_untouched_since({}, [PERSON])
        late = leases.look(COMPANY)
        theirs = Leases(objects, REAL, LASTING)
        with theirs.hold([COMPANY], TWO):
            pass
        with leases.hold([COMPANY], THREE, confirms=True, looks={COMPANY: late}) as held:
            assert not held.are_untouched_since({}, [COMPANY]), "another operation was between"
