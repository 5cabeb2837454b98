"""Reading a branch: the handle of its manifest, and what the manifest says there.

A writer validates against a `Base` and publishes with the very handle of it. A `Bases` keeps the
newest one of each branch, and asks the store only whether there is a newer.

1. A name is not a branch: one that was deleted and made again has another identifier, and nothing
   that was read of the old one is used for the new one.
2. Whether a branch exists is decided by the list of branches, never by an error while opening it.
"""

from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from cachetools import LRUCache

from omnigraph.commit.compat.legacy import read_legacy_commits
from omnigraph.commit.manifest.model import SCHEMA, Manifest, read_manifest, read_on
from omnigraph.commit.manifest.stamp import LINEAGE_IN_MANIFEST, check_stamp, read_stamp
from omnigraph.errors import BranchNotFound, NotFoundError
from omnigraph.ids import MAIN, BranchName, Version, lance_branch
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, ScanRequest, TableRef

BASES_KEPT_MAX: Final = 1_024
"""Of how many branches it is known what they show; to forget one costs reading its manifest."""

MAIN_IDENTIFIER: Final = ""
"""Main is never deleted, so it needs no identifier."""

# `base_objects` is always null and never read.
_COLUMNS: Final = tuple(name for name in SCHEMA.names if name != "base_objects")


@dataclass(frozen=True, slots=True)
class Base:
    """A branch as it was at one moment."""

    handle: Handle
    manifest: Manifest
    identifier: str
    durable: Handle | None = None
    """The newest version of it that this process knows to have reached the disk."""


def manifest_ref(branch: BranchName) -> TableRef:
    return TableRef(MANIFEST, lance_branch(branch))


def find_incarnation(stores: Stores, branch: BranchName) -> str:
    """The identifier of a branch that exists. Raises BranchNotFound."""
    if branch == MAIN:
        return MAIN_IDENTIFIER
    found = stores.tables.find_branch(MANIFEST, branch)
    if found is None:
        raise BranchNotFound(branch)
    return found.identifier


def read_base(stores: Stores, branch: BranchName) -> Base:
    """Open a branch as it is now, and scan its manifest.

    Raises BranchNotFound, FormatTooNew, FormatTooOld.
    """
    identifier = find_incarnation(stores, branch)
    handle = stores.tables.open_at(manifest_ref(branch))
    check_stamp(handle, branch)
    return Base(handle, scan_manifest(stores, handle, branch), identifier)


def find_newest(stores: Stores, known: Base) -> Version | None:
    """The version a branch is at now; None if it is not the branch it was. Raises BranchNotFound.

    Later versions are looked for one by one from the known one, because a listing costs more with
    every version there ever was.
    """
    if find_incarnation(stores, known.manifest.branch) != known.identifier:
        return None
    return Version(stores.tables.probe(known.handle))


def advance(stores: Stores, known: Base, newest: Version) -> Base:
    """The branch at a later version: what is new since `known`, read on top of it.

    Raises BranchNotFound, FormatTooNew, FormatTooOld.
    """
    branch = known.manifest.branch
    try:
        handle = stores.tables.open_at(manifest_ref(branch), newest)
    except NotFoundError:  # cleaned up just now, or gone with its branch
        return read_base(stores, branch)
    check_stamp(handle, branch)
    manifest = _read_on(stores, known, handle) or scan_manifest(stores, handle, branch)
    return Base(handle, manifest, known.identifier, known.durable)


def _read_on(stores: Stores, known: Base, handle: Handle) -> Manifest | None:
    """Read only the files written since `known`; None if that does not tell all.

    A publish replaces one row, the head, and nothing is ever taken out of a manifest. So whatever
    was in a file that is gone was written to another one, and is read again from there. Where more
    rows are missing from the files that are still there, something else was replaced.
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
    return read_on(known.manifest, rows, version=Version(handle.version))


def read_past(stores: Stores, branch: BranchName, version: Version) -> Manifest:
    """What a branch showed at a version of its manifest.

    The stamp is not checked: it is set after the first version is written, and what a past version
    says about the format was said by the program that wrote it. Raises BranchNotFound, or
    VersionNotFound when that version was cleaned up.
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
    """The newest base this process knows of each branch. Safe to share among threads."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._known: LRUCache[BranchName, Base] = LRUCache(BASES_KEPT_MAX)
        self._lock = Lock()
        self._reading: LRUCache[BranchName, Lock] = LRUCache(BASES_KEPT_MAX)
        """Of all threads that see a branch move, one reads what is new; the others wait for it."""

    def current(self, branch: BranchName) -> Base:
        """The branch as it is now; read only if it moved since it was last seen."""
        known = self.known(branch)
        if known is None:
            return self.reread(branch)
        try:
            newest = find_newest(self._stores, known)
            if newest == known.handle.version:
                return self._kept(known)
            return self._advance(branch, newest)
        except BranchNotFound:
            self.forget(branch)
            raise

    def _advance(self, branch: BranchName, newest: Version | None) -> Base:
        with self._lock:
            turn = self._reading.setdefault(branch, Lock())
        with turn:
            known = self.known(branch)
            if known is None or newest is None:
                return self.reread(branch)
            if known.handle.version >= newest:
                return known
            return self._kept(advance(self._stores, known, newest))

    def after(self, lost: Base) -> Base:
        """The branch as it is now, for somebody who lost a race that started at `lost`.

        Should versions in between have been cleaned up, looking for the next one finds nothing.
        """
        base = self.current(lost.manifest.branch)
        if base.handle.version > lost.handle.version or base.identifier != lost.identifier:
            return base
        return self.reread(lost.manifest.branch)

    def reread(self, branch: BranchName) -> Base:
        """The branch as it is now, whatever was known before."""
        return self._kept(read_base(self._stores, branch))

    def known(self, branch: BranchName) -> Base | None:
        """The branch as it was last seen, without asking the store."""
        with self._lock:
            return self._known.get(branch)

    def _kept(self, base: Base) -> Base:
        self.remember(base)
        return base

    def remember(self, base: Base) -> None:
        """Keep a base that was read or published, unless a newer one is known."""
        branch = base.manifest.branch
        with self._lock:
            known = self._known.get(branch)
            if (
                known is None
                or known.identifier != base.identifier
                or known.handle.version <= base.handle.version
            ):
                self._known[branch] = base

    def forget(self, branch: BranchName) -> None:
        with self._lock:
            self._known.pop(branch, None)
