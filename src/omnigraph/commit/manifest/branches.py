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
from omnigraph.commit.manifest.commit_tags import find_tags
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
from omnigraph.storage.durability import FlushWaves
from omnigraph.storage.layout import LEGACY_COMMITS, MANIFEST, branch_folder
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import ForkFiles, Handle


def find_branches(stores: Stores) -> tuple[BranchName, ...]:
    """Main first, then the others by name."""
    found = stores.tables.find_branch_names(MANIFEST)
    return (MAIN, *(BranchName(name) for name in found if name != SCHEMA_LOCK))


def create_branch(
    stores: Stores,
    name: BranchName,
    source: Handle,
    *,
    recheck: Callable[[], None] = lambda: None,
) -> Handle:
    """Create a branch that starts as `source`, a version of some branch's manifest.

    Calls `recheck` once the branch exists, and removes the branch again if `recheck` raises. A
    schema change locks the schema first and lists the branches afterwards. So either `recheck`
    sees the lock, or the schema change sees the branch. Raises BranchExists, BranchNameInvalid.
    """
    live: set[BranchName] = set()
    left: list[bool] = []
    legacy: list[bool] = []
    files: list[ForkFiles | None] = []
    stores.together(
        [
            lambda: live.update(find_branches(stores)),
            lambda: left.append(_may_have_remains(stores, name)),
            lambda: legacy.append(has_legacy_commits(stores)),
            lambda: files.append(_read_ahead(stores, source, name)),
        ]
    )
    if name in live:
        raise BranchExists(name)
    if (other := find_overlap(name, live)) is not None:
        raise BranchNameInvalid(name, reason=f"its path overlaps the branch '{other}'")
    if any(left) and stores.tables.find_branch(MANIFEST, name) is None:
        # A creation that died left a folder, which would make the fork fail.
        stores.tables.clear_branch(MANIFEST, name)
    forked = stores.tables.fork(source, name, files=files[0])
    try:
        recheck()
        if any(legacy):
            _mirror(stores, name, source)
    except BaseException:
        stores.tables.clear_branch(MANIFEST, name)
        raise
    return forked


def _read_ahead(stores: Stores, source: Handle, name: str) -> ForkFiles | None:
    """None also if the branch, or remains of it, are there: the caller finds out which."""
    with suppress(ForkExists):
        return stores.tables.read_fork(source, name)
    return None


def _may_have_remains(stores: Stores, name: BranchName) -> bool:
    """May there be files of a creation that died? A bucket has no empty folders, and is listed."""
    folder = f"{MANIFEST}/{branch_folder(lance_branch(name))}"
    return not stores.is_remote or bool(stores.objects.list(folder))


def _mirror(stores: Stores, name: BranchName, source: Handle) -> None:
    """A graph with the old table of commits gets the same branch there (D12)."""
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
    log = bases.current(name).manifest.log
    tags = [
        f"tag {each.name}"
        for each in find_tags(stores.objects)
        if (commit := log.find(each.commit_id)) is not None and commit.branch == name
    ]
    if users := sorted({*children, *readers, *tags}):
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
    source: Handle,
    *,
    files: ForkFiles | None = None,
    check: Callable[[], None] = lambda: None,
    waves: FlushWaves | None = None,
) -> Handle:
    """Fork a table for a branch that does not own it, at the version that the branch shows.

    `source` is that version, read under the lease; `files` is what was read ahead of the fork.

    If a fork is there, reads the branch again and removes an orphan. Calls `check` before that: a
    caller that was paused and lost its lease must not remove the fork of another writer. Raises
    ExpectedVersionMismatch if the branch owns the table by now, because another writer was first.
    """
    spelled = lance_branch(branch)
    assert spelled is not None, "main owns what it writes"
    with suppress(ForkExists):
        return stores.tables.fork(source, spelled, waves, files)
    pin = _find_unowned(bases, key, branch)
    _check_orphan(stores, bases, pin, branch)
    check()
    stores.tables.clear_branch(pin.path, spelled)
    return stores.tables.fork(open_pin(stores, pin), spelled, waves)


def _find_unowned(bases: Bases, key: TableKey, branch: BranchName) -> Pin:
    pin = bases.reread(branch).manifest.pins[key]
    if pin.owner == branch:
        raise ExpectedVersionMismatch(key, expected=0, actual=pin.version)
    return pin


def _check_orphan(stores: Stores, bases: Bases, pin: Pin, branch: BranchName) -> None:
    """Raises BranchInUse if any branch shows the table with this fork as owner (D6)."""
    users = []
    for other in find_branches(stores):
        shown = bases.reread(other).manifest.pins.get(pin.key)
        if shown is not None and shown.owner == branch:
            users.append(other)
    if users:
        raise BranchInUse(branch, users=users)
