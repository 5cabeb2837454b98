"""What a write looks at before it locks its tables: in a remote store, everything together (D30).

The look-ups do not depend on each other: sidecars of dead writers, the lock of a schema change, the
newest version of the branch, and the newest version of each table. Read one after the other they
are most of the waits of a small write.

What is read here counts as read under the leases in two cases:

1. This process held the lease before and since, in its cache. The epoch of a lease rises with every
   operation that uses it, so equal epochs prove that no other operation has written the table.
2. The lease did not exist, and the operation created it. A lease is never deleted, so no operation
   has ever written the table on this branch. Most first writes of a branch are such.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.commit.attempt.schema_lock import is_locked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.holder import LeaseLook
from omnigraph.commit.leases.lock_key import LockKey, lock_keys_for
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.ids import BranchName, TableKey, Version
from omnigraph.storage.layout import RECOVERY, sidecar_key
from omnigraph.storage.objects import Listed


@dataclass(frozen=True, slots=True)
class WriteEntry:
    """What a write found when it began, in a store in which nothing needed a recovery."""

    base: Base
    newest: Mapping[TableKey, Version]
    """The newest version of each table that the branch owns."""
    epochs: Mapping[LockKey, int]
    """The leases that were in the cache before anything was read."""
    looks: Mapping[LockKey, LeaseLook]
    """What the store held of the other leases."""

    def was_read_under(self, leases: HeldLeases) -> bool:
        """Has no other operation used any of the leases since before the look-ups?"""
        absent = [key for key, look in self.looks.items() if look.found is None]
        return leases.are_untouched_since(self.epochs, absent)

    def narrowed_to(self, keys: Collection[TableKey]) -> "WriteEntry | None":
        """What it says about some of its tables; None if it does not know all of them."""
        wanted = set(lock_keys_for(self.base.manifest.branch, keys))
        epochs = {key: epoch for key, epoch in self.epochs.items() if key in wanted}
        looks = {key: look for key, look in self.looks.items() if key in wanted}
        if wanted != epochs.keys() | looks.keys():
            return None
        return replace(self, epochs=epochs, looks=looks)


def enter(
    context: WriteContext,
    branch: BranchName,
    keys: Collection[TableKey],
    *,
    beside: Sequence[Callable[[], None]] = (),
) -> WriteEntry | None:
    """Recover dead writers, and look at what a write of these tables needs to know.

    None if the write must look again under its leases. `beside` are look-ups of the caller, made at
    the same time if there is a wave of them, and otherwise not at all. Raises what `heal` raises; a
    locked schema is found again, and refused, when the tables are locked.
    """
    known = context.bases.known(branch)
    if not context.stores.is_remote or known is None:
        heal(context)
        return None
    lock_keys = lock_keys_for(branch, keys)
    epochs = context.leases.find_cached(lock_keys)
    # Read before the listing: a sidecar that is being removed may still be listed.
    ending = context.afterwards.names
    listed: list[Listed] = []
    bases: list[Base] = []
    newest: dict[TableKey, Version] = {}
    is_free: list[bool] = []
    looks: dict[LockKey, LeaseLook] = {}
    calls: list[Callable[[], None]] = [
        lambda: listed.extend(context.stores.objects.list(RECOVERY)),
        lambda: is_free.append(not is_locked(context)),
        lambda: bases.append(context.bases.current(branch)),
    ]
    calls += [_probe(context, known, key, newest) for key in keys]
    calls += [_look(context, each, looks) for each in lock_keys if each not in epochs]
    context.stores.together([*calls, *beside])
    has_left = not ending.issuperset(find_sidecars(context.stores.objects, listed))
    heal(context, [each for each in listed if each.key not in map(sidecar_key, ending)])
    (base,) = bases
    # The probes used the versions of the known base. A branch that moved may show others.
    if has_left or not all(is_free) or base.manifest.pins != known.manifest.pins:
        return None
    return WriteEntry(base, newest, epochs, looks)


def look_again(
    context: WriteContext, branch: BranchName, keys: Collection[TableKey]
) -> tuple[Base, Mapping[TableKey, Version] | None]:
    """The branch and the newest version of each table, for a writer that holds the leases.

    In a remote store they are read together. The versions are None if the branch moved: the probes
    then began at versions that it showed before.
    """
    known = context.bases.known(branch)
    if not context.stores.is_remote or known is None:
        return context.bases.current(branch), None
    newest: dict[TableKey, Version] = {}
    bases: list[Base] = []
    calls: list[Callable[[], None]] = [lambda: bases.append(context.bases.current(branch))]
    context.stores.together([*calls, *(_probe(context, known, key, newest) for key in keys)])
    return bases[0], newest if bases[0].manifest.pins == known.manifest.pins else None


def _look(
    context: WriteContext, lock_key: LockKey, looks: dict[LockKey, LeaseLook]
) -> Callable[[], None]:
    def look() -> None:
        looks[lock_key] = context.leases.look(lock_key)

    return look


def _probe(
    context: WriteContext, known: Base, key: TableKey, newest: dict[TableKey, Version]
) -> Callable[[], None]:
    def probe() -> None:
        pin = known.manifest.pins.get(key)
        if pin is not None and pin.owner == known.manifest.branch:
            newest[key] = Version(context.stores.tables.probe(context.open_pin(pin, known)))

    return probe
