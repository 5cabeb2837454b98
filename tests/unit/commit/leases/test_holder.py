"""Leases among processes, on scripted time."""

import os
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import cast

import pytest

from omnigraph.commit.leases.fair_queue import decode_ticket
from omnigraph.commit.leases.holder import AcquireMode, Leases
from omnigraph.commit.leases.lease import LeaseAbandoned, Timing, decode_lease
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.owner import Owner, is_dead, this_process
from omnigraph.effects import REAL, Effects
from omnigraph.errors import LeaseCorrupt, LeaseHeld, LeaseLost, StorageFailure
from omnigraph.ids import OperationId, TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import lease_key
from omnigraph.storage.objects import Objects, StoredObject, Tag
from omnigraph.storage.stores import open_objects

PEOPLE = LockKey(TableKey("node:Person"), "main")
OTHER = LockKey(TableKey("node:Company"), "side/branch")
ONE, TWO = OperationId("01ONE"), OperationId("01TWO")
TIMING = Timing(ttl_ms=1000, heartbeat_ms=10_000_000, wait_ms_max=300, poll_ms=10)
ELSEWHERE = Owner("another-host", "boot", 5, 5)


@dataclass
class World:
    """Time that passes when it is told to, or when somebody sleeps."""

    now: int = 1_000_000
    slept: list[int] = field(default_factory=list)

    def effects(self) -> Effects:
        return replace(
            REAL, now_ms=lambda: self.now, monotonic_ms=lambda: self.now, sleep_ms=self.sleep
        )

    def sleep(self, duration_ms: int) -> None:
        self.slept.append(duration_ms)
        self.now += duration_ms


class Timed:
    """A store whose clock is the world's."""

    def __init__(self, inner: Objects, world: World) -> None:
        self._inner = inner
        self._world = world
        self._written: dict[str, int] = {}

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if not name.startswith("put"):
            return found

        def put(key: str, *arguments: object, **keywords: object) -> object:
            result = found(key, *arguments, **keywords)
            self._written[key] = self._world.now
            return result

        return put

    def read(self, key: str) -> StoredObject:
        return replace(self._inner.read(key), modified_ms=self._written[key])

    def clock_ms(self) -> int:
        return self._world.now


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def objects(world: World) -> Objects:
    return Timed(open_objects("memory://", REAL), world)  # type: ignore[return-value]  # a proxy


def leases(objects: Objects, world: World, owner: Owner | None = ELSEWHERE) -> Leases:
    return Leases(objects, world.effects(), TIMING, owner)


def test_what_is_given_back_can_be_taken_and_the_epoch_counts_up(
    objects: Objects, world: World
) -> None:
    epochs = []
    for operation in (ONE, TWO, ONE):
        with leases(objects, world).hold([PEOPLE, OTHER], operation):
            stored = objects.read(lease_key(PEOPLE.table, PEOPLE.branch))
            lease = decode_lease(stored.data, key="k")
            epochs.append(lease.epoch)
            assert lease.operation_id == operation
    assert epochs == [1, 2, 3]


def test_what_is_held_is_waited_for_and_then_named(objects: Objects, world: World) -> None:
    with leases(objects, world).hold([PEOPLE], ONE):
        world.now += 50
        with pytest.raises(LeaseHeld) as caught, leases(objects, world).hold([PEOPLE], TWO):
            pass
    assert caught.value.table_key == "node:Person"
    assert "another-host" in caught.value.owner
    assert caught.value.age_ms == 50 + sum(world.slept)
    assert sum(world.slept) >= TIMING.wait_ms_max


def test_who_is_next_looks_often_and_who_is_not_looks_seldomer(
    objects: Objects, world: World
) -> None:
    with leases(objects, world).hold([PEOPLE], ONE):
        with pytest.raises(LeaseHeld), leases(objects, world).hold([PEOPLE], TWO):
            pass
        alone = list(world.slept)
        world.slept.clear()
        line = leases(objects, world).queue(PEOPLE)
        with (
            line.join(),
            line.join(),
            pytest.raises(LeaseHeld),
            leases(objects, world).hold([PEOPLE], TWO),
        ):
            pass
    assert set(alone) == {TIMING.poll_ms}
    assert set(world.slept) == {5 * TIMING.poll_ms}


def test_one_that_is_not_renewed_is_abandoned(objects: Objects, world: World) -> None:
    with leases(objects, world).hold([PEOPLE], ONE) as held:
        world.now += TIMING.ttl_ms
        assert leases(objects, world).is_alive(PEOPLE, ONE)
        held.renew()
        world.now += TIMING.ttl_ms
        assert leases(objects, world).is_alive(PEOPLE, ONE)
        world.now += 1
        assert not leases(objects, world).is_alive(PEOPLE, ONE)
        with pytest.raises(LeaseAbandoned) as caught, leases(objects, world).hold([PEOPLE], TWO):
            pass
    assert caught.value.operation_id == ONE


def test_whoever_was_taken_over_notices_at_the_next_step(objects: Objects, world: World) -> None:
    with leases(objects, world).hold([PEOPLE], ONE) as paused:
        paused.check()
        world.now += TIMING.ttl_ms + 1
        with (
            leases(objects, world).hold([PEOPLE], TWO, AcquireMode.TAKE_OVER),
            pytest.raises(LeaseLost),
        ):
            paused.check()
        with pytest.raises(LeaseLost):
            paused.check()


class Deaf:
    """A store that does what it is told, and now and then gives no answer."""

    def __init__(self, inner: Objects) -> None:
        self._inner = inner
        self.is_deaf = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def put_if_match(self, key: str, data: bytes, *, tag: Tag) -> Tag:
        placed = self._inner.put_if_match(key, data, tag=tag)
        if self.is_deaf:
            raise StorageFailure("replace", subject=key, reason="no answer")
        return placed


def test_a_renewal_that_came_through_without_an_answer_is_no_loss(
    objects: Objects, world: World
) -> None:
    deaf = Deaf(objects)
    with leases(cast("Objects", deaf), world).hold([PEOPLE], ONE) as held:
        deaf.is_deaf = True
        held.renew()
        deaf.is_deaf = False
        world.now += 2 * TIMING.ttl_ms
        held.check()
        deaf.is_deaf = True
        held.renew()
        deaf.is_deaf = False
    assert holder_of(objects) == (ONE, 1, True), "and it is given back all the same"


def test_a_lease_that_was_taken_over_and_given_back_is_not_ours_again(
    objects: Objects, world: World
) -> None:
    with leases(objects, world).hold([PEOPLE], ONE) as held:
        world.now += 2 * TIMING.ttl_ms
        with leases(objects, world).hold([PEOPLE], TWO, AcquireMode.TAKE_OVER):
            pass
        with pytest.raises(LeaseLost):
            held.check()


def test_what_is_held_is_renewed_while_the_rest_is_waited_for(tmp_path: Path) -> None:
    store = open_objects(str(tmp_path), REAL, durability=Durability.RELAXED)
    timing = Timing(ttl_ms=1_500, heartbeat_ms=20, wait_ms_max=120_000, poll_ms=5)
    first, second = sorted([PEOPLE, OTHER])
    waiting, slow = Leases(store, REAL, timing, ELSEWHERE), Leases(store, REAL, timing, ELSEWHERE)

    def take_both() -> None:
        with waiting.hold([first, second], ONE) as held:
            held.check()

    with slow.hold([second], TWO):
        thread = Thread(target=take_both)
        thread.start()
        REAL.sleep_ms(timing.ttl_ms + 500)
        third = Leases(store, REAL, timing, ELSEWHERE)
        assert third.find_holder(first) == ONE
    thread.join()


def test_giving_back_late_does_not_free_what_another_holds(objects: Objects, world: World) -> None:
    with leases(objects, world).hold([PEOPLE], ONE):
        world.now += TIMING.ttl_ms + 1
        second = leases(objects, world).hold([PEOPLE], TWO, AcquireMode.TAKE_OVER)
        second.__enter__()
    assert leases(objects, world).is_alive(PEOPLE, TWO)
    second.__exit__(None, None, None)
    assert not leases(objects, world).is_alive(PEOPLE, TWO)


def test_a_sleeper_that_nobody_missed_goes_on(objects: Objects, world: World) -> None:
    with leases(objects, world).hold([PEOPLE], ONE) as held:
        world.now += TIMING.ttl_ms * 10
        held.check()
        assert leases(objects, world).is_alive(PEOPLE, ONE)


def test_a_dead_process_of_this_machine_is_not_waited_for(objects: Objects, world: World) -> None:
    gone = replace(this_process(), pid_start=1)
    held = leases(objects, world, gone).hold([PEOPLE], ONE)
    with held, pytest.raises(LeaseAbandoned), leases(objects, world).hold([PEOPLE], TWO):
        pass
    assert world.slept == []


def test_taking_several_gives_the_first_back_when_the_last_is_held(
    objects: Objects, world: World
) -> None:
    last = max(PEOPLE, OTHER)
    with leases(objects, world).hold([last], ONE):
        with pytest.raises(LeaseHeld), leases(objects, world).hold([PEOPLE, OTHER], TWO):
            pass
        assert not leases(objects, world).is_alive(min(PEOPLE, OTHER), TWO)


def test_nobody_passes_those_who_wait(objects: Objects, world: World) -> None:
    """A newcomer gets in line behind a ticket, though the place is free."""
    with leases(objects, world).hold([PEOPLE], ONE):
        pass
    ticket = f"{'0' * 26}~5~5~boot~another-host"
    objects.put_new(f"__leases/node%3APerson@main.line/{ticket}", b"{}")
    with pytest.raises(LeaseHeld), leases(objects, world).hold([PEOPLE], TWO):
        pass
    objects.delete(f"__leases/node%3APerson@main.line/{ticket}")
    with leases(objects, world).hold([PEOPLE], TWO):
        pass


def test_a_ticket_of_the_dead_stops_nobody(objects: Objects, world: World) -> None:
    me = this_process()
    ticket = f"{'0' * 26}~{me.pid}~1~{me.boot_id}~{me.host}"
    objects.put_new(f"__leases/node%3APerson@main.line/{ticket}", b"{}")
    with leases(objects, world).hold([PEOPLE], TWO):
        pass


def test_those_who_waited_leave_no_ticket(objects: Objects, world: World) -> None:
    held = leases(objects, world).hold([PEOPLE], ONE)
    with held, pytest.raises(LeaseHeld), leases(objects, world).hold([PEOPLE], TWO):
        pass
    assert [each.key for each in objects.list("__leases")] == [lease_key("node:Person", "main")]


@pytest.mark.parametrize("damage", [b"", b"\0" * 300])
def test_a_lease_that_a_power_cut_emptied_is_free(
    objects: Objects, world: World, damage: bytes
) -> None:
    objects.put_over(lease_key(PEOPLE.table, PEOPLE.branch), damage)
    with leases(objects, world).hold([PEOPLE], ONE):
        assert leases(objects, world).is_alive(PEOPLE, ONE)


@pytest.mark.parametrize("damage", [b"{}", b"[]", b"null", b"\xff", b'{"host": 1}'])
def test_a_lease_that_cannot_be_read_is_named(
    objects: Objects, world: World, damage: bytes
) -> None:
    objects.put_over(lease_key(PEOPLE.table, PEOPLE.branch), damage)
    with pytest.raises(LeaseCorrupt, match="Person"), leases(objects, world).hold([PEOPLE], ONE):
        pass


def test_names_that_are_no_tickets_are_ignored() -> None:
    for name in ("", "x", "a~b~c~d~e", "1~2~3"):
        assert decode_ticket(name) is None


def test_this_process_lives_and_others_cannot_be_told() -> None:
    me = this_process()
    assert (me.pid, me.host) == (os.getpid(), socket.gethostname())
    assert not is_dead(me)
    assert is_dead(replace(me, pid_start=me.pid_start + 1))
    assert is_dead(replace(me, pid=2**22 + 1))
    assert is_dead(replace(me, boot_id="an earlier one"))
    assert not is_dead(replace(me, host="elsewhere", pid=2**22 + 1))


def test_a_lease_torn_by_a_power_cut_is_free_once_its_time_is_over(
    objects: Objects, world: World
) -> None:
    objects.put_over(lease_key(PEOPLE.table, PEOPLE.branch), b'{"operation_id": "01TO')
    world.now += TIMING.ttl_ms + 1
    with leases(objects, world).hold([PEOPLE], ONE):
        assert leases(objects, world).is_alive(PEOPLE, ONE)


# ── passing on ───────────────────────────────────────────────────────────────────────────────────


def somebody_waits() -> bool:
    return True


def holder_of(objects: Objects) -> tuple[str, int, bool]:
    lease = decode_lease(objects.read(lease_key(PEOPLE.table, PEOPLE.branch)).data, key="k")
    return lease.operation_id, lease.epoch, lease.is_free


def test_a_lease_is_passed_on_to_the_next_of_the_process(objects: Objects, world: World) -> None:
    mine, theirs = leases(objects, world), leases(objects, world)
    with mine.hold([PEOPLE], ONE, has_successor=somebody_waits):
        pass
    assert holder_of(objects) == (ONE, 1, False)
    with pytest.raises(LeaseHeld), theirs.hold([PEOPLE], TWO, wait_ms_max=0):
        pass
    with mine.hold([PEOPLE], TWO) as held:
        assert holder_of(objects) == (TWO, 2, False)
        held.check()
    assert holder_of(objects) == (TWO, 2, True)


def test_others_get_their_turn_however_many_wait_here(objects: Objects, world: World) -> None:
    mine, theirs = leases(objects, world), leases(objects, world)
    turns = 0
    while turns < 100:
        with mine.hold([PEOPLE], ONE, has_successor=somebody_waits):
            world.now += 40
        turns += 1
        if holder_of(objects)[2]:
            break
    assert turns == 1 + TIMING.streak_ms // 40
    with theirs.hold([PEOPLE], TWO):
        pass
    with mine.hold([PEOPLE], ONE, has_successor=somebody_waits):
        pass
    assert not holder_of(objects)[2], "and a new streak begins"


def test_what_nobody_came_for_is_given_back(objects: Objects, world: World) -> None:
    mine = leases(objects, world)
    with mine.hold([PEOPLE], ONE, has_successor=somebody_waits):
        pass
    mine.release_unclaimed([PEOPLE, OTHER])
    assert holder_of(objects) == (ONE, 1, True)
    mine.release_unclaimed([PEOPLE])


def test_whoever_fails_or_was_overtaken_passes_nothing_on(objects: Objects, world: World) -> None:
    mine, theirs = leases(objects, world), leases(objects, world)
    with pytest.raises(ZeroDivisionError), mine.hold([PEOPLE], ONE, has_successor=somebody_waits):
        raise ZeroDivisionError
    assert holder_of(objects) == (ONE, 1, True)
    with mine.hold([PEOPLE], ONE, has_successor=somebody_waits) as held:
        world.now += TIMING.ttl_ms + 1
        with theirs.hold([PEOPLE], TWO, AcquireMode.TAKE_OVER), pytest.raises(LeaseLost):
            held.check()
    assert holder_of(objects)[0] == TWO
    with mine.hold([PEOPLE], ONE):
        assert holder_of(objects)[0] == ONE


def test_what_was_kept_too_long_is_another_ones(objects: Objects, world: World) -> None:
    mine, theirs = leases(objects, world), leases(objects, world)
    with mine.hold([PEOPLE], ONE, has_successor=somebody_waits):
        pass
    world.now += TIMING.ttl_ms + 1
    with pytest.raises(LeaseAbandoned), theirs.hold([PEOPLE], TWO):
        pass
    with theirs.hold([PEOPLE], TWO, AcquireMode.TAKE_OVER):
        with pytest.raises(LeaseHeld), mine.hold([PEOPLE], ONE, wait_ms_max=0):
            pass
        assert holder_of(objects)[0] == TWO
