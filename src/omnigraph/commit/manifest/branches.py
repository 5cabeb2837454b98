"""Branches of the graph, and the table forks that their first writes make.

A branch of the graph is a branch of `__manifest`. It starts with the rows of its parent, and its
creation costs the same whatever the graph holds. A table is forked when a branch first writes it.

1. The branches of the manifest are the authority. A fork that no branch's manifest names is an
   orphan. Only an orphan is removed, and nothing is removed if a manifest cannot be read (D6).
2. A branch name may not be a path prefix of another live name, because their files would mix.
3. A branch that has children, or whose files another branch shows, cannot be deleted.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from omnigraph.commit.compat.legacy import has_legacy_commits, open_legacy_commits
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    BranchNameInvalid,
    BranchNotFound,
    ExpectedVersionMismatch,
    ForkExists,
    ForkInUse,
    StorageFailure,
)
from omnigraph.ids import (
    MAIN,
    SCHEMA_LOCK,
    BranchName,
    TableKey,
    find_overlap,
    lance_branch,
)
from omnigraph.storage.layout import LEGACY_COMMITS, MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle


def find_branches(stores: Stores) -> tuple[BranchName, ...]:
    """Main first, then the others by name."""
    found = sorted(each.name for each in stores.tables.find_branches(MANIFEST))
    return (MAIN, *(BranchName(name) for name in found if name != SCHEMA_LOCK))


def create_branch(
    stores: Stores,
    name: BranchName,
    source: Handle,
    *,
    recheck: Callable[[], None] = lambda: None,
) -> None:
    """Create a branch that starts as `source`, a version of some branch's manifest.

    Calls `recheck` once the branch exists, and removes the branch again if `recheck` raises. A
    schema change locks the schema first and lists the branches afterwards. So either `recheck`
    sees the lock, or the schema change sees the branch. Raises BranchExists, BranchNameInvalid.
    """
    live = set(find_branches(stores))
    if name in live:
        raise BranchExists(name)
    if (other := find_overlap(name, live)) is not None:
        raise BranchNameInvalid(name, reason=f"its path overlaps the branch '{other}'")
    if stores.tables.find_branch(MANIFEST, name) is None:
        # A creation that died left a folder, which would make the fork fail.
        stores.tables.clear_branch(MANIFEST, name)
    stores.tables.fork(source, name)
    try:
        recheck()
        _mirror(stores, name, source)
    except BaseException:
        stores.tables.clear_branch(MANIFEST, name)
        raise


def _mirror(stores: Stores, name: BranchName, source: Handle) -> None:
    """A graph with the old table of commits gets the same branch there (D12)."""
    if not has_legacy_commits(stores):
        return
    stores.tables.clear_branch(LEGACY_COMMITS, name)
    stores.tables.fork(open_legacy_commits(stores, source), name)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion. Cleanup removes the forks that are left."""

    name: BranchName
    forks_left: tuple[TableKey, ...]


def delete_branch(stores: Stores, bases: Bases, name: BranchName) -> Deleted:
    """Raises BranchNotFound, BranchInUse, BranchNameInvalid."""
    if name == MAIN:
        raise BranchNameInvalid(name, reason="main cannot be deleted")
    live = find_branches(stores)
    if name not in live:
        raise BranchNotFound(name)
    owned = [pin for pin in bases.reread(name).manifest.pins.values() if pin.owner == name]
    _check_unused(stores, bases, name, live)
    stores.tables.clear_branch(MANIFEST, name)
    bases.forget(name)
    if has_legacy_commits(stores):
        _try_clear(stores, LEGACY_COMMITS, name)
    left = tuple(pin.key for pin in owned if not _try_clear(stores, pin.path, name))
    return Deleted(name, left)


def _check_unused(
    stores: Stores, bases: Bases, name: BranchName, live: tuple[BranchName, ...]
) -> None:
    children = [each.name for each in stores.tables.find_branches(MANIFEST) if each.parent == name]
    readers = [
        other
        for other in live
        if other != name
        and any(pin.owner == name for pin in bases.current(other).manifest.pins.values())
    ]
    if users := sorted({*children, *readers}):
        raise BranchInUse(name, users=users)


def _try_clear(stores: Stores, path: str, name: BranchName) -> bool:
    """Remove a fork; False if that is not possible now. Cleanup removes it later."""
    try:
        stores.tables.clear_branch(path, name)
    except (ForkInUse, StorageFailure):
        return False
    return True


def fork_table(
    stores: Stores,
    bases: Bases,
    key: TableKey,
    branch: BranchName,
    *,
    check: Callable[[], None] = lambda: None,
) -> Handle:
    """Fork a table for a branch that does not own it, at the version that the branch shows.

    Removes an orphan of the same name first. Calls `check` before that: a caller that was paused
    and lost its lease must not remove the fork of another writer. Reads the branch again. Raises
    ExpectedVersionMismatch if the branch owns the table by now, because another writer was first.
    """
    spelled = lance_branch(branch)
    assert spelled is not None, "main owns what it writes"
    pin = _find_unowned(bases, key, branch)
    if stores.tables.find_branch(pin.path, spelled) is None:
        with suppress(ForkExists):
            return _fork(stores, pin, spelled)
        pin = _find_unowned(bases, key, branch)
    _check_orphan(stores, bases, pin, branch)
    check()
    stores.tables.clear_branch(pin.path, spelled)
    return _fork(stores, pin, spelled)


def _find_unowned(bases: Bases, key: TableKey, branch: BranchName) -> Pin:
    pin = bases.reread(branch).manifest.pins[key]
    if pin.owner == branch:
        raise ExpectedVersionMismatch(key, expected=0, actual=pin.version)
    return pin


def _fork(stores: Stores, pin: Pin, branch: str) -> Handle:
    forked = stores.tables.fork(open_pin(stores, pin), branch)
    assert forked.version == pin.version, "a fork starts where it was forked"
    return forked


def _check_orphan(stores: Stores, bases: Bases, pin: Pin, branch: BranchName) -> None:
    """Raises BranchInUse if any branch shows the table with this fork as owner (D6)."""
    users = []
    for other in find_branches(stores):
        shown = bases.reread(other).manifest.pins.get(pin.key)
        if shown is not None and shown.owner == branch:
            users.append(other)
    if users:
        raise BranchInUse(branch, users=users)
