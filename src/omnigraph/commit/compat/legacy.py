"""Commits of graphs older than format 4, which kept them in tables of their own.

`_graph_commits.lance` was branched with the graph, `_graph_commit_actors.lance` never was. The
programs of that time moved the manifest first and wrote the commit afterwards.

1. Only a table that never existed means "no commits". Every other failure is raised, also for a
   table that has rows and no versions: going on without them would lose history.
2. A branch without its own part of the table has its parent's history, if it published nothing. If
   it published, its commits are missing, and that is an error.
3. A branch shares its parent's commits up to the version at which it was forked. Its part of the
   table may hold later commits, because the table was forked at its newest version even if the
   branch starts in the past.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.stamp import LINEAGE_IN_MANIFEST, read_stamp
from omnigraph.errors import BranchNotFound, TableCorrupt, TableNotFound
from omnigraph.ids import BranchName, CommitId, Version, graph_branch
from omnigraph.storage.layout import DATA, LEGACY_ACTORS, LEGACY_COMMITS, MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import (
    Handle,
    ScanRequest,
    TableBranch,
    TableRef,
    TransactionKind,
)

_COMMIT_COLUMNS: Final = (
    "graph_commit_id",
    "manifest_branch",
    "manifest_version",
    "parent_commit_id",
    "merged_parent_commit_id",
    "created_at",
)
_ACTOR_COLUMNS: Final = ("graph_commit_id", "actor_id")


def has_legacy_commits(stores: Stores) -> bool:
    """Does the graph have the old table of commits, and so a copy of each branch there?"""
    if stores.is_remote and not stores.objects.list(LEGACY_COMMITS):
        return False  # after one request instead of three
    return _open_if_there(stores, LEGACY_COMMITS) is not None


def read_legacy_commits(stores: Stores, manifest: Handle) -> tuple[Commit, ...]:
    """The history of a manifest's branch, unordered; empty if there is no old table.

    Includes commits after the manifest's version; the caller filters them. Raises TableCorrupt, and
    any other failure to read the history.
    """
    if not has_legacy_commits(stores):
        return ()
    request = ScanRequest(columns=_COMMIT_COLUMNS)
    rows = stores.tables.read(open_legacy_commits(stores, manifest), request)
    commits = _decode(rows, _read_actors(stores))
    shared = _find_shared(stores, manifest.ref.branch)
    # A commit that was written twice counts once.
    return tuple(
        {
            each.id: each
            for each in commits
            if each.manifest_version <= shared.get(each.branch, each.manifest_version)
        }.values()
    )


def open_legacy_commits(stores: Stores, manifest: Handle) -> Handle:
    """The old table of commits on the branch of a manifest, or on its nearest ancestor branch.

    Raises TableCorrupt if commits that only the old table held would be missing.
    """
    at = manifest
    while at.ref.branch is not None:
        # By its ref: the folder of a deleted branch may still exist, with unrelated commits.
        if stores.tables.find_branch(LEGACY_COMMITS, at.ref.branch) is not None:
            break
        fork = _find_fork(stores, at.ref.branch)
        if read_stamp(at) < LINEAGE_IN_MANIFEST:
            _check_unpublished(stores, at, fork)
        at = stores.tables.open_at(TableRef(MANIFEST, fork.parent), fork.parent_version)
    return stores.tables.open_at(TableRef(LEGACY_COMMITS, at.ref.branch))


def _open_if_there(stores: Stores, path: str) -> Handle | None:
    try:
        return stores.tables.open_at(TableRef(path))
    except TableNotFound:
        if stores.objects.exists(f"{path}/{DATA}"):
            reason = "it has rows and no versions"
            raise TableCorrupt("open", subject=path, reason=reason) from None
        return None


def _find_fork(stores: Stores, branch: str) -> TableBranch:
    found = stores.tables.find_branch(MANIFEST, branch)
    if found is None:
        raise BranchNotFound(branch)
    return found


def _check_unpublished(stores: Stores, manifest: Handle, fork: TableBranch) -> None:
    """Raises TableCorrupt if anything but settings changed since the branch was created."""
    since = stores.tables.find_transactions(manifest, after=fork.parent_version)
    if any(each.kind is not TransactionKind.CONFIG for each in since):
        raise TableCorrupt(
            "open",
            subject=LEGACY_COMMITS,
            reason=f"the commits of branch '{fork.name}' are missing; put them back from a copy",
        )


def _find_shared(stores: Stores, branch: str | None) -> Mapping[BranchName, int]:
    """The last version that a branch has in common with each of its ancestor branches."""
    shared: dict[BranchName, int] = {}
    while branch is not None:
        fork = _find_fork(stores, branch)
        shared[graph_branch(fork.parent)] = fork.parent_version
        branch = fork.parent
    return shared


def _decode(rows: pa.Table, actors: Mapping[str, str]) -> Sequence[Commit]:
    return [
        Commit(
            id=CommitId(row["graph_commit_id"]),
            branch=graph_branch(row["manifest_branch"]),
            manifest_version=Version(row["manifest_version"]),
            parent=row["parent_commit_id"],
            merged_parent=row["merged_parent_commit_id"],
            actor=actors.get(row["graph_commit_id"]),
            created_at_us=row["created_at"],
        )
        for row in _in_microseconds(rows).to_pylist()
    ]


def _read_actors(stores: Stores) -> Mapping[str, str]:
    handle = _open_if_there(stores, LEGACY_ACTORS)
    if handle is None:
        return {}
    rows = stores.tables.read(handle, ScanRequest(columns=_ACTOR_COLUMNS)).to_pylist()
    return {row["graph_commit_id"]: row["actor_id"] for row in rows}


def _in_microseconds(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("created_at")
    counted = rows["created_at"].cast(pa.timestamp("us")).cast(pa.int64())
    return rows.set_column(at, "created_at", counted)
