"""How leases stay alive: a thread renews them, and the clock of the store measures their age."""

from threading import Condition, Event, Thread
from typing import Final, Protocol

from omnigraph.effects import Effects
from omnigraph.storage.objects import Objects

CLOCK_TRUSTED_MS: Final = 1_000
"""How long one reading of the store's clock is extrapolated with our own."""

IDLE_S: Final = 1.0
"""How long the thread waits for another lease before it ends."""


class Renewable(Protocol):
    def renew(self) -> None: ...


class Heartbeat:
    """Renews every registered lease once per interval, from one daemon thread.

    The thread starts with the first lease, and ends when there has been none for a while: a process
    may open any number of graphs. It waits in real time even if a test scripts the clock: other
    processes measure the age of a lease in real time.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_s = interval_ms / 1000
        self._changed = Condition()
        self._leases: set[Renewable] = set()
        self._thread: Thread | None = None

    def add(self, leases: Renewable) -> None:
        with self._changed:
            self._leases.add(leases)
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._beat, name="omnigraph-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, leases: Renewable) -> None:
        with self._changed:
            self._leases.discard(leases)

    def _beat(self) -> None:
        while self._await_lease():
            Event().wait(self._interval_s)
            with self._changed:
                due = list(self._leases)
            for each in due:
                each.renew()

    def _await_lease(self) -> bool:
        """False if the thread is to end; the next lease starts another one."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._leases), IDLE_S):
                self._thread = None
                return False
            return True


class StoreClock:
    """The clock of the store, read once a second and extrapolated with our own in between.

    Reading the clock of a local store creates a file, and a waiting writer polls every few
    milliseconds.
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
            # Read our own clock last: the latency of the store must not make leases look older.
            own_ms = self._effects.monotonic_ms()
            self._ahead_ms = shown_ms - own_ms
            self._asked_ms = own_ms
        return own_ms + self._ahead_ms
