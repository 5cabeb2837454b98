"""Committing to the tables of an attempt, each with the transactions that the sidecar names."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import assert_never

from omnigraph.commit.attempt.locks import WriteLock
from omnigraph.commit.manifest.branches import fork_table
from omnigraph.commit.manifest.change import Change, Creation, TableWrite, counts_of
from omnigraph.commit.manifest.records import RowCounts
from omnigraph.commit.recovery.classify import MAINTENANCE, OPERATION, operation_of
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.errors import DriftFound, ExpectedVersionMismatch, ForkExists
from omnigraph.ids import TableKey
from omnigraph.storage.durability import FlushWaves
from omnigraph.storage.tables import (
    ForkFiles,
    Handle,
    Landed,
    LandedLater,
    Mark,
    Refused,
    Staged,
    StagedCompaction,
    TableRef,
)

AnyStaged = Staged | StagedCompaction


def first_stages(
    lock: WriteLock, change: Change, sidecar: Sidecar
) -> list[Callable[[], tuple[TableKey, AnyStaged]]]:
    """Calls that stage the first commit of each table that exists and needs no fork."""
    return [
        partial(_stage_first, lock, write, pinned)
        for write, pinned in zip(change.writes, sidecar.writes, strict=True)
        if not pinned.is_fork and not pinned.is_new and pinned.transactions
    ]


def _stage_first(
    lock: WriteLock, write: TableWrite, pinned: PinnedWrite
) -> tuple[TableKey, AnyStaged]:
    handle = lock.context.open_pin(lock.base.manifest.pins[write.key], lock.base)
    first = write.stages[0](handle, _mark(lock, pinned.transactions[0]))
    assert first is not None, "a named write makes every commit"
    return write.key, first


def fork_reads(
    lock: WriteLock, change: Change, sidecar: Sidecar
) -> list[Callable[[], tuple[TableKey, ForkFiles | None]]]:
    """Calls that read ahead what each fork of a table needs. None is left for `apply_table`."""
    return [
        partial(_read_fork, lock, write, pinned)
        for write, pinned in zip(change.writes, sidecar.writes, strict=True)
        if pinned.is_fork
    ]


def _read_fork(
    lock: WriteLock, write: TableWrite, pinned: PinnedWrite
) -> tuple[TableKey, ForkFiles | None]:
    source = lock.context.open_pin(lock.base.manifest.pins[write.key], lock.base)
    with suppress(ForkExists):
        return write.key, lock.context.stores.tables.read_fork(source, pinned.branch)
    return write.key, None


def _mark(lock: WriteLock, uuid: str) -> Mark:
    return Mark(uuid, {OPERATION: lock.operation_id})


def apply_table(
    lock: WriteLock,
    write: TableWrite,
    pinned: PinnedWrite,
    staged_first: Mapping[TableKey, AnyStaged],
    waves: FlushWaves,
    *,
    fork_files: ForkFiles | None,
) -> tuple[Handle, RowCounts]:
    """Commit to one table, each commit on top of the one before."""
    context, base = lock.context, lock.base
    context.observe(f"apply {pinned.key}")
    lock.leases.check()
    uuids = pinned.transactions or tuple(context.stores.effects.new_id() for _ in write.stages)
    if write.creation is not None:
        handle = _create(lock, write, write.creation, _mark(lock, uuids[0]), waves)
        uuids = uuids[1:]
    else:
        handle = context.open_pin(base.manifest.pins[write.key], base)
    if pinned.is_fork:
        handle = fork_table(
            context.stores,
            context.bases,
            write.key,
            pinned.branch,
            handle,
            files=fork_files,
            check=lock.leases.check,
            waves=waves,
        )
    staged = staged_first.get(write.key)
    made = []
    for stage, uuid in zip(write.stages, uuids, strict=True):
        change = stage(handle, _mark(lock, uuid)) if staged is None else staged
        staged = None
        if change is not None:
            lock.leases.check()
            handle = _commit(lock, write, change, waves)
            made.append(change)
        else:
            assert not write.is_named, "a named write makes every commit"
    return handle, counts_of(made)


def _create(
    lock: WriteLock, write: TableWrite, creation: Creation, mark: Mark, waves: FlushWaves
) -> Handle:
    """The empty table; on top of a hidden older one, if any, so that versions only rise."""
    tables, ref = lock.context.stores.tables, TableRef(creation.path)
    if write.expected == 0:
        return _commit(lock, write, tables.stage_create(ref, creation.schema, mark), waves)
    hidden = tables.open_at(ref, write.expected)
    return _commit(lock, write, tables.stage_overwrite(hidden, creation.schema, mark), waves)


def _commit(lock: WriteLock, write: TableWrite, change: AnyStaged, waves: FlushWaves) -> Handle:
    tables = lock.context.stores.tables
    if isinstance(change, StagedCompaction):
        outcome = tables.single_step.commit_compaction(change, waves)
    else:
        outcome = tables.commit_exact(change, waves)
    match outcome:
        case Landed(handle):
            return handle
        case LandedLater(handle):
            _check_between(lock, write, change, handle)
            return handle
        case Refused():
            actual = tables.open_at(change.ref).version
            raise ExpectedVersionMismatch(write.key, expected=change.read_version, actual=actual)
    assert_never(outcome)


def _check_between(
    lock: WriteLock, write: TableWrite, change: Staged | StagedCompaction, handle: Handle
) -> None:
    """Raises DriftFound if a foreign transaction moved rows below our commit (D38)."""
    for each in lock.context.stores.tables.find_transactions(handle, after=change.read_version):
        if each.kind not in MAINTENANCE and operation_of(each) != lock.operation_id:
            raise DriftFound(
                write.key,
                branch=lock.base.manifest.branch,
                shown=write.expected,
                head=handle.version,
            )
