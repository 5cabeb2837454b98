"""Reading how far an unfinished operation got: one `Inspection` per table of its sidecar.

The caller holds the leases of the tables. An inspection changes one thing only: it removes a newest
version that no branch shows and that a power cut left unreadable (class *Torn*, D31).
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from omnigraph.commit.compat.old_sidecar import OldPin, OldSidecar
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.base import Base, find_incarnation
from omnigraph.commit.recovery.classify import PinClass, classify, classify_by_number
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.commit.recovery.sidecar_store import AnySidecar
from omnigraph.errors import (
    BranchNotFound,
    InvariantViolated,
    ObjectCorrupt,
    TableCorrupt,
    TableNotFound,
    VersionNotFound,
)
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey, Version, lance_branch
from omnigraph.storage.tables import Handle, TableBranch, TableRef, TransactionRecord

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What an operation did to one table."""

    key: TableKey
    branch: BranchName
    expected: Version
    shown: Version
    head: Handle | None
    """The newest version on the table branch of the writer; None if the fork was never made."""
    since: tuple[TransactionRecord, ...]
    """The transactions of the versions after the one that is shown."""
    is_fork: bool
    """Does the branch's manifest not show this fork?"""
    pin_class: PinClass
    write: PinnedWrite | None = None
    """The entry of a version 3 sidecar."""
    fork: TableBranch | None = None
    """The fork at the time of the inspection."""

    @property
    def lock_key(self) -> LockKey:
        return LockKey(self.key, self.branch)

    @property
    def is_new(self) -> bool:
        """Does the operation create the table? `expected` is then the version found before."""
        return self.write is not None and self.write.is_new

    @property
    def shown_as(self) -> TableKey | None:
        """The key by which the operation shows the table, if it renames the table."""
        return None if self.write is None else self.write.shown_as


def is_orphaned(context: WriteContext, sidecar: AnySidecar) -> bool:
    """Was the branch of the operation deleted, even if its name exists again?"""
    try:
        identifier = find_incarnation(context.stores, sidecar.branch)
    except BranchNotFound:
        return True
    return isinstance(sidecar, Sidecar) and sidecar.branch_identifier != identifier


def find_base(context: WriteContext, sidecar: AnySidecar) -> Base | None:
    """The branch of the operation; None if it was deleted."""
    if is_orphaned(context, sidecar):
        return None
    return context.bases.reread(sidecar.branch)


def inspect(context: WriteContext, base: Base, sidecar: AnySidecar) -> list[Inspection]:
    """Every table that the sidecar names, in its order."""
    pins: Sequence[PinnedWrite | OldPin]
    pins = sidecar.writes if isinstance(sidecar, Sidecar) else sidecar.pins
    return [_inspect_table(context, base, sidecar, each) for each in pins]


def _inspect_table(
    context: WriteContext, base: Base, sidecar: AnySidecar, pin: PinnedWrite | OldPin
) -> Inspection:
    if isinstance(pin, PinnedWrite) and pin.is_new:
        return _inspect_new(context, sidecar.operation_id, pin)
    manifest = base.manifest
    path = manifest.paths.get(pin.key)
    shown = manifest.version_of(pin.key)
    visible = manifest.pins.get(pin.key)
    is_fork = pin.branch != MAIN and (visible is None or visible.owner != pin.branch)
    if visible is not None and visible.owner == pin.branch:
        with suppress(VersionNotFound):
            clear_torn(context, context.open_pin(visible, base))
    fork = None
    if is_fork and path is not None:
        fork = _find_fork(context, path, pin.branch)
    head = None if path is None else _open_head(context, path, pin.branch, is_fork=is_fork)
    since: tuple[TransactionRecord, ...] = ()
    if head is not None and head.version > shown:
        since = context.stores.tables.find_transactions(head, after=shown)
    if head is None:
        pin_class = PinClass.NO_MOVEMENT
    elif isinstance(sidecar, OldSidecar):
        assert isinstance(pin, OldPin)
        pin_class = classify_by_number(sidecar.mode, pin, head=head.version, shown=shown)
    elif head.version < shown:
        pin_class = PinClass.INVARIANT_VIOLATION
    else:
        assert isinstance(pin, PinnedWrite)
        pin_class = classify(pin, sidecar.operation_id, shown=shown, since=since)
    is_foreign = pin_class in (PinClass.INVARIANT_VIOLATION, PinClass.DRIFTED)
    if is_fork and is_foreign and isinstance(sidecar, Sidecar):
        # The fork belongs to a deleted branch of the same name, and this operation never made its
        # own. The next writer that makes the fork removes the old one.
        head, since, pin_class = None, (), PinClass.NO_MOVEMENT
    return Inspection(
        pin.key,
        pin.branch,
        pin.expected,
        shown,
        head,
        since,
        is_fork,
        pin_class,
        pin if isinstance(pin, PinnedWrite) else None,
        fork,
    )


def _inspect_new(context: WriteContext, operation_id: OperationId, pin: PinnedWrite) -> Inspection:
    """A table that the operation creates. No branch shows it; `expected` counts as shown."""
    tables, shown, pin_class = context.stores.tables, pin.expected, PinClass.NO_MOVEMENT
    since: tuple[TransactionRecord, ...] = ()
    head: Handle | None = None
    if shown:
        clear_torn(context, tables.open_at(TableRef(pin.path), shown))
    try:
        head = tables.open_at(TableRef(pin.path))
    except TableNotFound:
        pass
    except TableCorrupt:
        # Torn. The operation made the first version, so the whole table is removed.
        context.stores.objects.delete_prefix(pin.path)
    if head is not None:
        since = tables.find_transactions(head, after=shown)
        pin_class = classify(pin, operation_id, shown=shown, since=since)
    return Inspection(
        pin.key,
        pin.branch,
        shown,
        shown,
        head,
        since,
        is_fork=False,
        pin_class=pin_class,
        write=pin,
    )


def _find_fork(context: WriteContext, path: str, branch: BranchName) -> TableBranch | None:
    """A fork that no branch shows. Removes one whose ref a power cut tore."""
    tables = context.stores.tables
    try:
        return tables.find_branch(path, branch)
    except ObjectCorrupt:
        logger.warning("the ref of the fork %s of %s was torn by a power cut", branch, path)
        tables.clear_branch(path, branch)
        return None


def _open_head(
    context: WriteContext, path: str, branch: BranchName, *, is_fork: bool
) -> Handle | None:
    """The newest version; None if the list of the table's branches does not name the fork."""
    tables, spelled = context.stores.tables, lance_branch(branch)
    if spelled is not None and tables.find_branch(path, spelled) is None:
        return None
    try:
        return tables.open_at(TableRef(path, spelled))
    except (TableCorrupt, TableNotFound):
        if not is_fork:
            raise
        # Torn, or its ref reached the disk before its first version did. No branch shows the fork,
        # so the whole fork is removed.
        tables.clear_branch(path, branch)
        return None


def clear_torn(context: WriteContext, shown: Handle) -> None:
    """Remove every torn version above the version that is shown (D31)."""
    tables = context.stores.tables
    while (torn := tables.find_torn(shown)) is not None:
        logger.warning("version %d of %s was torn by a power cut", torn, shown.ref.path)
        tables.remove_torn(shown, torn)


def invariant_violation(sidecar: AnySidecar, found: Sequence[Inspection]) -> InvariantViolated:
    """The error for the first table that is behind the version that its branch shows."""
    behind = next(each for each in found if each.pin_class is PinClass.INVARIANT_VIOLATION)
    head = 0 if behind.head is None else behind.head.version
    return InvariantViolated(
        sidecar.operation_id,
        table_key=behind.key,
        reason=f"the branch shows version {behind.shown}, the table is at {head}, "
        "and what lies between is not this operation's",
    )
