"""Who may write a table on a branch, among all processes.

A lease is an object named for its place. It says who holds it, and it is only ever changed by
compare-and-swap: taken, renewed, given back, taken over. The object stays when nobody holds it, so
its epoch only counts up.

1. A lease is alive while it is renewed. Its age is told by the store's clock, not by the writers'.
2. A lease that was not renewed for its time to live may be taken over, and so may one whose process
   is known to be dead; but only by somebody who then recovers what the old holder left. A writer
   that finds one is told (`Abandoned`), and has it recovered before it asks again.
3. Whoever was overtaken notices at its next step: `check` before every write, and at the latest the
   publish, which finds the recovery commit of its operation (D2).
4. Waiting is in line (`lines`).
5. Renewing never touches sidecars.
6. Where another writer of this process waits for the same place, the lease is passed on to it, for
   a while: it is taken by one swap instead of two and a line, and what one process just wrote need
   not be read and flushed by another. Those of other processes get their turn after `streak_ms`.
7. Leases are not flushed. A power cut may leave one empty or torn, and then its holder is gone:
   such a lease is free once it is older than any lease gets without being renewed.
8. A renewal may come through though its answer does not. Then the object is not the one we know,
   and still ours: that is looked up before a lease counts as lost.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from threading import Condition, Event, Lock, Thread
from typing import Final

from omnigraph.commit.leases.fair_queue import FairQueue, Turn
from omnigraph.commit.leases.owner import Owner, is_dead, this_process
from omnigraph.commit.leases.queues import Place
from omnigraph.effects import Effects
from omnigraph.errors import (
    LeaseCorrupt,
    LeaseHeld,
    LeaseLost,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StorageFailure,
)
from omnigraph.ids import OperationId
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import lease_key, lease_line_prefix
from omnigraph.storage.objects import Objects, StoredObject, Tag


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things may take, in milliseconds."""

    ttl_ms: int = 10_000
    heartbeat_ms: int = 3_000
    wait_ms_max: int = 30_000
    poll_ms: int = 2
    streak_ms: int = 250
    """How long one process may keep a place to itself while others wait."""


DEFAULT_TIMING: Final = Timing()

CLOCK_TRUSTED_MS: Final = 1_000

SIZE_STEP_BYTES: Final = 128
"""Leases are padded, because objects that keep their size are replaced at less cost."""


class Taking(Enum):
    """Which leases may be taken."""

    FREE = "free"
    OVER = "over"
    """Also those whose holder is gone. For recovery alone."""


class Abandoned(Exception):
    """The holder of a place is gone. Never seen outside the commit layer."""

    def __init__(self, place: Place, operation_id: OperationId) -> None:
        self.place = place
        self.operation_id = operation_id
        super().__init__(f"{place.table} on {place.branch} was abandoned by {operation_id}")


@dataclass(frozen=True, slots=True)
class Lease:
    """What a lease object says."""

    owner: Owner
    operation_id: OperationId
    epoch: int
    ttl_ms: int
    beats: int = 0
    """Renewals so far; makes every renewal another object, whatever tells objects apart."""
    is_free: bool = False

    def encode(self) -> bytes:
        document = {
            "operation_id": self.operation_id,
            "owner": str(self.owner),
            "host": self.owner.host,
            "boot_id": self.owner.boot_id,
            "pid": self.owner.pid,
            "pid_start": self.owner.pid_start,
            "epoch": self.epoch,
            "ttl_ms": self.ttl_ms,
            "beats": self.beats,
            "is_free": self.is_free,
        }
        data = json.dumps(document).encode()
        return data.ljust(-len(data) // SIZE_STEP_BYTES * -SIZE_STEP_BYTES)


def decode_lease(data: bytes, *, key: str) -> Lease:
    """Raises LeaseCorrupt."""
    try:
        document = read_json(data)
        owner = Owner(
            host=document["host"],
            boot_id=document["boot_id"],
            pid=document["pid"],
            pid_start=document["pid_start"],
        )
        return Lease(
            owner=owner,
            operation_id=OperationId(document["operation_id"]),
            epoch=document["epoch"],
            ttl_ms=document["ttl_ms"],
            beats=document.get("beats", 0),
            is_free=document.get("is_free", False),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LeaseCorrupt(key, reason=str(error)) from error


@dataclass(frozen=True, slots=True)
class Taken:
    """A lease of ours, and the tag of the object that says so."""

    lease: Lease
    tag: Tag
    since_ms: int = 0
    """When this process took the place; not when this writer did."""


class HeldLeases:
    """The leases of one operation. Made by `Leases.hold`."""

    def __init__(self, objects: Objects, effects: Effects, operation_id: OperationId) -> None:
        self._objects = objects
        self._effects = effects
        self.operation_id = operation_id
        self._taken: dict[Place, Taken] = {}
        self._lock = Lock()
        self._renewed_ms = effects.monotonic_ms()
        self._is_lost = False

    @property
    def places(self) -> frozenset[Place]:
        return frozenset(self._taken)

    def check(self) -> None:
        """Raises LeaseLost when the leases are no longer ours. Free while they are fresh."""
        if not self._is_lost and self._age_ms() >= self._ttl_ms():
            # We slept through our time to live; perhaps nobody wanted the place meanwhile.
            self.renew()
        if self._is_lost:
            raise LeaseLost(self.operation_id)

    def renew(self) -> None:
        """Say that we are alive. Notes, and does not raise, when it is too late to say so."""
        with self._lock:
            started_ms = self._effects.monotonic_ms()
            for place, taken in list(self._taken.items()):
                try:
                    self._taken[place] = self._swap(place, taken)
                except ObjectChanged:
                    self._is_lost = True
                    return
                except StorageFailure:
                    return
            self._renewed_ms = started_ms

    def _swap(self, place: Place, taken: Taken, *, is_free: bool = False) -> Taken:
        """Renew a lease of ours, or give it back. Raises ObjectChanged if it is another's."""
        try:
            return self._put(place, taken, is_free=is_free)
        except ObjectChanged:
            # (8)
            return self._put(place, self._find_own(place, taken), is_free=is_free)

    def _put(self, place: Place, taken: Taken, *, is_free: bool) -> Taken:
        lease = replace(taken.lease, beats=taken.lease.beats + 1, is_free=is_free)
        tag = self._objects.put_if_match(_key(place), lease.encode(), tag=taken.tag)
        return replace(taken, lease=lease, tag=tag)

    def _find_own(self, place: Place, taken: Taken) -> Taken:
        """Raises ObjectChanged."""
        key, ours = _key(place), taken.lease
        try:
            stored = self._objects.read(key)
            lease = decode_lease(stored.data, key=key)
        except (ObjectNotFound, LeaseCorrupt):
            raise ObjectChanged(key) from None
        # Whoever takes a lease counts the epoch up.
        if (lease.operation_id, lease.epoch, lease.is_free) != (
            ours.operation_id,
            ours.epoch,
            False,
        ):
            raise ObjectChanged(key)
        return replace(taken, lease=lease, tag=stored.tag)

    def add(self, place: Place, taken: Taken) -> None:
        with self._lock:
            self._taken[place] = taken
            self._renewed_ms = min(self._renewed_ms, self._effects.monotonic_ms())

    def hand_over(self) -> dict[Place, Taken]:
        """Stop holding anything, and give nothing back."""
        with self._lock:
            handed, self._taken = dict(self._taken), {}
            return {} if self._is_lost else handed

    def release(self) -> None:
        """Give everything back. What cannot be given back expires."""
        with self._lock:
            for place, taken in self._taken.items():
                with suppress(ObjectChanged, StorageFailure):
                    self._swap(place, taken, is_free=True)
            self._taken.clear()

    def is_older_than(self, moment_ms: int) -> bool:
        """Did this process take any of it before then?"""
        return any(each.since_ms < moment_ms for each in self._taken.values())

    def _age_ms(self) -> int:
        return self._effects.monotonic_ms() - self._renewed_ms

    def _ttl_ms(self) -> int:
        return min((taken.lease.ttl_ms for taken in self._taken.values()), default=0)


class StoreClock:
    """What the clock of the store shows, asked now and then and told on by our own in between.

    Asking a local store makes a file, and whoever waits wants to know every few milliseconds.
    """

    def __init__(self, objects: Objects, effects: Effects) -> None:
        self._objects = objects
        self._effects = effects
        self._asked_ms: int | None = None
        self._ahead_ms = 0

    def now_ms(self) -> int:
        own_ms = self._effects.monotonic_ms()
        if self._asked_ms is None or own_ms - self._asked_ms >= CLOCK_TRUSTED_MS:
            shown_ms = self._objects.clock_ms()
            # Our own time is taken last: what the answer took must not make leases look older.
            own_ms = self._effects.monotonic_ms()
            self._ahead_ms = shown_ms - own_ms
            self._asked_ms = own_ms
        return own_ms + self._ahead_ms


class Leases:
    """The leases of one graph, as one process takes them."""

    def __init__(
        self,
        objects: Objects,
        effects: Effects,
        timing: Timing = DEFAULT_TIMING,
        owner: Owner | None = None,
    ) -> None:
        self._objects = objects
        self._effects = effects
        self.timing = timing
        self._owner = owner
        self._clock = StoreClock(objects, effects)
        self._heart = Heart(timing.heartbeat_ms)
        self._kept: dict[Place, Taken] = {}
        """(6) Ours, and between two writers of this process."""
        self._lock = Lock()

    @contextmanager
    def hold(
        self,
        places: Iterable[Place],
        operation_id: OperationId,
        mode: Taking = Taking.FREE,
        *,
        wait_ms_max: int | None = None,
        has_successor: Callable[[], bool] = lambda: False,
    ) -> Iterator[HeldLeases]:
        """Take every place, in order; wait in line where somebody alive is there already.

        (6) If somebody is next in this process, who will want to hold the same, it is kept for him.
        Raises LeaseHeld when the wait gets too long, and Abandoned where the holder is gone, unless
        taking over is what we came for.
        """
        wait_ms = self.timing.wait_ms_max if wait_ms_max is None else wait_ms_max
        held = HeldLeases(self._objects, self._effects, operation_id)
        try:
            # What is ours stays ours while we wait for the rest, which may take longer than a lease
            # lives.
            self._heart.attend(held)
            for place in sorted(set(places)):
                held.add(place, self._take(place, operation_id, mode, wait_ms))
            yield held
            self._heart.leave(held)
            if has_successor():
                self._keep(held)
        finally:
            self._heart.leave(held)
            held.release()

    def _keep(self, held: HeldLeases) -> None:
        """(6) Unless it was ours for long enough."""
        now_ms = self._effects.monotonic_ms()
        if held.is_older_than(now_ms - self.timing.streak_ms):
            return
        with self._lock:
            self._kept.update(held.hand_over())

    def give_back(self, places: Iterable[Place]) -> None:
        """(6) Give back what was kept for somebody who never came."""
        for place in places:
            with self._lock:
                taken = self._kept.pop(place, None)
            if taken is not None:
                late = HeldLeases(self._objects, self._effects, taken.lease.operation_id)
                late.add(place, taken)
                late.release()

    def find_holder(self, place: Place) -> OperationId | None:
        """The operation that holds this place, if somebody alive does."""
        found = self._read(place)
        if found is None or found[0].is_free or self._is_over(*found):
            return None
        return found[0].operation_id

    def find_sleeper(self, places: Iterable[Place], operation_id: OperationId) -> Owner | None:
        """The process that held one of these places for an operation and did not give it back, if
        it may only be asleep.
        """
        for place in places:
            found = self._read(place)
            if found is None or found[0].is_free or found[0].operation_id != operation_id:
                continue
            if not is_dead(found[0].owner):
                return found[0].owner
        return None

    def is_alive(self, place: Place, operation_id: OperationId) -> bool:
        """Does an operation still hold this place?"""
        found = self._read(place)
        if found is None:
            return False
        lease, stored = found
        return (
            lease.operation_id == operation_id
            and not lease.is_free
            and not self._is_over(lease, stored)
        )

    def _take(self, place: Place, operation_id: OperationId, mode: Taking, wait_ms: int) -> Taken:
        passed_on = self._take_kept(place, operation_id)
        if passed_on is not None:
            return passed_on
        if self.line(place).is_empty():
            taken = self._try(place, operation_id, mode)
            if taken is not None:
                return taken
        return self._wait(place, operation_id, mode, wait_ms)

    def _take_kept(self, place: Place, operation_id: OperationId) -> Taken | None:
        """(6) What the one before us left us, unless we came too late for it."""
        with self._lock:
            kept = self._kept.pop(place, None)
        if kept is None:
            return None
        was = kept.lease
        lease = replace(was, operation_id=operation_id, epoch=was.epoch + 1, beats=0)
        with suppress(ObjectChanged):
            tag = self._objects.put_if_match(_key(place), lease.encode(), tag=kept.tag)
            return Taken(lease, tag, kept.since_ms)
        return None

    def _try(self, place: Place, operation_id: OperationId, mode: Taking) -> Taken | None:
        found = self._read(place)
        owner = self._owner or this_process()
        if found is None:
            lease = Lease(owner, operation_id, 1, self.timing.ttl_ms)
            with suppress(ObjectExists):
                tag = self._objects.put_new(_key(place), lease.encode())
                return Taken(lease, tag, self._effects.monotonic_ms())
            return None
        current, stored = found
        if not current.is_free:
            if not self._is_over(current, stored):
                return None
            if mode is Taking.FREE:
                raise Abandoned(place, current.operation_id)
        lease = Lease(owner, operation_id, current.epoch + 1, self.timing.ttl_ms)
        with suppress(ObjectChanged):
            tag = self._objects.put_if_match(_key(place), lease.encode(), tag=stored.tag)
            return Taken(lease, tag, self._effects.monotonic_ms())
        return None

    def _read(self, place: Place) -> tuple[Lease, StoredObject] | None:
        try:
            stored = self._objects.read(_key(place))
        except ObjectNotFound:
            return None
        try:
            return decode_lease(stored.data, key=_key(place)), stored
        except LeaseCorrupt:
            age_ms = self._clock.now_ms() - stored.modified_ms
            if stored.data.strip(b"\0") and age_ms <= self.timing.ttl_ms:
                raise
            # (7) Nobody renewed it either.
            return self._nobody(), stored

    def _nobody(self) -> Lease:
        return Lease(this_process(), OperationId(""), 0, self.timing.ttl_ms, is_free=True)

    def _is_over(self, lease: Lease, stored: StoredObject) -> bool:
        """(2) Nobody is there any more, for certain or by the clock."""
        if is_dead(lease.owner):
            return True
        return self._clock.now_ms() - stored.modified_ms > lease.ttl_ms

    # waiting in line (4)

    def line(self, place: Place) -> FairQueue:
        """Those who wait for a place."""
        timing = self.timing
        return FairQueue(
            self._objects,
            self._effects,
            self._owner or this_process(),
            lease_line_prefix(place.table, place.branch),
            patience_ms=timing.wait_ms_max + timing.ttl_ms,
            poll_ms=timing.poll_ms,
        )

    def turn(self, place: Place) -> Turn:
        """A way to a place nobody holds, and that many want to reach one after the other."""
        return Turn(self.line(place), wait_ms_max=self.timing.ttl_ms)

    def _wait(self, place: Place, operation_id: OperationId, mode: Taking, wait_ms: int) -> Taken:
        deadline_ms = self._effects.monotonic_ms() + wait_ms
        line = self.line(place)
        with line.stand() as ticket:
            ahead = 1
            while True:
                # Whoever is next stays next: those who come draw later tickets.
                ahead = ahead and line.count_ahead(ticket)
                taken = None if ahead else self._try(place, operation_id, mode)
                if taken is not None:
                    return taken
                if self._effects.monotonic_ms() >= deadline_ms:
                    raise self._held_error(place)
                line.sleep(ahead)

    def _held_error(self, place: Place) -> LeaseHeld:
        found = self._read(place)
        if found is None:
            return LeaseHeld(place.table, branch=place.branch, owner="nobody", age_ms=0)
        lease, stored = found
        age_ms = self._objects.clock_ms() - stored.modified_ms
        return LeaseHeld(place.table, branch=place.branch, owner=str(lease.owner), age_ms=age_ms)


def _key(place: Place) -> str:
    return lease_key(place.table, place.branch)


class Heart:
    """Renews what is held, from a thread of its own that starts with the first lease.

    It waits on real time, whatever the effects say: a lease is a promise to other processes.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_s = interval_ms / 1000
        self._changed = Condition()
        self._attended: set[HeldLeases] = set()
        self._thread: Thread | None = None

    def attend(self, held: HeldLeases) -> None:
        with self._changed:
            self._attended.add(held)
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._beat, name="omnigraph-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def leave(self, held: HeldLeases) -> None:
        with self._changed:
            self._attended.discard(held)

    def _beat(self) -> None:
        while True:
            with self._changed:
                while not self._attended:
                    self._changed.wait()
            Event().wait(self._interval_s)
            with self._changed:
                due = list(self._attended)
            for held in due:
                held.renew()
