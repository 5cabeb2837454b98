"""Tables whose newest version is not the one their branch shows, though no sidecar says why.

Under the lease of a table there are four reasons:

1. The bytes of an operation that is over: it was taken for dead, woke up and was fenced; or its
   sidecar was removed by hand. Nobody can ever publish them. They are undone, by whoever comes
   first: a writer of the table, `refresh`, opening, doctor, repair. Nothing publishes them (D38).
2. A version that a power cut left unreadable. It is removed (D31).
3. Maintenance somebody did with another tool. It is shown.
4. Anything else is foreign. It is left alone and reported, for somebody to look at; what is to be
   undone above it is undone to right above it, and what lies below it stays.

Unless there is a sidecar after all: a writer that could not say how it ended gave its leases to
whoever waited for them, and the sidecar is to be resolved first.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.fences import find_fences
from omnigraph.commit.leases.holder import HeldLeases
from omnigraph.commit.leases.lease import LeaseAbandoned
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.base import Base, read_base
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.commit.manifest.records import Extension
from omnigraph.commit.manifest.snapshot import describe_table, open_pin
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion
from omnigraph.commit.recovery.classify import MAINTENANCE, find_below, find_held, operation_of
from omnigraph.commit.recovery.heal import lease
from omnigraph.commit.recovery.resolve import ACTOR, clear_torn, recovery_commit_id, restore
from omnigraph.commit.recovery.sidecar_store import has_sidecar
from omnigraph.errors import BranchNotFound, DriftFound, InvariantViolated, LeaseHeld
from omnigraph.ids import BranchName, CommitId, OperationId, TableKey, Version
from omnigraph.storage.objects import Listed
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, TransactionKind, TransactionRecord

logger = logging.getLogger(__name__)

# ── what there is ────────────────────────────────────────────────────────────────────────────────


class DriftClass(StrEnum):
    """What made a table move without being published."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    """Only what changes no rows."""
    SUSPICIOUS = "suspicious"
    """Something that changes rows."""
    UNVERIFIABLE = "unverifiable"
    """A transaction cannot be read."""
    FENCED = "fenced"
    """(1) Only operations of ours that are over."""
    TORN = "torn"
    """(2) The newest version cannot be read."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One table of a branch, and how far ahead of it its files are."""

    pin: Pin
    branch: BranchName
    head: Handle
    """The newest version; what the branch shows, if that is torn."""
    since: tuple[TransactionRecord, ...] = ()
    over: frozenset[OperationId] = frozenset()
    """(1) The operations among them that are over."""
    torn: int | None = None

    @property
    def lock_key(self) -> LockKey:
        return LockKey(self.pin.key, self.branch)

    @property
    def held(self) -> tuple[TransactionRecord, ...]:
        return find_held(self.pin.version, self.since)

    @property
    def moved(self) -> tuple[TransactionRecord, ...]:
        """What changed rows, and is in the newest version."""
        return tuple(each for each in self.held if each.kind not in MAINTENANCE)

    @property
    def has_foreign(self) -> bool:
        return not all(map(self.is_over, self.moved))

    @property
    def has_fenced(self) -> bool:
        """Would publishing it publish what was undone?"""
        return any(map(self.is_over, self.moved))

    @property
    def below(self) -> int | None:
        """The version to restore, if there is anything to undo and nothing foreign on top of it."""
        return find_below(self.pin.version, self.held, self.is_over)

    def is_over(self, transacted: TransactionRecord) -> bool:
        return operation_of(transacted) in self.over

    @property
    def verdict(self) -> DriftClass:
        if self.torn is not None:
            return DriftClass.TORN
        if not self.since:
            return DriftClass.NO_DRIFT
        if any(each.kind is TransactionKind.UNREADABLE for each in self.held):
            return DriftClass.UNVERIFIABLE
        if not self.moved:
            return DriftClass.VERIFIED_MAINTENANCE
        return DriftClass.SUSPICIOUS if self.has_foreign else DriftClass.FENCED


def look_at(stores: Stores, manifest: Manifest, pin: Pin) -> Drift:
    """A table that its branch owns. Raises InvariantViolated if it is behind."""
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
    over = frozenset(each for each in named if _is_over(stores, manifest, each))
    return Drift(pin, manifest.branch, head, since, over)


def _is_over(stores: Stores, manifest: Manifest, operation_id: OperationId) -> bool:
    """Was the operation recovered, or is there nothing left to recover it from?

    No table moves before its sidecar is there, and it goes only when nothing is left to be done.
    """
    if manifest.log.find(recovery_commit_id(operation_id)) is not None:
        return True
    return not has_sidecar(stores.objects, operation_id)


def look_for_drift(stores: Stores, manifest: Manifest) -> Iterator[Drift]:
    """Every table a branch owns, drifted or not. Raises InvariantViolated if one is behind."""
    for pin in manifest.pins.values():
        if pin.owner == manifest.branch:
            yield look_at(stores, manifest, pin)


# ── without being asked ──────────────────────────────────────────────────────────────────────────


def heal_drift(
    context: WriteContext, held: HeldLeases, base: Base, keys: Collection[TableKey]
) -> Base:
    """The branch, once every table it owns among `keys` is at the version it shows.

    The caller holds their leases. Raises DriftFound, and LeaseAbandoned if a sidecar must be
    resolved first. Costs one probe for each table.
    """
    for key in sorted(keys):
        pin = base.manifest.pins.get(key)
        if pin is not None and _is_ahead(context, base, pin):
            base = _heal(context, held, base, pin)
    return base


def _is_ahead(context: WriteContext, base: Base, pin: Pin) -> bool:
    if pin.owner != base.manifest.branch:
        return False
    return context.stores.tables.probe(context.open_pin(pin, base)) != pin.version


def _heal(context: WriteContext, held: HeldLeases, base: Base, pin: Pin) -> Base:
    held.check()
    clear_torn(context, context.open_pin(pin, base))
    drift = look_at(context.stores, base.manifest, pin)
    for each in drift.moved:
        operation_id = operation_of(each)
        if operation_id and operation_id not in drift.over:
            raise LeaseAbandoned(drift.lock_key, operation_id)
    if not drift.since:
        return base
    head = _undo_fenced(context, held, drift)
    if drift.has_foreign:
        raise DriftFound(pin.key, branch=base.manifest.branch, shown=pin.version, head=head.version)
    return _show(context, base, pin, head)


def _undo_fenced(context: WriteContext, held: HeldLeases, drift: Drift) -> Handle:
    """(1, 4) The newest version, once what can be undone of it is."""
    if drift.below is None:
        return drift.head
    held.check()
    undone = next(operation_of(each) for each in reversed(drift.moved) if drift.is_over(each))
    logger.warning("undoing what %s, which is over, did to %s", undone, drift.pin.key)
    return restore(context, drift.lock_key, drift.head, to=Version(drift.below), recovers=undone)


def _show(context: WriteContext, base: Base, pin: Pin, head: Handle) -> Base:
    """Publish a version that holds the very rows that are shown already."""
    context.stores.tables.fsync_version(head)
    effects = context.stores.effects
    intent = CommitIntent(
        CommitId(effects.new_id()),
        effects.now_ms() * 1000,
        ACTOR,
        extension=Extension(recovery={"recovery_kind": "DriftHealed", "table_key": pin.key}),
    )
    publication = Publication(
        base.manifest.branch,
        (intent,),
        (SetVersion(describe_table(context.stores, pin.key, head)),),
        {pin.key: Version(pin.version)},
    )
    return publish(context.stores, context.bases, publication).base


def heal_fenced(context: WriteContext, listed: Sequence[Listed]) -> None:
    """Undo what sleepers did since they woke up, where `__recovery` has fences of them."""
    fences = find_fences(context.stores.objects, context.stores.effects, listed)
    undo_over(context, (lock_key for each in fences for lock_key in each.lock_keys))
    for each in fences:
        if each.is_expired:
            context.stores.objects.delete(each.key)


def undo_over(
    context: WriteContext, lock_keys: Iterable[LockKey] | None = None
) -> tuple[Drift, ...]:
    """Undo what operations that are over left, and what is torn, in these tables or in all.

    What somebody writes just now is left to them: they looked first.
    """
    undone = []
    for lock_key in sorted(set(_owned(context) if lock_keys is None else lock_keys)):
        with suppress(BranchNotFound, LeaseHeld):
            base = context.bases.current(BranchName(lock_key.branch))
            pin = base.manifest.pins.get(lock_key.table)
            if pin is None or not _is_ahead(context, base, pin):
                continue
            drift = look_at(context.stores, base.manifest, pin)
            if drift.below is None and drift.torn is None:
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


# ── when somebody asks ───────────────────────────────────────────────────────────────────────────


class Settling(StrEnum):
    """What becomes of drift."""

    PUBLISH = "publish"
    """The branch shows it from now on."""
    DISCARD = "discard"
    """The table goes back to what the branch shows."""


def settle_drift(
    context: WriteContext, held: HeldLeases, drifts: Sequence[Drift], how: Settling, actor: str
) -> Base:
    """End the drift of some tables of one branch, in one commit. The caller holds their leases."""
    heads = {}
    for each in drifts:
        held.check()
        head = each.head
        if how is Settling.DISCARD:
            head = restore(
                context, each.lock_key, head, to=each.pin.version, recovers=held.operation_id
            )
        context.stores.tables.fsync_version(head)
        heads[each.pin.key] = head
    effects = context.stores.effects
    intent = CommitIntent(
        CommitId(effects.new_id()),
        effects.now_ms() * 1000,
        actor,
        extension=Extension(operation_id=held.operation_id),
    )
    updates = tuple(
        SetVersion(describe_table(context.stores, key, head)) for key, head in heads.items()
    )
    expected = {each.pin.key: each.pin.version for each in drifts}
    publication = Publication(drifts[0].branch, (intent,), updates, expected)
    return publish(context.stores, context.bases, publication).base
