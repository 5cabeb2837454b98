"""The one write that makes work visible: a compare-and-swap on the manifest of a branch.

1. Table versions, registrations, tombstones, commits and the branch head go in one swap, on the
   very handle that was validated. Every publish of a branch writes the row of its head, so two
   that start from the same version overlap, and one of them is refused.
2. A refusal is not a failure: the branch is read again, expectations are compared again, the parent
   is found again, and the same commits are tried once more; `BUDGET` times after the first. Who
   was refused once gets in line, and who finds a line gets in it: without that, of many writers
   that always have something to publish, some would be overtaken for ever.
3. An expectation that does not hold is never retried here. The caller read something that is no
   longer so, and must decide again.
4. A reply that got lost is looked up: the commits carry ids that were minted before the first try.
   The outcome is unknown only when nothing landed and nothing moved, or when nothing can be seen.
   A commit that is there is never written again, because its place in the history is taken.
5. A commit records the version of the manifest that shows it. Should the swap land further on, as
   a merge may beside which a setting was changed, the record is put right before anybody is told.
6. A write that was given an idempotency key is published once, however many tried at the same time:
   each looks for the key in the very manifest it swaps (D23).
7. What is acknowledged has reached the disk, and so has everything it stands on (D11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

import pyarrow as pa

from omnigraph.commit.compat.migrate import migrate
from omnigraph.commit.leases.fair_queue import Turn
from omnigraph.commit.manifest.base import Base, Bases, read_base, scan_manifest
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.updates import (
    CommitIntent,
    Successor,
    Update,
    encode_commits,
    successor,
)
from omnigraph.errors import AlreadyDone, Contention, Fenced, OutcomeUnknown, StorageFailure
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
    on_top_of: CommitId | None = None
    """The commit that must be the newest in the very manifest that is swapped."""
    schema_hash: str | None = None
    """The schema it was decided under. Another one in force means that it must be decided anew."""
    fence: CommitId | None = None
    """If this commit is on the branch, somebody recovered our operation: finished or undone, we
    must not go on.
    """


@dataclass(frozen=True, slots=True)
class Published:
    base: Base
    """The branch right after."""
    commits: tuple[Commit, ...]


def publish(
    stores: Stores, bases: Bases, publication: Publication, turn: Turn | None = None
) -> Published:
    """Carry a publication out, when its turn comes.

    Raises ExpectedVersionMismatch, UpdateRefused, AlreadyDone, Contention, Fenced, BranchNotFound,
    HeadMoved; and OutcomeUnknown when the store failed and it cannot be told
    whether the swap will land.
    """
    with turn or Turn(None) as line:
        base = bases.current(publication.branch)
        for _ in range(1 + BUDGET):
            base = migrate(stores, base)
            landed = _find_landed(base, publication)
            if len(landed) == len(publication.intents):
                return _acknowledge(stores, base, landed)
            _check_keys(base, publication)
            published = _attempt(stores, base, publication, landed)
            if published is not None:
                bases.remember(published.base)
                return published
            line.wait()
            base = bases.after(base)
    raise Contention(publication.branch, attempts=1 + BUDGET)


def _find_landed(base: Base, publication: Publication) -> tuple[Commit, ...]:
    """Those of our commits that an earlier try, or whoever finished our work, made visible."""
    log = base.manifest.log
    found = (log.find(each.id) for each in publication.intents)
    landed = tuple(each for each in found if each is not None)
    is_whole = len(landed) == len(publication.intents)
    if not is_whole and publication.fence is not None and log.find(publication.fence) is not None:
        raise Fenced(publication.branch, recovered_by=publication.fence)
    return landed


def _check_keys(base: Base, publication: Publication) -> None:
    """(6) Raises AlreadyDone."""
    for intent in publication.intents:
        given = intent.extension.idempotency
        if given is None:
            continue
        found = base.manifest.log.find_key(given.key, actor=intent.actor, branch=publication.branch)
        if found is not None and found.id != intent.id:
            raise AlreadyDone(given.key, commit_id=found.id)


def _acknowledge(stores: Stores, base: Base, commits: tuple[Commit, ...]) -> Published:
    """Answer for commits that are there already."""
    _harden(stores, base, commits[-1].id)
    return Published(replace(base, durable=base.handle), commits)


def _harden(stores: Stores, base: Base, commit_id: CommitId) -> None:
    """(7) Flush what others wrote of the manifest: they may be relaxed, or died before they did."""
    if base.durable is base.handle:
        return
    try:
        stores.tables.fsync_version(base.handle, beyond=base.durable)
    except StorageFailure as failure:
        raise OutcomeUnknown(base.manifest.branch, commit_id=commit_id) from failure


def _attempt(
    stores: Stores, base: Base, publication: Publication, landed: tuple[Commit, ...]
) -> Published | None:
    """One swap; None when somebody else was first."""
    base.manifest.check_expected(publication.expected)
    base.manifest.check_head(publication.on_top_of)
    base.manifest.check_schema(publication.schema_hash)
    there = {each.id for each in landed}
    missing = [each for each in publication.intents if each.id not in there]
    planned = successor(base.manifest, publication.updates, missing)
    try:
        outcome = _swap(stores, base, planned.rows)
    except StorageFailure as failure:
        return _look_up(stores, base, publication, failure)
    match outcome:
        case Landed(handle):
            assert handle.version == planned.manifest.version, "landed where nobody recorded it"
            # The swap flushed what it wrote itself.
            _harden(stores, base, planned.commits[-1].id)
            now = Base(handle, planned.manifest, base.identifier, durable=handle)
            return Published(now, (*landed, *planned.commits))
        case Elsewhere(handle):
            return _put_right(stores, replace(base, handle=handle), planned, landed)
        case Refused():
            return None
    assert_never(outcome)


def _swap(stores: Stores, base: Base, rows: pa.Table) -> Outcome:
    mark = Mark(stores.effects.new_id())
    return stores.tables.single_step.swap_rows(base.handle, rows, key=KEY, mark=mark)


def _look_up(
    stores: Stores, base: Base, publication: Publication, failure: StorageFailure
) -> Published | None:
    unknown = OutcomeUnknown(publication.branch, commit_id=publication.intents[-1].id)
    try:
        seen = read_base(stores, publication.branch)
    except StorageFailure as blind:
        raise unknown from blind
    landed = _find_landed(seen, publication)
    if len(landed) == len(publication.intents):
        return _acknowledge(stores, seen, landed)
    if seen.handle.version == base.handle.version and seen.identifier == base.identifier:
        raise unknown from failure
    # The version we swapped for is taken by somebody else, so our swap can no longer land.
    return None


def _put_right(
    stores: Stores, base: Base, planned: Successor, landed: tuple[Commit, ...]
) -> Published:
    """Record the version that really shows the commits: the one `base` stands at."""
    actual = Version(base.handle.version)
    branch = planned.manifest.branch
    commits = tuple(replace(each, manifest_version=actual) for each in planned.commits)
    head = commits[-1]
    try:
        while isinstance(
            outcome := _swap(stores, base, encode_commits(commits, branch=branch, head=head)),
            Refused,
        ):
            base = read_base(stores, branch)
            # Whoever was first may have published on top of us, and is the head now.
            head = base.manifest.head or head
        manifest = scan_manifest(stores, outcome.handle, branch)
    except StorageFailure as failure:
        raise OutcomeUnknown(branch, commit_id=head.id) from failure
    now = Base(outcome.handle, manifest, base.identifier)
    return _acknowledge(stores, now, (*landed, *commits))
