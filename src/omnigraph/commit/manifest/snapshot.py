"""A snapshot: one commit, and the version of every table that it shows.

A snapshot never changes. A table of a snapshot has the same rows whatever writers do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.commit.manifest.base import Bases, read_past
from omnigraph.commit.manifest.model import Manifest, Pin, TableVersion
from omnigraph.commit.manifest.records import Commit, VersionFile
from omnigraph.errors import CommitNotFound, ManifestCorrupt, TableUnknown, VersionNotFound
from omnigraph.ids import (
    BranchName,
    CommitId,
    TableKey,
    Version,
    graph_branch,
    lance_branch,
)
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, TableRef

VERSION_MAX: Final = 2**63 - 1
"""The greatest version number of the table format."""

SLIPS_MAX: Final = 4
"""How many changes of settings may have landed right before one publish."""


@dataclass(frozen=True, slots=True)
class ManifestSnapshot:
    """One consistent view of all tables."""

    branch: BranchName
    manifest_version: Version
    commit: Commit | None
    """The head; None for a graph so old that it kept no commits."""
    pins: Mapping[TableKey, Pin]

    def pin(self, key: TableKey) -> Pin:
        """Raises TableUnknown."""
        try:
            return self.pins[key]
        except KeyError:
            raise TableUnknown(key) from None


def snapshot_of(manifest: Manifest) -> ManifestSnapshot:
    return ManifestSnapshot(manifest.branch, manifest.version, manifest.head, manifest.pins)


def snapshot_at_version(stores: Stores, branch: BranchName, version: Version) -> ManifestSnapshot:
    """A branch at a version of its manifest. Raises VersionNotFound, BranchNotFound."""
    if not 0 < version <= VERSION_MAX:
        raise VersionNotFound(MANIFEST, branch=lance_branch(branch), version=version)
    return snapshot_of(read_past(stores, branch, version))


def snapshot_at_commit(stores: Stores, commit: Commit) -> ManifestSnapshot:
    """The graph at a commit.

    A publish lands at a later version than it recorded if a change of settings landed before it.
    It corrects the record afterwards. If it died in between, the later versions are searched.

    Raises VersionNotFound if the version was cleaned up, BranchNotFound if the branch was deleted,
    and ManifestCorrupt if the recorded version does not hold the commit.
    """
    for later in range(1 + SLIPS_MAX):
        version = Version(commit.manifest_version + later)
        manifest = read_past(stores, commit.branch, version)
        if manifest.head is None or manifest.log.find(commit.id) is not None:
            return snapshot_of(manifest)
        if manifest.head.manifest_version > commit.manifest_version:
            break
    raise ManifestCorrupt(
        commit.id,
        reason=f"version {commit.manifest_version} of '{commit.branch}' does not show it",
    )


def find_commit(bases: Bases, branches: "tuple[BranchName, ...]", commit_id: CommitId) -> Commit:
    """Search each branch in turn. Raises CommitNotFound."""
    for branch in branches:
        found = bases.current(branch).manifest.log.find(commit_id)
        if found is not None:
            return found
    raise CommitNotFound(commit_id)


def open_pin(stores: Stores, pin: Pin) -> Handle:
    """Open one table of a snapshot."""
    return stores.tables.open_at(TableRef(pin.path, lance_branch(pin.owner)), pin.version)


def describe_table(stores: Stores, key: TableKey, handle: Handle) -> TableVersion:
    """The manifest entry of a table version."""
    file = stores.tables.locate_version(handle)
    return TableVersion(
        key,
        Version(handle.version),
        graph_branch(handle.ref.branch),
        handle.row_count,
        VersionFile(file.path, file.size_bytes, file.tag),
    )
