"""Creating and deleting branches.

1. Both take the lock of branches, and neither runs while a schema change is under way.
2. A branch may start only under the schema in force, because a branch has no schema of its own.
3. Neither leaves a commit, so an idempotency key is recorded beside the graph.
"""

from omnigraph.commit.attempt.locks import lock_branches
from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest import branches
from omnigraph.commit.manifest.base import manifest_ref
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.commit.manifest.snapshot import snapshot_at_commit
from omnigraph.engine.graph.targets import TargetResolver
from omnigraph.engine.write.idempotency import IdempotencyKey, run_idempotent_without_commit
from omnigraph.errors import BranchExists, BranchNotFound, SchemaOutdated
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.storage.tables import Handle


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
        check_unlocked(context)
        start, schema_hash = _fork_point(targets, source, commit_id)

        def recheck() -> None:
            check_unlocked(context)
            # A schema change that began and ended since the start was read is noticed only here.
            _check_in_force(targets, schema_hash, commit_id or source)

        branches.create_branch(context.stores, branch, start, recheck=recheck)

    with lock_branches(context):
        run_idempotent_without_commit(
            context.stores.objects, idempotency, actor, create, is_done=BranchExists
        )


def _fork_point(
    targets: TargetResolver, source: BranchName, commit_id: CommitId | None
) -> tuple[Handle, str | None]:
    """The manifest version at which a branch starts, and the schema in force there."""
    if commit_id is None:
        base = targets.bases.current(source)
        return base.handle, base.manifest.log.schema_hash
    commit = targets.commit(commit_id)
    schema_hash = targets.schema_hash_at(commit)
    _check_in_force(targets, schema_hash, commit_id)
    snapshot_at_commit(targets.stores, commit)
    ref = manifest_ref(commit.branch)
    return targets.stores.tables.open_at(ref, commit.manifest_version), schema_hash


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
