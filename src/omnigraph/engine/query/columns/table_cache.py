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
from collections.abc import Callable, Hashable, Iterable
from threading import Lock
from typing import Final, NamedTuple, Protocol, TypeVar, cast

from omnigraph.engine.cancellation import waiting_for
from omnigraph.engine.tables.memory import Sized
from omnigraph.storage.tables import Handle

HANDLES_MAX: Final = 1024
ACCOUNTS_MAX: Final = 4096
VIEWS_MAX: Final = 64


class TableState(NamedTuple):
    """Identifies immutable rows: a version of a table on one of its branches.

    The incarnation distinguishes branches that had the same name at different times.
    """

    path: str
    branch: str | None
    incarnation: str
    version: int


Item = TypeVar("Item", bound=Sized)


class SharedView(Protocol):
    """The tables of one snapshot."""

    @property
    def pins(self) -> object:
        """What identifies the snapshot, as long as the view lives."""
        ...

    def entries(self) -> Iterable[Hashable]:
        """The keys of the entries that the view may hold on to."""
        ...


class TableCache:
    """Safe to share among threads."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.grown = False
        """Was anything built or read since the last `trim`?"""
        self._items: OrderedDict[Hashable, Sized] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        """Of the entries, when they were last measured. Only a view makes an entry grow."""
        self._held = 0
        """The sum of the sizes."""
        self._fresh: list[Hashable] = []
        """The keys of the entries that were added since the last `trim`."""
        self._handles: OrderedDict[TableState, Handle] = OrderedDict()
        self._newest: OrderedDict[tuple[str, str | None, str], TableState] = OrderedDict()
        """By table and branch, the version that was asked for last."""
        self._accounts: OrderedDict[Hashable, int] = OrderedDict()
        self._making: dict[Hashable, Lock] = {}
        self._views: OrderedDict[int, SharedView] = OrderedDict()
        self._lock = Lock()

    def view_of(self, pins: object) -> "SharedView | None":
        """The view that reads of a snapshot share."""
        with self._lock:
            found = self._views.get(id(pins))
            if found is not None:
                self._views.move_to_end(id(pins))
            return found

    def keep_view(self, view: "SharedView") -> None:
        """Kept until an entry is evicted: a view holds on to the entries that it has used."""
        with self._lock:
            self._views[id(view.pins)] = view
            while len(self._views) > VIEWS_MAX:
                _, dropped = self._views.popitem(last=False)
                self._measure(dropped.entries())

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
                self._fresh.append(key)
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
            in_use = [key for view in self._views.values() for key in view.entries()]
            in_use += self._fresh
            self._measure(in_use)
            if self._held > self.bytes_max:
                self._drop_views(in_use)
            while self._held > self.bytes_max:
                key, _ = self._items.popitem(last=False)
                self._held -= self._sizes.pop(key, 0)
            self._fresh.clear()

    def _measure(self, keys: Iterable[Hashable]) -> None:
        """A server that is written keeps thousands of entries; few of them can have grown."""
        for key in keys:
            found = self._items.get(key)
            if found is not None:
                size = found.nbytes
                self._held += size - self._sizes.get(key, 0)
                self._sizes[key] = size

    def _drop_views(self, in_use: Iterable[Hashable]) -> None:
        """What a view has at hand is used without a look-up here: it was used when the view was."""
        for key in in_use:
            if key in self._items:
                self._items.move_to_end(key)
        self._views.clear()

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

    def succeed(self, state: TableState) -> tuple[Sized, Handle] | None:
        """The version of the table that was asked for before this one, if it is still cached."""
        table = state[:3]
        with self._lock:
            before = self._newest.pop(table, None)
            self._newest[table] = state
            while len(self._newest) > HANDLES_MAX:
                self._newest.popitem(last=False)
            if before is None or before == state:
                return None
            found, handle = self._items.get(before), self._handles.get(before)
            return None if found is None or handle is None else (found, handle)

    def charge(self, key: Hashable, cost: int) -> None:
        """Add a cost to the account of a key."""
        with self._lock:
            self._accounts[key] = self._accounts.pop(key, 0) + cost
            while len(self._accounts) > ACCOUNTS_MAX:
                self._accounts.popitem(last=False)

    def charged(self, key: Hashable) -> int:
        with self._lock:
            return self._accounts.get(key, 0)
