"""The one write that makes work visible: a compare-and-swap on the manifest of a branch.

1. One swap writes table versions, registrations, tombstones, commits and the branch head, on the
   handle that was validated. Every publish of a branch writes the row of its head. Two publishes
   that start from the same version therefore overlap, and one of them is refused.
2. A refused swap is retried `BUDGET` times: the publisher reads the branch again, compares the
   expectations again, finds the parent again and publishes the same commits. After the first
   refusal it waits in the fair queue of the branch, and so does a publisher that finds a ticket
   there. Without the queue, busy writers could overtake one of them for ever.
3. An expectation that does not hold is never retried here. What the caller read has changed, and
   the caller must decide again.
4. After a lost reply the publisher looks for its commits, whose ids were minted before the first
   try. The outcome is unknown if no commit landed and the branch did not move, or if the branch
   cannot be read. A commit that landed is never written again: it has a position in the history.
5. A commit records the version of the manifest that shows it. A merge-insert beside a change of
   settings lands at a later version. The publisher corrects the record before it returns.
6. A write with an idempotency key is published once, however many writers try at the same time:
   each looks for the key in the manifest that it swaps (D23).
7. Everything acknowledged, and everything it builds on, has reached the disk (D11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

import pyarrow as pa

from omnigraph.commit.compat.migrate import migrate
from omnigraph.commit.leases.fair_queue import FairBackoff
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
from omnigraph.storage.tables import Landed, LandedLater, Mark, Outcome, Refused

BUDGET: Final = 5
"""Retries after a refused swap."""

KEY: Final = "object_id"


@dataclass(frozen=True, slots=True)
class Publication:
    """One commit, or a chain of commits, to publish on a branch."""

    branch: BranchName
    intents: tuple[CommitIntent, ...]
    updates: tuple[Update, ...] = ()
    expected: Mapping[TableKey, Version] = field(default_factory=dict)
    """Every table that was read to decide this, with the version that was read; 0 if absent."""
    on_top_of: CommitId | None = None
    """The commit that must be the head of the manifest that is swapped."""
    schema_hash: str | None = None
    """The schema this was decided under. The publish is refused under another schema."""
    fence: CommitId | None = None
    """The recovery commit of the operation. Once it is on the branch the operation was rolled
    forward or rolled back, and its writer must stop.
    """


@dataclass(frozen=True, slots=True)
class Published:
    base: Base
    """The branch as this publish left it."""
    commits: tuple[Commit, ...]


def publish(
    stores: Stores,
    bases: Bases,
    publication: Publication,
    backoff: FairBackoff | None = None,
    *,
    seen: Base | None = None,
) -> Published:
    """Publish, with retries. `seen` is the branch as the caller has just read it.

    Raises ExpectedVersionMismatch, UpdateRefused, AlreadyDone, Contention, Fenced, BranchNotFound,
    HeadMoved; and OutcomeUnknown if the store failed and the swap may still land.
    """
    with backoff or FairBackoff(None) as queue:
        base = seen or bases.current(publication.branch)
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
            queue.wait()
            base = bases.after(base)
    raise Contention(publication.branch, attempts=1 + BUDGET)


def _find_landed(base: Base, publication: Publication) -> tuple[Commit, ...]:
    """Our commits on the branch: an earlier try landed, or recovery rolled the write forward."""
    log = base.manifest.log
    landed = log.find_all([each.id for each in publication.intents])
    is_whole = len(landed) == len(publication.intents)
    if not is_whole and publication.fence is not None and log.find(publication.fence) is not None:
        raise Fenced(publication.branch, recovered_by=publication.fence)
    return landed


def _check_keys(base: Base, publication: Publication) -> None:
    """(6) Raises AlreadyDone."""
    for intent in publication.intents:
        run = intent.extension.pipeline
        if run is not None:
            last = next(reversed(base.manifest.log.find_runs(run.name)), None)
            if last is not None and last.id != run.after:
                raise AlreadyDone(f"pipeline {run.name}", commit_id=last.id)
        given = intent.extension.idempotency
        if given is None:
            continue
        found = base.manifest.log.find_key(given.key, actor=intent.actor, branch=publication.branch)
        if found is not None and found.id != intent.id:
            raise AlreadyDone(given.key, commit_id=found.id)


def _acknowledge(stores: Stores, base: Base, commits: tuple[Commit, ...]) -> Published:
    """Return commits that landed before."""
    _fsync_manifest(stores, base, commits[-1].id)
    return Published(replace(base, durable=base.handle), commits)


def _fsync_manifest(stores: Stores, base: Base, commit_id: CommitId) -> None:
    """(7) Flush what other writers wrote of the manifest: they may not have flushed it."""
    if base.durable is base.handle:
        return
    try:
        stores.tables.fsync_version(base.handle, beyond=base.durable)
    except StorageFailure as failure:
        raise OutcomeUnknown(base.manifest.branch, commit_id=commit_id) from failure


def _attempt(
    stores: Stores, base: Base, publication: Publication, landed: tuple[Commit, ...]
) -> Published | None:
    """One swap; None if it was refused."""
    base.manifest.check_expected(publication.expected)
    base.manifest.check_head(publication.on_top_of)
    base.manifest.check_schema(publication.schema_hash)
    there = {each.id for each in landed}
    missing = [each for each in publication.intents if each.id not in there]
    planned = successor(base.manifest, publication.updates, missing)
    try:
        outcome = _swap(stores, base, planned.rows)
    except StorageFailure as failure:
        return _find_after_failure(stores, base, publication, failure)
    match outcome:
        case Landed(handle):
            assert handle.version == planned.manifest.version, "landed = recorded (D9)"
            # The swap flushed its own files.
            _fsync_manifest(stores, base, planned.commits[-1].id)
            now = Base(handle, planned.manifest, base.identifier, durable=handle)
            return Published(now, (*landed, *planned.commits))
        case LandedLater(handle):
            return _correct_record(stores, replace(base, handle=handle), planned, landed)
        case Refused():
            return None
    assert_never(outcome)


def _swap(stores: Stores, base: Base, rows: pa.Table) -> Outcome:
    mark = Mark(stores.effects.new_id())
    return stores.tables.single_step.swap_rows(base.handle, rows, key=KEY, mark=mark)


def _find_after_failure(
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
    # Another publish took the version of our swap, so our swap can no longer land.
    return None


def _correct_record(
    stores: Stores, base: Base, planned: Successor, landed: tuple[Commit, ...]
) -> Published:
    """(5) Let the commits record the version that shows them: the one of `base`."""
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
            # Another publish may have landed on top of ours, and is the head now.
            head = base.manifest.head or head
        manifest = scan_manifest(stores, outcome.handle, branch)
    except StorageFailure as failure:
        raise OutcomeUnknown(branch, commit_id=head.id) from failure
    now = Base(outcome.handle, manifest, base.identifier)
    return _acknowledge(stores, now, (*landed, *commits))
