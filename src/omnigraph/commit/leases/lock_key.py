"""What a writer can lock. One lock key names one in-process queue, one lease and one fair queue."""

from collections.abc import Collection
from typing import Final, NamedTuple

from omnigraph.ids import MAIN, BranchName, TableKey


class LockKey(NamedTuple):
    """One table on one branch. Lock keys sort in the order in which every writer locks them."""

    table: TableKey
    branch: str
    """The name of the branch; main is spelled `main` here."""


SCHEMA_LOCK_KEY: Final = LockKey(TableKey("schema"), MAIN)
"""Locked by a schema change, in addition to every table."""

BRANCHES_LOCK_KEY: Final = LockKey(TableKey("branches"), MAIN)
"""Locked while a branch is created or deleted. The holder moves no table."""


def branch_lock_key(branch: BranchName) -> LockKey:
    """Locked by a write that moves no table of the branch."""
    return LockKey(TableKey("graph"), branch)


def lock_keys_for(branch: BranchName, keys: Collection[TableKey]) -> list[LockKey]:
    """What a write of these tables locks."""
    return [LockKey(key, branch) for key in keys] or [branch_lock_key(branch)]


def manifest_queue_key(branch: BranchName) -> LockKey:
    """The fair queue of a branch's publishers. Its lease is held to remove a torn version."""
    return LockKey(TableKey("manifest"), branch)
