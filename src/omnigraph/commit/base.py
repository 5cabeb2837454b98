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

from omnigraph.commit.legacy import read_legacy_commits
from omnigraph.commit.manifest import SCHEMA, Manifest, read_manifest
from omnigraph.commit.stamp import LINEAGE_IN_MANIFEST, check_stamp, read_stamp
from omnigraph.errors import BranchNotFound
from omnigraph.ids import MAIN, BranchName, Version, lance_branch
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, ScanRequest, TableRef

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
    known = read_legacy_commits(stores, branch)
    shown = tuple(each for each in known if each.manifest_version <= handle.version)
    return replace(manifest, log=replace(manifest.log, added=shown))


class Bases:
    """The newest base this process knows of each branch. Safe to share among threads."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._known: dict[BranchName, Base] = {}
        self._lock = Lock()

    def current(self, branch: BranchName) -> Base:
        """The branch as it is now; scanned only if it moved since it was last seen."""
        with self._lock:
            known = self._known.get(branch)
        if known is not None and self._is_current(known):
            return known
        return self.reread(branch)

    def reread(self, branch: BranchName) -> Base:
        """The branch as it is now, whatever was known before."""
        base = read_base(self._stores, branch)
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

    def _is_current(self, known: Base) -> bool:
        try:
            identifier = find_incarnation(self._stores, known.manifest.branch)
        except BranchNotFound:
            self.forget(known.manifest.branch)
            raise
        if identifier != known.identifier:
            return False
        return self._stores.tables.probe(known.handle) == known.handle.version
