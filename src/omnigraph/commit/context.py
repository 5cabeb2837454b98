"""What the writers of one graph share: stores, what is known of each branch, queues and leases."""

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
"""Of how many tables it is known what reached the disk; to forget one costs flushing it anew."""

Observer = Callable[[str], None]
"""Told the name of every step of an attempt, as it is about to be taken."""


def unobserved(step: str) -> None:
    pass


class Meter:
    """Told of what an operator wants to count. This one counts nothing."""

    def waited(self, elapsed_ms: int) -> None:
        """A writer had its turn, after so long."""

    def recovered(self, kind: str) -> None:
        """What a dead writer left was finished or undone."""

    def reading(self, reads: int, nbytes: int) -> None:
        """So many reads more are under way, or less, and hold so many bytes more, or less."""


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
        """What a base shows of a table, opened once.

        A branch that was deleted and made again has the same names and numbers, and another
        identifier; so it is part of what a handle is kept by.
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
        """Remember the handle of a version we made ourselves."""
        owner = handle.ref.branch or "main"
        self._keep((handle.ref.path, owner, str(handle.version), base.identifier), handle)

    def fsync_version(self, handle: Handle, base: Base, *, onto: Version) -> None:
        """Flush what others wrote of a version of ours: they may be relaxed, or died before they
        did (D11). Our own commits, which made it from `onto`, were flushed as they landed.
        """
        place = (handle.ref.path, handle.ref.branch or "main", base.identifier)
        with self._lock:
            known = self._durable.get(place)
        if known is None or known.version != onto:
            self.stores.tables.fsync_version(handle, beyond=known)
        with self._lock:
            self._durable[place] = handle

    def _keep(self, key: tuple[str, ...], handle: Handle) -> None:
        with self._lock:
            self._handles[key] = handle
