"""What the writers of one graph share in a process: stores, bases, queues, leases, handles."""

from collections.abc import Callable
from threading import Lock
from typing import Final

from cachetools import LRUCache

from omnigraph.commit.leases.holder import Leases
from omnigraph.commit.leases.lease import DEFAULT_TIMING, Timing
from omnigraph.commit.leases.owner import Owner
from omnigraph.commit.leases.process_queues import ProcessQueues
from omnigraph.commit.manifest.base import Base, Bases
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.ids import Version
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle

HANDLES_KEPT_MAX: Final = 256

DURABLE_KEPT_MAX: Final = 1_024
"""The number of tables with a known durable version. A dropped one is flushed again."""

Observer = Callable[[str], None]
"""Called with the name of every step of an attempt, before the step."""


def unobserved(step: str) -> None:
    pass


class Meter:
    """Receives what an operator counts. This one counts nothing."""

    def waited(self, elapsed_ms: int) -> None:
        """A writer acquired its locks after this wait."""

    def recovered(self, kind: str) -> None:
        """An operation was recovered."""

    def reading(self, reads: int, nbytes: int) -> None:
        """The number of running reads, and the bytes they hold, changed by these amounts."""


UNMETERED: Final = Meter()


class WriteContext:
    """One for each open graph; safe to share among threads."""

    def __init__(
        self,
        stores: Stores,
        bases: Bases,
        *,
        timing: Timing = DEFAULT_TIMING,
        owner: Owner | None = None,
        observe: Observer = unobserved,
        meter: Meter = UNMETERED,
    ) -> None:
        self.stores = stores
        self.bases = bases
        self.queues = ProcessQueues()
        self.leases = Leases(stores.volatile, stores.effects, timing, owner)
        self.observe = observe
        self.meter = meter
        self._handles: LRUCache[tuple[str, ...], Handle] = LRUCache(HANDLES_KEPT_MAX)
        self._durable: LRUCache[tuple[str, ...], Handle] = LRUCache(DURABLE_KEPT_MAX)
        self._lock = Lock()

    def open_pin(self, pin: Pin, base: Base) -> Handle:
        """Open a table of a base, through a cache.

        The cache key includes the identifier of the branch: a branch that was deleted and created
        again has the same names and version numbers.
        """
        key = (pin.path, pin.owner, str(pin.version), base.identifier)
        with self._lock:
            known = self._handles.get(key)
        if known is not None:
            return known
        handle = open_pin(self.stores, pin)
        self._keep(key, handle)
        return handle

    def keep(self, handle: Handle, base: Base) -> None:
        """Cache the handle of a version that this process committed."""
        owner = handle.ref.branch or "main"
        self._keep((handle.ref.path, owner, str(handle.version), base.identifier), handle)

    def fsync_version(self, handle: Handle, base: Base, *, onto: Version) -> None:
        """Flush the files of a version that other writers may have left unflushed (D11).

        This process flushed its own commits, those after version `onto`, as they landed.
        """
        table = (handle.ref.path, handle.ref.branch or "main", base.identifier)
        with self._lock:
            known = self._durable.get(table)
        if known is None or known.version != onto:
            self.stores.tables.fsync_version(handle, beyond=known)
        with self._lock:
            self._durable[table] = handle

    def _keep(self, key: tuple[str, ...], handle: Handle) -> None:
        with self._lock:
            self._handles[key] = handle
