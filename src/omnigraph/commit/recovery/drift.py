"""Drift: the newest version of a table is not the one its branch shows, and no sidecar explains it.

Under the lease of the table there are four causes:

1. *Fenced.* Commits of an operation that has ended: it was recovered while its process was paused,
   and landed once more; or its sidecar was deleted by hand. No flag publishes these commits. The
   next writer of the table, `refresh`, open, doctor or repair undoes them (D38).
2. *Torn.* A power cut left the newest version unreadable. It is removed (D31).
3. *Maintenance* by another program: index, setting or compaction commits. It is published.
4. *Foreign.* Another program moved rows. `omnigraph repair` decides. Commits of an ended operation
   on top of foreign rows are undone to the version directly above the foreign rows; commits below
   foreign rows stay.

If a sidecar of the operation still exists, the operation is resolved first (`LeaseAbandoned`): its
writer could not tell its outcome and released its leases.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.fences import find_fences
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.lease import LeaseAbandoned
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.base import Base, read_base
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.records import Extension
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.commit.recovery.classify import (
    MAINTENANCE,
    find_effective,
    find_restore_version,
    operation_of,
)
from omnigraph.commit.recovery.heal import lease
from omnigraph.commit.recovery.inspect import clear_torn
from omnigraph.commit.recovery.newest import publish_newest
from omnigraph.commit.recovery.recovery_commit import ACTOR, recovery_commit_id
from omnigraph.commit.recovery.roll_back import restore
from omnigraph.commit.recovery.sidecar_store import has_sidecar
from omnigraph.errors import BranchNotFound, DriftFound, InvariantViolated, LeaseHeld
from omnigraph.ids import BranchName, OperationId, TableKey, Version
from omnigraph.storage.objects import Listed
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, TransactionKind, TransactionRecord

logger = logging.getLogger(__name__)

HEALED: Final = "DriftHealed"
"""What the commit of a healing says of itself. No operation was recovered."""

# ── classification ───────────────────────────────────────────────────────────────────────────────


class DriftClass(StrEnum):
    """Why a table moved without a publish."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    """(3) No transaction changed rows."""
    SUSPICIOUS = "suspicious"
    """(4) A foreign transaction changed rows."""
    UNVERIFIABLE = "unverifiable"
    """A transaction cannot be read."""
    FENCED = "fenced"
    """(1) Only ended operations of ours changed rows."""
    TORN = "torn"
    """(2) The newest version cannot be read."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One table of a branch, and the transactions since the version that the branch shows."""

    pin: Pin
    branch: BranchName
    head: Handle
    """The newest version; the version that the branch shows if the newest is torn."""
    since: tuple[TransactionRecord, ...] = ()
    ended: frozenset[OperationId] = frozenset()
    """(1) The operations of these transactions that have ended."""
    torn: int | None = None

    @property
    def lock_key(self) -> LockKey:
        return LockKey(self.pin.key, self.branch)

    @property
    def effective(self) -> tuple[TransactionRecord, ...]:
        return find_effective(self.pin.version, self.since)

    @property
    def moved(self) -> tuple[TransactionRecord, ...]:
        """The effective transactions that changed rows."""
        return tuple(each for each in self.effective if each.kind not in MAINTENANCE)

    @property
    def has_foreign(self) -> bool:
        return not all(map(self.is_ended, self.moved))

    @property
    def has_fenced(self) -> bool:
        """Would a publish of the newest version publish commits of an ended operation?"""
        return any(map(self.is_ended, self.moved))

    @property
    def restore_version(self) -> int | None:
        """The version to restore; None if nothing can be undone, or foreign rows lie on top.

        Maintenance of an ended operation changed no row: it is published, not undone.
        """
        fenced = {each.version for each in self.moved if self.is_ended(each)}
        return find_restore_version(
            self.pin.version, self.effective, lambda each: each.version in fenced
        )

    def is_ended(self, transacted: TransactionRecord) -> bool:
        return operation_of(transacted) in self.ended

    @property
    def drift_class(self) -> DriftClass:
        if self.torn is not None:
            return DriftClass.TORN
        if not self.since:
            return DriftClass.NO_DRIFT
        if any(each.kind is TransactionKind.UNREADABLE for each in self.effective):
            return DriftClass.UNVERIFIABLE
        if not self.moved:
            return DriftClass.VERIFIED_MAINTENANCE
        return DriftClass.SUSPICIOUS if self.has_foreign else DriftClass.FENCED


def inspect_drift(stores: Stores, manifest: Manifest, pin: Pin) -> Drift:
    """The drift of a table that its branch owns. Raises InvariantViolated if the table is behind
    the version that the branch shows.
    """
    tables, shown = stores.tables, open_pin(stores, pin)
    if (torn := tables.find_torn(shown)) is not None:
        return Drift(pin, manifest.branch, shown, torn=torn)
    head = tables.open_at(shown.ref)
    if head.version < pin.version:
        raise InvariantViolated(
            "repair", table_key=pin.key, reason=f"it is at {head.version}, shown is {pin.version}"
        )
    since = tables.find_transactions(head, after=pin.version)
    named = frozenset(map(operation_of, since)) - {OperationId("")}
    ended = frozenset(each for each in named if _has_ended(stores, manifest, each))
    return Drift(pin, manifest.branch, head, since, ended)


def _has_ended(stores: Stores, manifest: Manifest, operation_id: OperationId) -> bool:
    """Was the operation recovered, or is its sidecar gone?

    A sidecar exists before the first table moves, and is removed after the last step.
    """
    if manifest.log.find(recovery_commit_id(operation_id)) is not None:
        return True
    return not has_sidecar(stores.objects, operation_id)


def inspect_branch(stores: Stores, manifest: Manifest) -> Iterator[Drift]:
    """Every table that the branch owns, drifted or not. Raises InvariantViolated."""
    for pin in manifest.pins.values():
        if pin.owner == manifest.branch:
            yield inspect_drift(stores, manifest, pin)


# ── healing, without an operator ─────────────────────────────────────────────────────────────────


def heal_drift(
    context: WriteContext,
    held: HeldLeases,
    base: Base,
    keys: Collection[TableKey],
    newest: Mapping[TableKey, Version] | None = None,
) -> Base:
    """Heal the given tables; the branch as it is once none of them has drifted.

    The caller holds their leases. Costs one probe per table, unless the caller passes the newest
    versions. Raises DriftFound for foreign rows,
    and LeaseAbandoned if a sidecar must be resolved first.
    """
    for key in sorted(keys):
        pin = base.manifest.pins.get(key)
        if pin is None or (newest is not None and newest.get(key, pin.version) == pin.version):
            continue
        if _is_ahead(context, base, pin):
            base = _heal_table(context, held, base, pin)
    return base


def _is_ahead(context: WriteContext, base: Base, pin: Pin) -> bool:
    if pin.owner != base.manifest.branch:
        return False
    return context.stores.tables.probe(context.open_pin(pin, base)) != pin.version


def _heal_table(context: WriteContext, held: HeldLeases, base: Base, pin: Pin) -> Base:
    held.check()
    clear_torn(context, context.open_pin(pin, base))
    drift = inspect_drift(context.stores, base.manifest, pin)
    for each in drift.moved:
        operation_id = operation_of(each)
        if operation_id and operation_id not in drift.ended:
            raise LeaseAbandoned(drift.lock_key, operation_id)
    if not drift.since:
        return base
    head = _undo_fenced(context, held, drift)
    if drift.has_foreign:
        raise DriftFound(pin.key, branch=base.manifest.branch, shown=pin.version, head=head.version)
    return _publish_healed(context, held, base, pin, head)


def _undo_fenced(context: WriteContext, held: HeldLeases, drift: Drift) -> Handle:
    """(1, 4) The newest version, after the commits of ended operations on top were undone."""
    if drift.restore_version is None:
        return drift.head
    held.check()
    undone = next(operation_of(each) for each in reversed(drift.moved) if drift.is_ended(each))
    logger.warning("undoing commits of the ended operation %s in %s", undone, drift.pin.key)
    to = Version(drift.restore_version)
    return restore(context, drift.lock_key, drift.head, to=to, recovers=undone)


def _publish_healed(
    context: WriteContext, held: HeldLeases, base: Base, pin: Pin, head: Handle
) -> Base:
    """Publish a version with the same rows as the version that is shown."""
    healed = Extension(
        operation_id=held.operation_id,
        recovery={"recovery_kind": HEALED, "table_key": pin.key},
    )
    return publish_newest(context, held, base, [(pin, head)], actor=ACTOR, extension=healed)


def heal_fenced(context: WriteContext, listed: Sequence[Listed]) -> None:
    """Undo what paused writers committed after their recovery, in the tables of their fences."""
    fences = find_fences(context.stores.objects, context.stores.effects, listed)
    undo_ended(context, (lock_key for each in fences for lock_key in each.lock_keys))
    for each in fences:
        if each.is_expired:
            context.stores.objects.delete(each.key)


def undo_ended(
    context: WriteContext, lock_keys: Iterable[LockKey] | None = None
) -> tuple[Drift, ...]:
    """Undo commits of ended operations, and remove torn versions, in these tables or in all.

    Skips a table that another writer holds: that writer healed the table first.
    """
    undone = []
    for lock_key in sorted(set(_owned(context) if lock_keys is None else lock_keys)):
        with suppress(BranchNotFound, LeaseHeld):
            base = context.bases.current(BranchName(lock_key.branch))
            pin = base.manifest.pins.get(lock_key.table)
            if pin is None or not _is_ahead(context, base, pin):
                continue
            drift = inspect_drift(context.stores, base.manifest, pin)
            if drift.restore_version is None and drift.torn is None:
                continue
            with (
                lease(context, lock_key, wait_ms_max=0) as held,
                suppress(LeaseAbandoned, DriftFound),
            ):
                heal_drift(
                    context, held, context.bases.current(base.manifest.branch), [lock_key.table]
                )
            undone.append(drift)
    return tuple(undone)


def _owned(context: WriteContext) -> Iterator[LockKey]:
    for branch in find_branches(context.stores):
        for pin in read_base(context.stores, branch).manifest.pins.values():
            if pin.owner == branch:
                yield LockKey(pin.key, branch)


# ── repairing, on request ────────────────────────────────────────────────────────────────────────


class DriftResolution(StrEnum):
    """What `repair` does with drift."""

    PUBLISH = "publish"
    """Publish the newest version."""
    DISCARD = "discard"
    """Restore the version that the branch shows, and publish the restore."""


def resolve_drift(
    context: WriteContext,
    held: HeldLeases,
    drifts: Sequence[Drift],
    resolution: DriftResolution,
    actor: str,
) -> Base:
    """End the drift of some tables of one branch in one commit. The caller holds their leases."""
    moved = []
    for each in drifts:
        held.check()
        head = each.head
        if resolution is DriftResolution.DISCARD:
            head = restore(
                context, each.lock_key, head, to=each.pin.version, recovers=held.operation_id
            )
        moved.append((each.pin, head))
    base = context.bases.current(drifts[0].branch)
    repaired = Extension(operation_id=held.operation_id)
    return publish_newest(context, held, base, moved, actor=actor, extension=repaired)
