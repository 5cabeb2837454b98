"""Renewing leases in the background."""

from threading import Condition, Event, Thread
from typing import Protocol


class Renewable(Protocol):
    def renew(self) -> None: ...


class Heartbeat:
    """Renews every registered lease once per interval, from one daemon thread.

    The thread starts with the first lease. It waits in real time even if a test scripts the
    clock: other processes measure its age in real time.
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
        while True:
            with self._changed:
                while not self._leases:
                    self._changed.wait()
            Event().wait(self._interval_s)
            with self._changed:
                due = list(self._leases)
            for each in due:
                each.renew()
