"""Tables whose newest version is not the one their branch shows, though no sidecar says why.

Under the lease of a table, that can only be the bytes of a writer that was taken for dead, woke up
and was fenced; or maintenance somebody did with another tool. The first are undone, the second are
shown; anything else is left alone and reported, for somebody to look at. Unless there is a note of
it after all: a writer that could not say how it ended gave its leases to whoever waited for them,
and the note is to be resolved first.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.commit.base import Base
from omnigraph.commit.judge import MAINTENANCE, OPERATION, RECOVERS
from omnigraph.commit.leases import Abandoned, Held
from omnigraph.commit.locks import Place
from omnigraph.commit.manifest import Manifest, Pin
from omnigraph.commit.publish import Publication, publish
from omnigraph.commit.records import Extension
from omnigraph.commit.resolve import ACTOR, recovery_commit_id, restore
from omnigraph.commit.sidecars import has_sidecar
from omnigraph.commit.snapshot import describe_table
from omnigraph.commit.updates import CommitIntent, SetVersion
from omnigraph.commit.workbench import Workbench
from omnigraph.errors import DriftFound, InvariantViolated
from omnigraph.ids import BranchName, CommitId, OperationId, TableKey, Version, lance_branch
from omnigraph.storage.tables import Handle, TableRef, Transacted, TransactionKind


def heal_drift(bench: Workbench, held: Held, base: Base, keys: Collection[TableKey]) -> Base:
    """The branch, once every table it owns among `keys` is at the version it shows.

    The caller holds their leases. Raises DriftFound, and Abandoned if a note must be resolved
    first. Costs one probe for each table.
    """
    for key in sorted(keys):
        pin = base.manifest.pins.get(key)
        if pin is None or pin.owner != base.manifest.branch:
            continue
        handle = bench.open_pin(pin, base)
        if bench.stores.tables.probe(handle) != pin.version:
            base = _heal(bench, held, base, pin)
    return base


def _heal(bench: Workbench, held: Held, base: Base, pin: Pin) -> Base:
    tables = bench.stores.tables
    head = tables.open_at(bench.open_pin(pin, base).ref)
    since = tables.find_transactions(head, after=pin.version)
    moved = [each for each in since if each.kind not in MAINTENANCE]
    strange = next((each for each in moved if not _is_fenced(base.manifest, each)), None)
    if strange is not None:
        operation_id, branch = _operation(strange), base.manifest.branch
        if operation_id and has_sidecar(bench.stores.objects, operation_id):
            raise Abandoned(Place(pin.key, branch), operation_id)
        raise DriftFound(pin.key, branch=branch, shown=pin.version, head=head.version)
    held.check()
    if moved:
        head = restore(bench, head, to=pin.version, recovers=_operation(moved[0]))
    return _show(bench, base, pin, head)


def _operation(transacted: Transacted) -> OperationId:
    properties = transacted.properties
    return OperationId(properties.get(OPERATION) or properties.get(RECOVERS) or "")


def _is_fenced(manifest: Manifest, transacted: Transacted) -> bool:
    """Was the operation of this transaction recovered, so that it can never be published?"""
    operation_id = _operation(transacted)
    if not operation_id:
        return False
    return manifest.log.find(recovery_commit_id(operation_id)) is not None


def _show(bench: Workbench, base: Base, pin: Pin, head: Handle) -> Base:
    """Publish a version that holds the very rows that are shown already."""
    bench.stores.tables.harden(head)
    effects = bench.stores.effects
    intent = CommitIntent(
        CommitId(effects.new_id()),
        effects.now_ms() * 1000,
        ACTOR,
        extension=Extension(recovery={"recovery_kind": "DriftHealed", "table_key": pin.key}),
    )
    publication = Publication(
        base.manifest.branch,
        (intent,),
        (SetVersion(describe_table(bench.stores, pin.key, head)),),
        {pin.key: Version(pin.version)},
    )
    return publish(bench.stores, bench.bases, publication).base


# ── for somebody to look at ──────────────────────────────────────────────────────────────────────


class DriftClass(StrEnum):
    """What made a table move without being published."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    """Only what changes no rows."""
    SUSPICIOUS = "suspicious"
    """Something that changes rows."""
    UNVERIFIABLE = "unverifiable"
    """A transaction cannot be read."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One table of a branch, and how far ahead of it its files are."""

    pin: Pin
    branch: BranchName
    head: Handle
    since: tuple[Transacted, ...]

    @property
    def verdict(self) -> DriftClass:
        kinds = {each.kind for each in self.since}
        if not kinds:
            return DriftClass.NO_DRIFT
        if TransactionKind.UNREADABLE in kinds:
            return DriftClass.UNVERIFIABLE
        if kinds <= MAINTENANCE:
            return DriftClass.VERIFIED_MAINTENANCE
        return DriftClass.SUSPICIOUS


def look_for_drift(bench: Workbench, base: Base) -> Iterator[Drift]:
    """Every table a branch owns, drifted or not. Raises InvariantViolated if one is behind."""
    tables, branch = bench.stores.tables, base.manifest.branch
    for key, pin in base.manifest.pins.items():
        if pin.owner != branch:
            continue
        head = tables.open_at(TableRef(pin.path, lance_branch(branch)))
        if head.version < pin.version:
            raise InvariantViolated(
                "repair", table_key=key, reason=f"it is at {head.version}, shown is {pin.version}"
            )
        yield Drift(pin, branch, head, tables.find_transactions(head, after=pin.version))


class Settling(StrEnum):
    """What becomes of drift."""

    PUBLISH = "publish"
    """The branch shows it from now on."""
    DISCARD = "discard"
    """The table goes back to what the branch shows."""


def settle_drift(
    bench: Workbench, held: Held, drifts: Sequence[Drift], how: Settling, actor: str
) -> Base:
    """End the drift of some tables of one branch, in one commit. The caller holds their leases."""
    heads = {}
    for each in drifts:
        held.check()
        head = each.head
        if how is Settling.DISCARD:
            head = restore(bench, head, to=each.pin.version, recovers=held.operation_id)
        bench.stores.tables.harden(head)
        heads[each.pin.key] = head
    effects = bench.stores.effects
    intent = CommitIntent(
        CommitId(effects.new_id()),
        effects.now_ms() * 1000,
        actor,
        extension=Extension(operation_id=held.operation_id),
    )
    updates = tuple(
        SetVersion(describe_table(bench.stores, key, head)) for key, head in heads.items()
    )
    expected = {each.pin.key: each.pin.version for each in drifts}
    publication = Publication(drifts[0].branch, (intent,), updates, expected)
    return publish(bench.stores, bench.bases, publication).base
