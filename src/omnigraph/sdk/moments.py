"""What callers say about when and where to read, as a target."""

from datetime import datetime

from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.query.target import NOW_ON_MAIN, Target, microseconds
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, CommitId, Version, parse_branch

__all__ = ["microseconds", "target_of"]


def target_of(
    branch: str | None = None,
    *,
    snapshot: ManifestSnapshot | str | None = None,
    commit: str | None = None,
    version: int | None = None,
    at: datetime | str | None = None,
) -> Target:
    """One way of saying when, at most. Raises UsageError, BranchNameInvalid."""
    moments = 4 - (snapshot, commit, version, at).count(None)
    if not moments and branch is None:
        return NOW_ON_MAIN
    if moments > 1:
        raise UsageError("a read looks at one moment: a snapshot, a commit, a version or a time")
    if branch is not None and (snapshot is not None or commit is not None):
        raise UsageError("a commit says which branch it is on; name it alone")
    name = parse_branch(branch or MAIN)
    if isinstance(snapshot, ManifestSnapshot):
        return Target(snapshot=snapshot)
    named = snapshot or commit
    if named is not None:
        return Target(commit_id=CommitId(named))
    return Target(
        name,
        version=None if version is None else Version(version),
        at_us=None if at is None else microseconds(at),
    )
