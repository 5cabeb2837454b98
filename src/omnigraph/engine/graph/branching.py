"""Creating and deleting branches and tags.

1. All take the lock of branches. No branch is created or deleted during a schema change.
2. A branch may start only under the schema in force, because a branch has no schema of its own.
3. None leaves a commit, so an idempotency key is recorded beside the graph.
"""

import logging
from dataclasses import dataclass, replace

from omnigraph.commit.attempt.locks import acquire_write_locks, lock_branches
from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest import branches
from omnigraph.commit.manifest.base import Base, find_incarnation, manifest_ref
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.commit.manifest.commit_tags import CommitTag, parse_tag, put_tag, remove_tag
from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.snapshot import open_pin, snapshot_at_commit
from omnigraph.engine.graph.targets import TargetResolver
from omnigraph.engine.write.idempotency import IdempotencyKey, run_idempotent_without_commit
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    BranchNotFound,
    ConflictError,
    NotFoundError,
    SchemaOutdated,
    StorageFailure,
    TagExists,
    TagNotFound,
)
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.storage.tables import Handle

logger = logging.getLogger(__name__)


def create_branch(
    context: WriteContext,
    targets: TargetResolver,
    branch: BranchName,
    *,
    source: BranchName,
    commit_id: CommitId | None,
    actor: str | None,
    idempotency: IdempotencyKey | None,
) -> None:
    """Raises BranchExists, BranchNotFound, CommitNotFound, SchemaLocked, SchemaOutdated."""

    def create() -> None:
        points: list[ForkPoint] = []
        context.stores.together(
            [
                lambda: check_unlocked(context),
                lambda: points.append(_fork_point(targets, source, commit_id)),
            ]
        )
        (start,) = points
        identifiers: list[str] = []

        def recheck() -> None:
            # A schema change that began and ended since the start was read is noticed only here.
            context.stores.together(
                [
                    lambda: check_unlocked(context),
                    lambda: _check_in_force(targets, start.schema_hash, commit_id or source),
                    lambda: identifiers.append(find_incarnation(context.stores, branch)),
                ]
            )

        forked = branches.create_branch(context.stores, branch, start.handle, recheck=recheck)
        if start.manifest is not None:
            # The first write of the branch need not read what is known.
            manifest = replace(start.manifest, branch=branch)
            targets.bases.remember(Base(forked, manifest, identifiers[0]))

    with lock_branches(context):
        run_idempotent_without_commit(
            context.stores.objects, idempotency, actor, create, is_done=BranchExists
        )


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The manifest version at which a branch starts, and the schema in force there."""

    handle: Handle
    schema_hash: str | None
    manifest: Manifest | None = None
    """What the version holds, if it is known."""


def _fork_point(
    targets: TargetResolver, source: BranchName, commit_id: CommitId | None
) -> ForkPoint:
    if commit_id is None:
        base = targets.bases.current(source)
        return ForkPoint(base.handle, base.manifest.log.schema_hash, base.manifest)
    commit = targets.commit(commit_id)
    schema_hash = targets.schema_hash_at(commit)
    _check_in_force(targets, schema_hash, commit_id)
    snapshot_at_commit(targets.stores, commit)
    ref = manifest_ref(commit.branch)
    handle = targets.stores.tables.open_at(ref, commit.manifest_version)
    return ForkPoint(handle, schema_hash)


def _check_in_force(targets: TargetResolver, schema_hash: str | None, start: str) -> None:
    """(2) Raises SchemaOutdated."""
    now = targets.bases.current(MAIN).manifest.log.schema_hash
    if schema_hash is not None and now is not None and schema_hash != now:
        raise SchemaOutdated(start, schema=schema_hash, in_force=now)


def delete_branch(
    context: WriteContext,
    targets: TargetResolver,
    branch: BranchName,
    *,
    actor: str | None,
    idempotency: IdempotencyKey | None,
) -> Deleted:
    """Raises BranchNotFound, BranchInUse, SchemaLocked."""
    deleted = Deleted(branch, ())

    def delete() -> None:
        nonlocal deleted
        check_unlocked(context)
        deleted = branches.delete_branch(context.stores, targets.bases, branch)

    with lock_branches(context):
        run_idempotent_without_commit(
            context.stores.objects, idempotency, actor, delete, is_done=BranchNotFound
        )
    return deleted


def discard_unused(context: WriteContext, targets: TargetResolver, branch: BranchName) -> None:
    """Delete a branch that was created for a load which failed, unless it is used by now.

    The leases of all tables are held meanwhile, so no writer commits to the branch unseen.
    """
    try:
        keys = tuple(targets.bases.current(branch).manifest.pins)
        with acquire_write_locks(context, branch, keys) as lock:
            head = lock.base.manifest.head
            if head is None or head.branch != branch:
                delete_branch(context, targets, branch, actor=None, idempotency=None)
    except (BranchNotFound, BranchInUse, ConflictError, StorageFailure) as error:
        logger.info("left the branch %s, which a failed load had created: %s", branch, error)


def create_tag(
    context: WriteContext,
    targets: TargetResolver,
    tag: CommitTag,
    *,
    idempotency: IdempotencyKey | None,
) -> None:
    """Raises TagExists, BranchExists, UsageError, CommitNotFound, VersionNotFound."""

    def create() -> None:
        parse_tag(tag.name, branches.find_branches(context.stores))
        commit = targets.commit(tag.commit_id)
        put_tag(context.stores.objects, tag)
        try:
            snapshot = snapshot_at_commit(context.stores, commit)
            for pin in snapshot.pins.values():
                open_pin(context.stores, pin)
        except NotFoundError:
            remove_tag(context.stores.objects, tag.name)
            raise

    with lock_branches(context):
        run_idempotent_without_commit(
            context.stores.objects, idempotency, tag.actor, create, is_done=TagExists
        )


def delete_tag(
    context: WriteContext, name: str, *, actor: str | None, idempotency: IdempotencyKey | None
) -> None:
    """Raises TagNotFound."""
    objects = context.stores.objects

    def delete() -> None:
        remove_tag(objects, name)

    with lock_branches(context):
        run_idempotent_without_commit(objects, idempotency, actor, delete, is_done=TagNotFound)
