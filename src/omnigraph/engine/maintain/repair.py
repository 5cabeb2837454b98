"""Repair of drift: tables whose newest version no branch shows and no sidecar explains.

Recovery rolls the leftovers of our own writers forward or back without a command. Repair does so
first, and never publishes them, whatever the request (D38). The remaining drift was made by another
tool. Drift that is only maintenance changes no row and is published on request. Any other drift is
published or discarded only with `--force` or `--discard`, because only a person knows its purpose.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lease import LeaseAbandoned
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.recovery.drift import (
    Drift,
    DriftClass,
    DriftResolution,
    inspect_branch,
    resolve_drift,
    undo_ended,
)
from omnigraph.commit.recovery.heal import clear_abandoned, heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.errors import RecoveryPending, UsageError
from omnigraph.ids import BranchName, OperationId, TableKey, Version

ACTOR: Final = "omnigraph:repair"
FORCED_ACTOR: Final = "omnigraph:repair:force"


class RepairAction(StrEnum):
    """What repair did to a table."""

    NO_OP = "no_op"
    PREVIEW = "preview"
    HEALED = "healed"
    FORCED = "forced"
    DISCARDED = "discarded"
    UNDONE = "undone"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RepairRequest:
    is_confirmed: bool = False
    is_forced: bool = False
    """Publish also drift that is more than maintenance."""
    is_discarded: bool = False
    """Discard drift instead of publishing it."""

    def check(self) -> None:
        """Raises UsageError."""
        if (self.is_forced or self.is_discarded) and not self.is_confirmed:
            raise UsageError("--force and --discard need --confirm")
        if self.is_forced and self.is_discarded:
            raise UsageError("drift is shown by --force or taken back by --discard, not both")


@dataclass(frozen=True, slots=True)
class RepairedTable:
    key: TableKey
    branch: BranchName
    shown: Version
    head: Version
    verdict: DriftClass
    action: RepairAction
    operations: tuple[str, ...]
    """The kinds of the transactions that no branch shows, oldest first."""


@dataclass(frozen=True, slots=True)
class RepairResult:
    request: RepairRequest
    tables: tuple[RepairedTable, ...]
    manifest_version: Version
    """The manifest version of main after the repair."""

    @property
    def has_refusals(self) -> bool:
        return any(each.action is RepairAction.REFUSED for each in self.tables)


def repair(context: WriteContext, request: RepairRequest) -> RepairResult:
    """Classify every table of every branch, and resolve the drift that the request allows.

    Raises UsageError, SchemaLocked, RecoveryPending while a write is unfinished.
    """
    request.check()
    check_unlocked(context)
    undone: dict[LockKey, RepairedTable] = {}
    if request.is_confirmed:
        heal(context)
        undone = {each.lock_key: _report(each, RepairAction.UNDONE) for each in undo_ended(context)}
    tables = [
        undone.get(LockKey(each.key, each.branch), each)
        if each.action is RepairAction.NO_OP
        else each
        for branch in find_branches(context.stores)
        for each in _repair(context, branch, request)
    ]
    version = context.bases.current(find_branches(context.stores)[0]).manifest.version
    return RepairResult(request, tuple(tables), version)


def _repair(
    context: WriteContext, branch: BranchName, request: RepairRequest
) -> list[RepairedTable]:
    base = context.bases.reread(branch)
    if not request.is_confirmed:
        seen = inspect_branch(context.stores, base.manifest)
        return [_report(each, _decide(each, request)) for each in seen]
    lock_keys = [LockKey(key, branch) for key in base.manifest.pins]
    operation_id = OperationId(context.stores.effects.new_id())
    while True:
        try:
            with (
                context.queues.hold(lock_keys),
                context.leases.hold(lock_keys, operation_id) as held,
            ):
                if pending := find_sidecars(context.stores.objects):
                    raise RecoveryPending(pending[0])
                found = list(inspect_branch(context.stores, context.bases.reread(branch).manifest))
                decided = [(each, _decide(each, request)) for each in found]
                for action, how, actor in _RESOLUTIONS:
                    drifts = [each for each, chosen in decided if chosen is action]
                    if drifts:
                        resolve_drift(context, held, drifts, how, actor)
                return [_report(each, action) for each, action in decided]
        except LeaseAbandoned as abandoned:
            late = abandoned
        clear_abandoned(context, late)


_RESOLUTIONS: Final = (
    (RepairAction.HEALED, DriftResolution.PUBLISH, ACTOR),
    (RepairAction.FORCED, DriftResolution.PUBLISH, FORCED_ACTOR),
    (RepairAction.DISCARDED, DriftResolution.DISCARD, ACTOR),
)


def _decide(drift: Drift, request: RepairRequest) -> RepairAction:
    if drift.drift_class is DriftClass.NO_DRIFT:
        return RepairAction.NO_OP
    if not request.is_confirmed:
        return RepairAction.PREVIEW
    if drift.drift_class is DriftClass.TORN:
        # It was torn after `undo_over` removed torn versions: another program is writing.
        return RepairAction.REFUSED
    if request.is_discarded:
        return RepairAction.DISCARDED
    if drift.has_fenced:
        return RepairAction.REFUSED
    if drift.drift_class is DriftClass.VERIFIED_MAINTENANCE:
        return RepairAction.HEALED
    return RepairAction.FORCED if request.is_forced else RepairAction.REFUSED


def _report(drift: Drift, action: RepairAction) -> RepairedTable:
    return RepairedTable(
        drift.pin.key,
        drift.branch,
        drift.pin.version,
        Version(drift.torn or drift.head.version),
        drift.drift_class,
        action,
        tuple(each.kind.value for each in drift.since),
    )
