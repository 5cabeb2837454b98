"""The commit that records a recovery, and the steps that complete the recovery after it.

1. Its id is a function of the operation, so an operation is recovered at most once, and the writer
   of the operation finds the commit when it publishes: it is fenced (D2).
2. Its actor is `omnigraph:recovery`. Its extension holds the audit row, so commit and audit are one
   write. The audit table and the removal of the sidecar follow; the next recovery repeats them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from omnigraph.commit.compat.old_sidecar import OldSidecar
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.commit.manifest.records import Extension
from omnigraph.commit.manifest.updates import CommitIntent, Update
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery.audit import RecoveredMember, Recovery, RecoveryKind, TableOutcome
from omnigraph.commit.recovery.sidecar import Sidecar
from omnigraph.commit.recovery.sidecar_store import AnySidecar, remove_sidecar
from omnigraph.ids import BranchName, CommitId, OperationId, TableKey, Version

ACTOR: Final = "omnigraph:recovery"
CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def recovery_commit_id(operation_id: OperationId) -> CommitId:
    """The id of an operation's recovery commit: the time of the operation and a hash of its id."""
    digest = int.from_bytes(hashlib.sha256(f"recovery:{operation_id}".encode()).digest()[:10])
    tail = "".join(CROCKFORD[digest >> shift & 31] for shift in range(75, -1, -5))
    return CommitId(f"{operation_id[:10]}{tail}")


def publish_recovery(
    context: WriteContext,
    sidecar: AnySidecar,
    kind: RecoveryKind,
    *,
    branch: BranchName | None = None,
    updates: Sequence[Update] = (),
    expected: Mapping[TableKey, Version] | None = None,
    outcomes: tuple[TableOutcome, ...] = (),
    with_intent: bool = False,
) -> Recovery:
    """Publish the recovery commit; `with_intent` also the intended commits below it (D4)."""
    recovery = Recovery(
        operation_id=sidecar.operation_id,
        kind=kind,
        writer=sidecar.kind,
        actor=sidecar.actor,
        commit_id=recovery_commit_id(sidecar.operation_id),
        outcomes=outcomes,
        created_at_us=context.stores.effects.now_ms() * 1000,
        members=_members(sidecar),
    )
    own = CommitIntent(
        id=recovery.commit_id,
        created_at_us=recovery.created_at_us,
        actor=ACTOR,
        merged_parent=_merged_parent(sidecar, kind),
        extension=Extension(operation_id=sidecar.operation_id, recovery=recovery.encode()),
    )
    intended = sidecar if with_intent and isinstance(sidecar, Sidecar) else None
    published = publish(
        context.stores,
        context.bases,
        Publication(
            branch=sidecar.branch if branch is None else branch,
            intents=(own,) if intended is None else (*intended.intents, own),
            updates=tuple(updates),
            expected=expected or {},
            on_top_of=None if intended is None else intended.on_top_of,
        ),
    )
    # The publish moves the time of the recovery commit behind that of the intended commit.
    return replace(recovery, created_at_us=published.commits[-1].created_at_us)


def _members(sidecar: AnySidecar) -> tuple[RecoveredMember, ...]:
    """The writes of a group, which are recovered together (D29)."""
    if isinstance(sidecar, OldSidecar) or not sidecar.is_group:
        return ()
    return tuple(RecoveredMember(each.id, each.actor) for each in sidecar.intents)


def _merged_parent(sidecar: AnySidecar, kind: RecoveryKind) -> CommitId | None:
    """An old sidecar holds no intended commit, so the recovery commit records what was merged."""
    if isinstance(sidecar, OldSidecar) and kind is RecoveryKind.ROLLED_FORWARD:
        return sidecar.merge_source if sidecar.kind is WriterKind.BRANCH_MERGE else None
    return None


def complete_recovery(context: WriteContext, recovery: Recovery) -> Recovery:
    """(2) Write the audit row, then remove the sidecar."""
    audit.record(context.stores, recovery)
    remove_sidecar(context.stores.objects, recovery.operation_id)
    return recovery
