"""The heads that approvals and checks hold for, and the commit that merged a proposal."""

import pyarrow.compute as pc

from omnigraph.commit.manifest.commit_log import CommitLog, decode_commits
from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.records import Commit
from omnigraph.ids import CommitId


def effective_head(manifest: Manifest) -> CommitId | None:
    """The newest commit that may have changed rows or schema; None for a branch without one."""
    return None if manifest.head is None else find_effective(manifest.log, manifest.head)


def find_effective(log: CommitLog, commit: Commit) -> CommitId:
    """The same for a past head: the commit itself, or the first below it that counts."""
    while _changes_nothing(commit) and commit.parent is not None:
        parent = log.find(commit.parent)
        if parent is None:
            break
        commit = parent
    return commit.id


def find_effective_id(log: CommitLog, commit_id: CommitId) -> CommitId:
    """The same by id; an id that the branch does not know stands for itself."""
    found = log.find(commit_id)
    return commit_id if found is None else find_effective(log, found)


def _changes_nothing(commit: Commit) -> bool:
    """Is it a commit of upkeep or recovery? These record no schema; every write records one."""
    extension = commit.extension
    is_ours = extension.operation_id is not None
    is_plain = commit.merged_parent is None or extension.recovery is not None
    return is_ours and extension.schema_hash is None and is_plain and not commit.counts


def find_merge_of(manifest: Manifest, proposal_id: str) -> Commit | None:
    """The commit of this branch that merged a proposal."""
    rows = manifest.log.rows
    spelled = f'"proposal":"{proposal_id}"'
    found = decode_commits(rows.filter(pc.match_substring(rows["metadata"], spelled)))
    mine = (each for each in found if each.branch == manifest.branch)
    return next((each for each in mine if each.extension.proposal == proposal_id), None)
