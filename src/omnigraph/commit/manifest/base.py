"""Reading a branch: the handle of its manifest, and the manifest at that version.

A writer validates against a `Base` and publishes with the handle of that `Base`. A `Bases` caches
the newest base of each branch, and asks the store only whether a newer version exists.

1. A name does not identify a branch. A branch that was deleted and created again has another
   identifier, and nothing that was read of the old branch is used for the new one.
2. The list of branches decides whether a branch exists, never an error while opening it.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from cachetools import LRUCache

from omnigraph.commit.compat.legacy import read_legacy_commits
from omnigraph.commit.manifest.model import SCHEMA, Manifest, extend_manifest, read_manifest
from omnigraph.commit.manifest.stamp import LINEAGE_IN_MANIFEST, check_stamp, read_stamp
from omnigraph.errors import BranchNotFound, NotFoundError
from omnigraph.ids import MAIN, BranchName, Version, lance_branch
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, ScanRequest, TableRef

BASES_KEPT_MAX: Final = 1_024
"""The number of cached branches. A dropped branch costs one scan of its manifest."""

MAIN_IDENTIFIER: Final = ""
"""Main is never deleted, so it needs no identifier."""

# `base_objects` is always null and never read.
_COLUMNS: Final = tuple(name for name in SCHEMA.names if name != "base_objects")


@dataclass(frozen=True, slots=True)
class Base:
    """A branch at one version of its manifest."""

    handle: Handle
    manifest: Manifest
    identifier: str
    durable: Handle | None = None
    """The newest version that this process knows to have reached the disk."""


def manifest_ref(branch: BranchName) -> TableRef:
    return TableRef(MANIFEST, lance_branch(branch))


def find_incarnation(stores: Stores, branch: BranchName) -> str:
    """The identifier of a branch. Raises BranchNotFound."""
    if branch == MAIN:
        return MAIN_IDENTIFIER
    found = stores.tables.find_branch(MANIFEST, branch)
    if found is None:
        raise BranchNotFound(branch)
    return found.identifier


def read_base(stores: Stores, branch: BranchName) -> Base:
    """Open the newest version of a branch, and scan its manifest.

    Raises BranchNotFound, FormatTooNew, FormatTooOld.
    """
    identifiers: list[str] = []
    handles: list[Handle] = []
    stores.together(
        [
            # (2) Its failure is the one that is raised.
            lambda: identifiers.append(find_incarnation(stores, branch)),
            lambda: handles.append(stores.tables.open_at(manifest_ref(branch))),
        ]
    )
    (identifier,), (handle,) = identifiers, handles
    check_stamp(handle, branch)
    return Base(handle, scan_manifest(stores, handle, branch), identifier)


def find_newest(stores: Stores, known: Base) -> Version | None:
    """The newest version of a branch; None if the branch was deleted and created again.

    Probes the versions after the known one, because a listing grows with the history. Raises
    BranchNotFound.
    """
    if known.manifest.branch == MAIN:
        return Version(stores.tables.probe(known.handle))
    found: list[str] = []
    newest: list[int] = []
    stores.together(
        [
            lambda: found.append(find_incarnation(stores, known.manifest.branch)),
            lambda: newest.append(stores.tables.probe(known.handle)),
        ]
    )
    return Version(newest[0]) if found[0] == known.identifier else None


def advance(stores: Stores, known: Base, newest: Version) -> Base:
    """The branch at a later version: reads only what is new since `known`.

    Raises BranchNotFound, FormatTooNew, FormatTooOld.
    """
    branch = known.manifest.branch
    try:
        handle = stores.tables.open_at(manifest_ref(branch), newest)
    except NotFoundError:  # cleaned up, or deleted with its branch
        return read_base(stores, branch)
    check_stamp(handle, branch)
    manifest = _read_added(stores, known, handle) or scan_manifest(stores, handle, branch)
    return Base(handle, manifest, known.identifier, known.durable)


def _read_added(stores: Stores, known: Base, handle: Handle) -> Manifest | None:
    """Read only the files written since `known`; None if those files are not enough.

    A publish replaces one row, the head, and never removes a row. The rows of a file that is gone
    were therefore written to a new file. If the remaining files lost more than one row, a write
    other than a publish replaced rows.
    """
    if read_stamp(known.handle) < LINEAGE_IN_MANIFEST or known.manifest.head is None:
        return None
    before = {each.files: each for each in stores.tables.find_fragments(known.handle)}
    after = {each.files: each for each in stores.tables.find_fragments(handle)}
    added = [each.fragment_id for files, each in after.items() if files not in before]
    replaced = sum(
        before[files].row_count - each.row_count for files, each in after.items() if files in before
    )
    if not added or replaced > 1:
        return None
    rows = stores.tables.read(handle, ScanRequest(columns=_COLUMNS, fragment_ids=tuple(added)))
    return extend_manifest(known.manifest, rows, version=Version(handle.version))


def read_past(stores: Stores, branch: BranchName, version: Version) -> Manifest:
    """A past version of a branch's manifest.

    The stamp is not checked: a program sets it after it wrote the first version. Raises
    BranchNotFound, or VersionNotFound if the version was cleaned up.
    """
    find_incarnation(stores, branch)
    return scan_manifest(stores, stores.tables.open_at(manifest_ref(branch), version), branch)


def scan_manifest(stores: Stores, handle: Handle, branch: BranchName) -> Manifest:
    rows = stores.tables.read(handle, ScanRequest(columns=_COLUMNS))
    manifest = read_manifest(rows, branch=branch, version=Version(handle.version))
    if read_stamp(handle) >= LINEAGE_IN_MANIFEST or manifest.head is not None:
        return manifest
    known = read_legacy_commits(stores, handle)
    shown = tuple(each for each in known if each.manifest_version <= handle.version)
    return replace(manifest, log=replace(manifest.log, added=shown))


class Bases:
    """A cache of the newest base of each branch. Safe to share among threads."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._known: OrderedDict[BranchName, Base] = OrderedDict()
        """The least recently used first."""
        self._lock = Lock()
        self._reading: LRUCache[BranchName, Lock] = LRUCache(BASES_KEPT_MAX)
        """If several threads see a branch move, one reads the new version and the others wait."""

    def current(self, branch: BranchName) -> Base:
        """The newest version of the branch; read only if the branch moved."""
        known = self.known(branch)
        if known is None:
            return self.reread(branch)
        try:
            newest = find_newest(self._stores, known)
            if newest == known.handle.version:
                return known
            return self._advance(branch, newest)
        except BranchNotFound:
            self.forget(branch)
            raise

    def _advance(self, branch: BranchName, newest: Version | None) -> Base:
        with self._lock:
            reading = self._reading.setdefault(branch, Lock())
        with reading:
            known = self.known(branch)
            if known is None or newest is None:
                return self.reread(branch)
            if known.handle.version >= newest:
                return known
            return self._cache(advance(self._stores, known, newest))

    def after(self, lost: Base) -> Base:
        """The newest version of the branch, after a swap on top of `lost` was refused.

        A cleanup may have removed the versions in between; a probe then finds no newer version.
        """
        base = self.current(lost.manifest.branch)
        if base.handle.version > lost.handle.version or base.identifier != lost.identifier:
            return base
        return self.reread(lost.manifest.branch)

    def reread(self, branch: BranchName) -> Base:
        """The newest version of the branch, without the cache."""
        return self._cache(read_base(self._stores, branch))

    def known(self, branch: BranchName) -> Base | None:
        """The cached base, without I/O."""
        with self._lock:
            known = self._known.get(branch)
            if known is not None:
                self._known.move_to_end(branch)
            return known

    def _cache(self, base: Base) -> Base:
        self.remember(base)
        return base

    def remember(self, base: Base) -> None:
        """Cache a base, unless a newer one of the same branch is cached."""
        branch = base.manifest.branch
        with self._lock:
            known = self._known.get(branch)
            if (
                known is None
                or known.identifier != base.identifier
                or known.handle.version <= base.handle.version
            ):
                self._known[branch] = base
                self._known.move_to_end(branch)
                while len(self._known) > BASES_KEPT_MAX:
                    self._known.popitem(last=False)

    def forget(self, branch: BranchName) -> None:
        with self._lock:
            self._known.pop(branch, None)
