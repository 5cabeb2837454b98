"""Re-rooting: a graph that was moved or copied reads its branches from its new place (D33).

A branch records the absolute path of the files that it inherits, in the file of each of its
versions. After a move these paths name the old place, where there may be another graph, or none.
Re-rooting replaces the recorded paths in every version of every branch.

1. The identity of the graph names the old place until the last version is rewritten. So it records
   the unfinished work: a process that dies is followed by the next open for writing.
2. Each version file is replaced by compare-and-swap, as a whole. A file with its new paths is left
   as it is, so the work may be repeated from any point.
3. Readers need not wait: a store that only reads maps the recorded paths (`maps_bases`), whichever
   half of the versions is rewritten.
4. One process re-roots at a time, under a lease. It waits until no lease of another operation is
   alive. The lease of a writer of the old place, copied with the graph, is never renewed here and
   expires. A lease that is renewed belongs to a writer that reaches this very graph by another
   path, and re-rooting gives up.
5. The graph gets a new id, so that its change feed refuses the cursors of the original.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.identity import (
    GraphIdentity,
    read_identity,
    write_identity,
)
from omnigraph.commit.recovery.heal import lease
from omnigraph.errors import (
    LeaseHeld,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    TableCorrupt,
)
from omnigraph.ids import MAIN, TableKey
from omnigraph.storage.layout import (
    BRANCH_TREE,
    LEASES,
    LEGACY_COMMITS,
    MANIFEST,
    TYPE_FOLDERS,
    VERSIONS,
    parse_lease_key,
)
from omnigraph.storage.objects import StoredObject
from omnigraph.storage.stores import Stores

RELOCATION_LOCK_KEY: Final = LockKey(TableKey("relocation"), MAIN)

_POLL_MS: Final = 100
_THREADS_IN_A_BUCKET: Final = 8

_VERSION_FILE: Final = re.compile(rf"/{VERSIONS}/[^/]+\.manifest$")


class VersionFileKey(NamedTuple):
    path: str
    """The table."""
    key: str


Progress = Callable[[int, int], None]
"""Called with the number of versions that were looked at, and the number of all."""


@dataclass(frozen=True, slots=True)
class RelocateResult:
    """What re-rooting did."""

    uri: str
    previous_uri: str | None
    """The place that the graph was moved from; None if it was not moved."""
    graph_id: str
    versions: int
    """How many versions of branches there are."""
    versions_rewritten: int


def relocate(
    context: WriteContext, progress: Progress = lambda _done, _total: None
) -> RelocateResult:
    """Re-root every branch. May be repeated at any time; costs a reading of each version.

    Raises LeaseHeld while a writer works here, and GraphRelocated if a branch inherits files of
    another table.
    """
    unmoved = _Relocation(context, progress).check_unmoved()
    if unmoved is not None:
        return unmoved
    timing = context.leases.timing
    with lease(context, RELOCATION_LOCK_KEY, wait_ms_max=timing.wait_ms_max) as held:
        _wait_for_writers(context)
        return _Relocation(context, progress, held.check).run()


class _Relocation:
    def __init__(
        self,
        context: WriteContext,
        progress: Progress,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.stores = context.stores
        self.progress = progress
        self.check = check
        commits = context.bases.current(MAIN).manifest.log.commits
        self.first_commit = commits[0].id if commits else self.stores.effects.new_id()
        self.known = read_identity(self.stores.objects)

    def check_unmoved(self) -> RelocateResult | None:
        """Record the place of a graph that was not moved; None if there is work to do."""
        files = list(_find_version_files(self.stores))
        if self._is_moved() or any(map(self._is_stale, files)):
            return None
        graph_id = self._complete().graph_id
        return RelocateResult(self.stores.root.uri, None, graph_id, len(files), 0)

    def run(self) -> RelocateResult:
        unmoved = self.check_unmoved()
        if unmoved is not None:
            return unmoved  # another process was first
        files = list(_find_version_files(self.stores))
        if not self._is_moved():
            # (1) Without this record, a repetition would find nothing to do and keep the old id.
            unknown = GraphIdentity(self._graph_id(), uri="")
            self.known = write_identity(self.stores.objects, unknown, self.known)
        rewritten = 0
        for done, is_rewritten in enumerate(self._reroot_all(files), 1):
            rewritten += is_rewritten
            self.progress(done, len(files))
        previous = self.known.identity.uri if self.known and self._is_moved() else None
        identity = self._complete()
        return RelocateResult(
            self.stores.root.uri, previous or None, identity.graph_id, len(files), rewritten
        )

    def _is_moved(self) -> bool:
        return self.known is not None and not self.known.identity.is_at(self.stores.root)

    def _graph_id(self) -> str:
        return self.first_commit if self.known is None else self.known.identity.graph_id

    def _is_stale(self, file: VersionFileKey) -> bool:
        return self._read_moved(file) is not None

    def _read_moved(self, file: VersionFileKey) -> tuple[StoredObject, bytes] | None:
        """A version file and its re-rooted bytes; None if it is at this root or cannot be read.

        A version that a power cut tore is left to recovery, which removes it.
        """
        try:
            stored = self.stores.objects.read(file.key)
            data = self.stores.tables.reroot(file.path, stored.data)
        except (ObjectNotFound, TableCorrupt):
            return None
        return None if data == stored.data else (stored, data)

    def _reroot_all(self, files: Sequence[VersionFileKey]) -> Iterator[bool]:
        if not self._is_moved():
            return iter(())
        if self.stores.root.is_local:
            return map(self._reroot, files)
        with ThreadPoolExecutor(_THREADS_IN_A_BUCKET) as pool:
            return iter(list(pool.map(self._reroot, files)))

    def _reroot(self, file: VersionFileKey) -> bool:
        """(2) Returns whether the version had to be rewritten."""
        while (found := self._read_moved(file)) is not None:
            stored, data = found
            self.check()
            with suppress(ObjectChanged):
                self.stores.objects.put_if_match(file.key, data, tag=stored.tag)
                return True
        return False

    def _complete(self) -> GraphIdentity:
        """(5) The last step: from now on the graph is at this place."""
        if self.known is not None and not self._is_moved():
            return self.known.identity
        graph_id = self.stores.effects.new_id() if self._is_moved() else self._graph_id()
        here = GraphIdentity(graph_id, self.stores.root.uri)
        try:
            return write_identity(self.stores.objects, here, self.known).identity
        except ObjectExists:
            # Another process recorded the place of a graph that was not moved.
            found = read_identity(self.stores.objects)
            assert found is not None, "no operation deletes it"
            return found.identity


def _find_version_files(stores: Stores) -> Iterator[VersionFileKey]:
    """The version files of all branches of all tables, forks of deleted branches included."""
    for table in (MANIFEST, LEGACY_COMMITS):
        for listed in stores.objects.list(f"{table}/{BRANCH_TREE}"):
            if _VERSION_FILE.search(listed.key):
                yield VersionFileKey(table, listed.key)
    for folder in TYPE_FOLDERS:
        for listed in stores.objects.list(folder):
            table, tree, _ = listed.key.partition(f"/{BRANCH_TREE}/")
            if tree and _VERSION_FILE.search(listed.key):
                yield VersionFileKey(table, listed.key)


def _wait_for_writers(context: WriteContext) -> None:
    """(4) Raises LeaseHeld."""
    effects, objects = context.stores.effects, context.stores.volatile
    deadline_ms = effects.monotonic_ms() + context.leases.timing.wait_ms_max
    for listed in objects.list(LEASES):
        named = parse_lease_key(listed.key)
        lock_key = None if named is None else LockKey(TableKey(named[0]), named[1])
        if lock_key is None or lock_key == RELOCATION_LOCK_KEY:
            continue
        while (holder := context.leases.find_holder(lock_key)) is not None:
            if effects.monotonic_ms() >= deadline_ms:
                age_ms = objects.clock_ms() - listed.modified_ms
                raise LeaseHeld(
                    lock_key.table,
                    branch=lock_key.branch,
                    owner=f"operation {holder}",
                    age_ms=max(0, age_ms),
                )
            effects.sleep_ms(_POLL_MS)
