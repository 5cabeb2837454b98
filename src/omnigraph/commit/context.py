"""What the writers of one graph share in a process: stores, bases, queues, leases, handles."""

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final

from cachetools import LRUCache

from omnigraph.commit.afterwards import Afterwards
from omnigraph.commit.leases.holder import Leases
from omnigraph.commit.leases.lease import DEFAULT_TIMING, Timing
from omnigraph.commit.leases.owner import Owner
from omnigraph.commit.leases.process_queues import ProcessQueues
from omnigraph.commit.manifest.base import MAIN_IDENTIFIER, Base, Bases
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.ids import MAIN, Version
from omnigraph.storage.durability import FlushWaves
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

    def grouped(self, writes: int) -> None:
        """So many writes were published together."""

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
        is_grouping: bool = False,
    ) -> None:
        self.stores = stores
        self.bases = bases
        self.timing = timing
        self.queues = ProcessQueues()
        self.leases = Leases(
            stores.volatile, stores.effects, timing, owner, is_caching=stores.is_remote
        )
        self.afterwards = Afterwards(is_remote=stores.is_remote)
        self.observe = observe
        self.meter = meter
        self.is_grouping = is_grouping
        """Do writes of this process share attempts (D29)?"""
        self._handles: LRUCache[tuple[str, ...], Handle] = LRUCache(HANDLES_KEPT_MAX)
        self._durable: LRUCache[tuple[str, ...], Handle] = LRUCache(DURABLE_KEPT_MAX)
        self._moves: LRUCache[tuple[str, str], tuple[Version, Version]] = LRUCache(DURABLE_KEPT_MAX)
        self._lock = Lock()

    def close(self) -> None:
        """Finish the work that follows writes, and release every cached lease."""
        self.afterwards.close()
        self.leases.close()

    def open_pin(self, pin: Pin, base: Base) -> Handle:
        """Open a table of a base, through a cache.

        The cache key of a branch's own table includes the identifier of the branch: a branch that
        was deleted and created again has the same names and version numbers.
        """
        key = _version_key(pin.path, pin.owner, pin.version, base)
        with self._lock:
            known = self._handles.get(key)
        if known is not None:
            return known
        handle = open_pin(self.stores, pin)
        self._keep(key, handle)
        return handle

    def keep(self, handle: Handle, base: Base) -> None:
        """Cache the handle of a version that this process committed."""
        owner = handle.ref.branch or MAIN
        self._keep(_version_key(handle.ref.path, owner, handle.version, base), handle)

    def record_move(self, handle: Handle, base: Base, *, onto: Version) -> None:
        """Remember that this process moved a table of a branch, from version `onto`."""
        table = (handle.ref.path, base.identifier)
        with self._lock:
            first, last = self._moves.get(table, (onto, onto))
            self._moves[table] = (first if last == onto else onto, Version(handle.version))

    def is_moved_here(self, before: Pin | None, now: Pin | None, base: Base) -> bool:
        """Did only this process move the table in between? False if writes share no attempts."""
        if not self.is_grouping or before is None or now is None or before.path != now.path:
            return False
        with self._lock:
            first, last = self._moves.get((now.path, base.identifier), (None, None))
        return first is not None and first <= before.version and last == now.version

    def flush_versions(
        self, waves: FlushWaves, reached: Iterable[tuple[Handle, Version]], base: Base
    ) -> None:
        """Flush the versions that an attempt reached, each with the version it started from.

        The commits of the attempt are in the wave already. What lies below them may have been left
        unflushed by other writers, and joins the wave unless this process knows better (D11).
        """
        versions = list(reached)
        for handle, onto in versions:
            with self._lock:
                known = self._durable.get(_table(handle, base))
            if known is None or known.version != onto:
                self.stores.tables.fsync_version(handle, beyond=known, waves=waves)
        self.stores.tables.flush_wave(waves)
        with self._lock:
            for handle, _ in versions:
                self._durable[_table(handle, base)] = handle

    def _keep(self, key: tuple[str, ...], handle: Handle) -> None:
        with self._lock:
            self._handles[key] = handle


def _version_key(path: str, owner: str, version: int, base: Base) -> tuple[str, ...]:
    """Main is never deleted: every branch shows the same versions of main."""
    return (path, owner, str(version), MAIN_IDENTIFIER if owner == MAIN else base.identifier)


def _table(handle: Handle, base: Base) -> tuple[str, ...]:
    return (handle.ref.path, handle.ref.branch or "main", base.identifier)
