"""What is dear to make and never changes: columns and adjacencies, kept by physical table state.

A state is a version of a table on one branch of it; branches of the graph that show the same state
share what was made of it. The least recently used leaves first when the shelf is full, and whoever
is using it keeps it until done.

An account is kept of tables that are not on the shelf: every look-up through an index costs a
little, and when all of them together have cost what reading the table would have, it is read. So
nobody pays more than twice what a clairvoyant would have, and one look-up never reads a table.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Final, TypeVar, cast

from omnigraph.engine.cancellation import waiting_for
from omnigraph.engine.tables.memory import Sized
from omnigraph.storage.tables import Handle

HANDLES_MAX: Final = 1024
ACCOUNTS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class TableState:
    """What names the very same rows for good.

    The incarnation tells apart branches that had the same name, one after the other.
    """

    path: str
    branch: str | None
    incarnation: str
    version: int


Item = TypeVar("Item", bound=Sized)


class TableCache:
    """Safe to share among threads."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.grown = False
        """Was anything made or read since it was last trimmed?"""
        self._items: OrderedDict[Hashable, Sized] = OrderedDict()
        self._handles: OrderedDict[TableState, Handle] = OrderedDict()
        self._accounts: OrderedDict[Hashable, int] = OrderedDict()
        self._making: dict[Hashable, Lock] = {}
        self._lock = Lock()

    def find(self, key: Hashable) -> Sized | None:
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
            return found

    def get_or_build(self, key: Hashable, make: Callable[[], Item]) -> Item:
        """What is kept under a key; made now if nothing is. Who else wants it waits."""
        found = self.find(key)
        if found is not None:
            return cast("Item", found)
        with self._lock:
            making = self._making.setdefault(key, Lock())
        with waiting_for(making):
            found = self.find(key)
            if found is None:
                found = self._keep(key, make)
        return cast("Item", found)

    def _keep(self, key: Hashable, make: Callable[[], Item]) -> Item:
        try:
            made = make()
            with self._lock:
                self._items[key] = made
            return made
        finally:
            self.grown = True
            with self._lock:
                self._making.pop(key, None)

    def trim(self) -> None:
        """Let go of the least recently used until the rest fits, if anything was added."""
        if not self.grown:
            return
        self.grown = False
        with self._lock:
            sizes = {key: each.nbytes for key, each in self._items.items()}
            held = sum(sizes.values())
            for key, nbytes in sizes.items():
                if held <= self.bytes_max:
                    break
                del self._items[key]
                held -= nbytes

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(each.nbytes for each in self._items.values())

    def handle(self, state: TableState, open_: Callable[[], Handle]) -> Handle:
        with self._lock:
            known = self._handles.get(state)
            if known is not None:
                self._handles.move_to_end(state)
                return known
        opened = open_()
        with self._lock:
            self._handles[state] = opened
            while len(self._handles) > HANDLES_MAX:
                self._handles.popitem(last=False)
        return opened

    def charge(self, key: Hashable, cost: int) -> int:
        """Put a cost on the account of something; what it has cost in all."""
        with self._lock:
            total = self._accounts.pop(key, 0) + cost
            self._accounts[key] = total
            while len(self._accounts) > ACCOUNTS_MAX:
                self._accounts.popitem(last=False)
            return total
