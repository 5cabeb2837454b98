"""A cache of columns and adjacencies, which are expensive to build and never change.

A key is a table state: one version on one branch of a table. Branches of the graph that show the
same state share its entries. The least recently used entry is evicted first; an execution that uses
an entry keeps it until it ends.

For a table that is not cached, the cache sums the costs of index look-ups (`charge`). A reader
whose next look-up would exceed the cost of reading the table reads the table instead. So look-ups
and the read together cost at most twice the best choice, and a single look-up of a few ids never
reads a whole table.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Final, NamedTuple, TypeVar, cast

from omnigraph.engine.cancellation import waiting_for
from omnigraph.engine.tables.memory import Sized
from omnigraph.storage.tables import Handle

HANDLES_MAX: Final = 1024
ACCOUNTS_MAX: Final = 4096


class TableState(NamedTuple):
    """Identifies immutable rows: a version of a table on one of its branches.

    The incarnation distinguishes branches that had the same name at different times.
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
        """Was anything built or read since the last `trim`?"""
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
        """The entry of a key, built if it is missing. Concurrent callers wait for one build."""
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
        """Evict the least recently used entries until the rest fits, if anything was added."""
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

    def charge(self, key: Hashable, cost: int) -> None:
        """Add a cost to the account of a key."""
        with self._lock:
            self._accounts[key] = self._accounts.pop(key, 0) + cost
            while len(self._accounts) > ACCOUNTS_MAX:
                self._accounts.popitem(last=False)

    def charged(self, key: Hashable) -> int:
        with self._lock:
            return self._accounts.get(key, 0)
