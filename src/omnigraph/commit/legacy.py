"""Commits of graphs older than format 4, which kept them in tables of their own.

`_graph_commits.lance` was branched with the graph, `_graph_commit_actors.lance` never was. Only a
table that is not there means «no commits»; any other trouble is raised, because to go on without
them would lose history.
"""

from collections.abc import Mapping

import pyarrow as pa

from omnigraph.commit.records import Commit
from omnigraph.errors import TableNotFound
from omnigraph.ids import BranchName, CommitId, Version, graph_branch, lance_branch
from omnigraph.storage.layout import LEGACY_ACTORS, LEGACY_COMMITS
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import TableRef


def has_legacy_commits(stores: Stores) -> bool:
    """Does the graph carry the old table of commits, and so the copies of its branches?"""
    try:
        stores.tables.open_at(TableRef(LEGACY_COMMITS))
    except TableNotFound:
        return False
    return True


def read_legacy_commits(stores: Stores, branch: BranchName) -> tuple[Commit, ...]:
    """The history of a branch, oldest version first. Raises TableNotFound if only the branch's
    part of it is missing.
    """
    if not has_legacy_commits(stores):
        return ()
    handle = stores.tables.open_at(TableRef(LEGACY_COMMITS, lance_branch(branch)))
    rows = _in_microseconds(stores.tables.read(handle)).to_pylist()
    actors = _read_actors(stores)
    commits = [
        Commit(
            id=CommitId(row["graph_commit_id"]),
            branch=graph_branch(row["manifest_branch"]),
            manifest_version=Version(row["manifest_version"]),
            parent=row["parent_commit_id"],
            merged_parent=row["merged_parent_commit_id"],
            actor=actors.get(row["graph_commit_id"]),
            created_at_us=row["created_at"],
        )
        for row in rows
    ]
    return tuple(sorted(commits, key=lambda each: (each.manifest_version, each.id)))


def _read_actors(stores: Stores) -> Mapping[str, str]:
    try:
        handle = stores.tables.open_at(TableRef(LEGACY_ACTORS))
    except TableNotFound:
        return {}
    rows = stores.tables.read(handle).to_pylist()
    return {row["graph_commit_id"]: row["actor_id"] for row in rows}


def _in_microseconds(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("created_at")
    return rows.set_column(at, "created_at", rows["created_at"].cast(pa.int64()))
