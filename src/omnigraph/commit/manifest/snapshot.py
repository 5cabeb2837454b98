"""What a reader holds: one commit, and the version of every table it shows.

A snapshot never changes. Opening a table of it always gives the same rows, whatever writers do.
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
"""The table format has no number for more."""

SLIPS_MAX: Final = 4
"""How many changes of settings may have slipped in front of one publish."""


@dataclass(frozen=True, slots=True)
class ManifestSnapshot:
    """One consistent view of all tables."""

    branch: BranchName
    manifest_version: Version
    commit: Commit | None
    """The newest commit it shows; a graph from before lineage was kept in the manifest has none."""
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
    """A branch as its manifest stood at a version. Raises VersionNotFound, BranchNotFound."""
    if not 0 < version <= VERSION_MAX:
        raise VersionNotFound(MANIFEST, branch=lance_branch(branch), version=version)
    return snapshot_of(read_past(stores, branch, version))


def snapshot_at_commit(stores: Stores, commit: Commit) -> ManifestSnapshot:
    """The graph as a commit left it.

    A publish that a change of settings slipped in front of lands further on than it recorded, and
    puts its record right afterwards; if it died in between, the version is looked for.

    Raises VersionNotFound when it was cleaned up, BranchNotFound when its branch was deleted, and
    ManifestCorrupt when the version it records does not hold it.
    """
    for slipped in range(1 + SLIPS_MAX):
        version = Version(commit.manifest_version + slipped)
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
    """A commit, looked for on each branch in turn. Raises CommitNotFound."""
    for branch in branches:
        found = bases.current(branch).manifest.log.find(commit_id)
        if found is not None:
            return found
    raise CommitNotFound(commit_id)


def open_pin(stores: Stores, pin: Pin) -> Handle:
    """The rows a snapshot shows of one table."""
    return stores.tables.open_at(TableRef(pin.path, lance_branch(pin.owner)), pin.version)


def describe_table(stores: Stores, key: TableKey, handle: Handle) -> TableVersion:
    """What a manifest row says of a version of a table."""
    file = stores.tables.locate_version(handle)
    return TableVersion(
        key,
        Version(handle.version),
        graph_branch(handle.ref.branch),
        handle.row_count,
        VersionFile(file.path, file.size_bytes, file.tag),
    )
