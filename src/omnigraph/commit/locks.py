"""The queues inside one process: whoever writes a table on a branch waits for his turn there.

Queues are first come, first served. Several are always taken in one call and in one order, so two
writers that want the same tables cannot wait for each other. The lease (`leases`) comes after the
queue: of all writers of a process, one at a time stands in line among the processes.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Lock
from typing import NamedTuple

from omnigraph.ids import TableKey


class Place(NamedTuple):
    """What is locked: one table on one of its branches. Sorts in the one order of taking."""

    table: TableKey
    branch: str
    """Spelled out: main is `main` here."""


class Queues:
    """One queue for each place, made when it is first asked for and dropped when it is empty."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[Place, deque[Event]] = {}

    def is_free(self, place: Place) -> bool:
        """Is nobody there at this moment?"""
        with self._lock:
            return place not in self._waiting

    @contextmanager
    def hold(self, places: Iterable[Place]) -> Iterator[None]:
        """Wait for every place, oldest waiter first, and give all back at the end."""
        held: list[Place] = []
        try:
            for place in sorted(set(places)):
                self._take(place)
                held.append(place)
            yield
        finally:
            for place in reversed(held):
                self._pass_on(place)

    def _take(self, place: Place) -> None:
        turn = Event()
        with self._lock:
            line = self._waiting.setdefault(place, deque())
            line.append(turn)
            if line[0] is turn:
                return
        try:
            turn.wait()
        except BaseException:
            self._leave(place, turn)
            raise

    def _pass_on(self, place: Place) -> None:
        with self._lock:
            line = self._waiting[place]
            line.popleft()
            self._call_next(place, line)

    def _leave(self, place: Place, turn: Event) -> None:
        """Give up waiting; pass the turn on if it came in the meantime."""
        with self._lock:
            line = self._waiting[place]
            was_first = line[0] is turn
            line.remove(turn)
            if was_first:
                self._call_next(place, line)

    def _call_next(self, place: Place, line: deque[Event]) -> None:
        if line:
            line[0].set()
        else:
            del self._waiting[place]
