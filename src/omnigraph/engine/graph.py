"""An open graph: branches, commits and snapshots of one root.

A `Graph` holds no branch: every call names the one it means. It is safe to share among threads.
"""

from dataclasses import dataclass
from enum import Enum

from omnigraph.catalog.model import Catalog
from omnigraph.commit import refs
from omnigraph.commit.base import Bases, manifest_ref
from omnigraph.commit.records import Commit
from omnigraph.commit.refs import Deleted
from omnigraph.commit.snapshot import (
    Snapshot,
    find_commit,
    open_pin,
    snapshot_at_commit,
    snapshot_at_version,
    snapshot_of,
)
from omnigraph.engine.contract import Contract
from omnigraph.errors import OpenedReadOnly
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version, parse_branch
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle


class Mode(Enum):
    READ_WRITE = "read_write"
    READ_ONLY = "read_only"
    """Nothing is ever written: no migration, no recovery, no repair."""


@dataclass(frozen=True, slots=True)
class CommitFilter:
    """Which commits to list. None leaves a fact open; an empty actor means «without one»."""

    actor: str | None = None
    since_us: int | None = None
    limit: int | None = None

    def accepts(self, commit: Commit) -> bool:
        if self.actor is not None and (commit.actor or "") != self.actor:
            return False
        return self.since_us is None or commit.created_at_us >= self.since_us


EVERY_COMMIT = CommitFilter()


class Graph:
    """Make one with `opening.create` or `opening.open_graph`."""

    def __init__(self, stores: Stores, bases: Bases, contract: Contract, mode: Mode) -> None:
        self._stores = stores
        self._bases = bases
        self._contract = contract
        self._mode = mode

    @property
    def uri(self) -> str:
        return self._stores.root.uri

    @property
    def mode(self) -> Mode:
        return self._mode

    @property
    def catalog(self) -> Catalog:
        return self._contract.catalog

    @property
    def schema_source(self) -> str:
        return self._contract.source

    # reading

    def snapshot(self, branch: BranchName = MAIN) -> Snapshot:
        """The branch as it is now. Raises BranchNotFound."""
        return snapshot_of(self._bases.current(branch).manifest)

    def snapshot_at_commit(self, commit_id: CommitId) -> Snapshot:
        """Raises CommitNotFound; VersionNotFound when it was cleaned up."""
        return snapshot_at_commit(self._stores, self.commit(commit_id))

    def snapshot_at_version(self, branch: BranchName, version: Version) -> Snapshot:
        """Raises BranchNotFound, VersionNotFound."""
        return snapshot_at_version(self._stores, branch, version)

    def open_table(self, snapshot: Snapshot, key: TableKey) -> Handle:
        """The rows a snapshot shows of one table. Raises TableUnknown."""
        return open_pin(self._stores, snapshot.pin(key))

    # commits

    def commits(
        self, branch: BranchName = MAIN, where: CommitFilter = EVERY_COMMIT
    ) -> tuple[Commit, ...]:
        """The history of a branch, newest first. Raises BranchNotFound."""
        history = reversed(self._bases.current(branch).manifest.log.commits)
        return tuple(each for each in history if where.accepts(each))[: where.limit]

    def commit(self, commit_id: CommitId) -> Commit:
        """A commit of any branch. Raises CommitNotFound."""
        return find_commit(self._bases, self.branches(), commit_id)

    # branches

    def branches(self) -> tuple[BranchName, ...]:
        """Main first, then the others by name."""
        return refs.find_branches(self._stores)

    def create_branch(
        self, name: str, *, source: BranchName = MAIN, commit_id: CommitId | None = None
    ) -> BranchName:
        """A branch that starts as another one is now, or as a commit left the graph.

        Raises BranchExists, BranchNameInvalid, BranchNotFound, CommitNotFound, SchemaLocked.
        """
        self.check_writable()
        branch = parse_branch(name)
        refs.create_branch(self._stores, branch, self._fork_point(source, commit_id))
        return branch

    def _fork_point(self, source: BranchName, commit_id: CommitId | None) -> Handle:
        if commit_id is None:
            return self._bases.current(source).handle
        commit = self.commit(commit_id)
        snapshot_at_commit(self._stores, commit)
        return self._stores.tables.open_at(manifest_ref(commit.branch), commit.manifest_version)

    def delete_branch(self, name: str) -> Deleted:
        """Raises BranchNotFound, BranchInUse, BranchNameInvalid, SchemaLocked."""
        self.check_writable()
        return refs.delete_branch(self._stores, self._bases, parse_branch(name))

    def check_writable(self) -> None:
        """Raises OpenedReadOnly."""
        if self._mode is Mode.READ_ONLY:
            raise OpenedReadOnly(self.uri)
