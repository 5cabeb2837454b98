"""The one write that makes work visible: a compare-and-swap on the manifest of a branch.

1. Table versions, registrations, tombstones, commits and the branch head go in one merge-insert, on
   the very handle that was validated. Every publish of a branch writes the row of its head, so two
   that start from the same version overlap, and one of them is refused.
2. A refusal is not a failure: the branch is read again, expectations are compared again, the parent
   is found again, and the same commits are tried once more; `BUDGET` times after the first.
3. An expectation that does not hold is never retried here. The caller read something that is no
   longer so, and must decide again.
4. A reply that got lost is looked up: the commits carry ids that were minted before the first try.
   Only when nothing landed and nothing moved is the outcome unknown.
5. A commit records the version of the manifest that shows it. Should the swap land further on,
   because a setting was changed beside it, the record is put right before anybody is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

import pyarrow as pa

from omnigraph.commit.base import Base, Bases, scan_manifest
from omnigraph.commit.migrate import migrate
from omnigraph.commit.records import Commit
from omnigraph.commit.updates import CommitIntent, Successor, Update, encode_commits, successor
from omnigraph.errors import Contention, Fenced, OutcomeUnknown, StorageFailure
from omnigraph.ids import BranchName, CommitId, TableKey, Version
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Elsewhere, Landed, Mark, Outcome, Refused

BUDGET: Final = 5
"""Retries after a lost race."""

KEY: Final = "object_id"


@dataclass(frozen=True, slots=True)
class Publication:
    """What is to become visible on a branch, in one commit or a chain of them."""

    branch: BranchName
    intents: tuple[CommitIntent, ...]
    updates: tuple[Update, ...] = ()
    expected: Mapping[TableKey, Version] = field(default_factory=dict)
    """Every table that was read to decide this, and the version it was read at. 0: not there."""
    fence: CommitId | None = None
    """If this commit is on the branch, somebody recovered our operation, and we must not go on."""


@dataclass(frozen=True, slots=True)
class Published:
    base: Base
    """The branch right after."""
    commits: tuple[Commit, ...]


def publish(stores: Stores, bases: Bases, publication: Publication) -> Published:
    """Carry a publication out.

    Raises ExpectedVersionMismatch, UpdateRefused, Contention, Fenced, BranchNotFound; and
    OutcomeUnknown when the store failed and it cannot be told whether the swap will land.
    """
    base = bases.current(publication.branch)
    for _ in range(1 + BUDGET):
        base = migrate(stores, base)
        landed = _find_landed(base, publication)
        if landed is not None:
            bases.remember(base)
            return landed
        published = _attempt(stores, base, publication)
        if published is not None:
            bases.remember(published.base)
            return published
        base = bases.reread(publication.branch)
    raise Contention(publication.branch, attempts=1 + BUDGET)


def _find_landed(base: Base, publication: Publication) -> Published | None:
    """Our commits, if an earlier try made them visible after all."""
    log = base.manifest.log
    if publication.fence is not None and log.find(publication.fence) is not None:
        raise Fenced(publication.branch, recovered_by=publication.fence)
    found = [log.find(each.id) for each in publication.intents]
    commits = tuple(each for each in found if each is not None)
    return Published(base, commits) if len(commits) == len(found) else None


def _attempt(stores: Stores, base: Base, publication: Publication) -> Published | None:
    """One swap; None when somebody else was first."""
    base.manifest.check_expected(publication.expected)
    planned = successor(base.manifest, publication.updates, publication.intents)
    try:
        outcome = _swap(stores, base, planned.rows)
    except StorageFailure as failure:
        return _look_up(stores, base, publication, failure)
    match outcome:
        case Landed(handle):
            assert handle.version == planned.manifest.version, "landed where nobody recorded it"
            return Published(Base(handle, planned.manifest, base.identifier), planned.commits)
        case Elsewhere(handle):
            return _put_right(stores, replace(base, handle=handle), planned)
        case Refused():
            return None
    assert_never(outcome)


def _swap(stores: Stores, base: Base, rows: pa.Table) -> Outcome:
    mark = Mark(stores.effects.new_id())
    return stores.tables.residual.swap_rows(base.handle, rows, key=KEY, mark=mark)


def _look_up(
    stores: Stores, base: Base, publication: Publication, failure: StorageFailure
) -> Published | None:
    seen = Bases(stores).reread(publication.branch)
    landed = _find_landed(seen, publication)
    if landed is not None:
        return landed
    if seen.handle.version == base.handle.version and seen.identifier == base.identifier:
        raise OutcomeUnknown(publication.branch, commit_id=publication.intents[-1].id) from failure
    # The version we swapped for is taken by somebody else, so our swap can no longer land.
    return None


def _put_right(stores: Stores, landed: Base, planned: Successor) -> Published:
    """Record the version that really shows the commits."""
    actual = Version(landed.handle.version)
    commits = tuple(replace(each, manifest_version=actual) for each in planned.commits)
    base = landed
    while True:
        outcome = _swap(stores, base, encode_commits(commits))
        match outcome:
            case Landed(handle) | Elsewhere(handle):
                branch = planned.manifest.branch
                manifest = scan_manifest(stores, handle, branch)
                return Published(Base(handle, manifest, landed.identifier), commits)
            case Refused():
                base = Bases(stores).reread(planned.manifest.branch)
