"""The queues inside one process: whoever writes a table on a branch waits for his turn there.

Queues are first come, first served. Several are always taken in one call and in one order, so two
writers that want the same tables cannot wait for each other. The lease (`leases`) comes after the
queue: of all writers of a process, one at a time stands in line among the processes.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import NamedTuple

from omnigraph.ids import TableKey


class Place(NamedTuple):
    """What is locked: one table on one of its branches. Sorts in the one order of taking."""

    table: TableKey
    branch: str
    """Spelled out: main is `main` here."""


@dataclass(eq=False, slots=True)
class Waiter:
    wanted: frozenset[Place]
    turn: Event = field(default_factory=Event)


class Queues:
    """One queue for each place, made when it is first asked for and dropped when it is empty."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[Place, deque[Waiter]] = {}

    def is_free(self, place: Place) -> bool:
        """Is nobody there at this moment?"""
        with self._lock:
            return place not in self._waiting

    def has_successor(self, places: Iterable[Place]) -> bool:
        """Does the next in line want the one place that is held, and nothing else?"""
        wanted = frozenset(places)
        if len(wanted) != 1:
            return False
        (place,) = wanted
        with self._lock:
            line = self._waiting.get(place)
            return line is not None and len(line) > 1 and line[1].wanted == wanted

    @contextmanager
    def hold(self, places: Iterable[Place]) -> Iterator[None]:
        """Wait for every place, oldest waiter first, and give all back at the end."""
        held: list[Place] = []
        wanted = frozenset(places)
        try:
            for place in sorted(wanted):
                self._take(place, wanted)
                held.append(place)
            yield
        finally:
            for place in reversed(held):
                self._pass_on(place)

    def _take(self, place: Place, wanted: frozenset[Place]) -> None:
        waiter = Waiter(wanted)
        with self._lock:
            line = self._waiting.setdefault(place, deque())
            line.append(waiter)
            if line[0] is waiter:
                return
        try:
            waiter.turn.wait()
        except BaseException:
            self._leave(place, waiter)
            raise

    def _pass_on(self, place: Place) -> None:
        with self._lock:
            line = self._waiting[place]
            line.popleft()
            self._call_next(place, line)

    def _leave(self, place: Place, waiter: Waiter) -> None:
        """Give up waiting; pass the turn on if it came in the meantime."""
        with self._lock:
            line = self._waiting[place]
            was_first = line[0] is waiter
            line.remove(waiter)
            if was_first:
                self._call_next(place, line)

    def _call_next(self, place: Place, line: deque[Waiter]) -> None:
        if line:
            line[0].turn.set()
        else:
            del self._waiting[place]
