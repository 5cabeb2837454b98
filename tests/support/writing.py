"""A small writer for tests of the commit protocol: one row into each table, in one commit."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lease import DEFAULT_TIMING, Timing
from omnigraph.commit.leases.owner import Owner
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, GroupMember, TableWrite, WriterKind
from omnigraph.commit.manifest.publish import Published
from omnigraph.commit.manifest.records import RowCounts
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.commit.recovery.heal import heal
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Handle, Mark, Staged

SCHEMA: Final = "node Person { name: String @key }  node Company { name: String @key }"
PERSON: Final = TableKey("node:Person")
COMPANY: Final = TableKey("node:Company")
BOTH: Final = (PERSON, COMPANY)


def new_graph(root: Path) -> Graph:
    return create(str(root), SCHEMA, settings=Settings(durability=Durability.RELAXED))


def stores_at(root: Path) -> Stores:
    return open_stores(str(root), REAL, durability=Durability.RELAXED)


def bench_of(stores: Stores, timing: Timing = DEFAULT_TIMING) -> WriteContext:
    return WriteContext(stores, Bases(stores), timing=timing)


def mortal_bench(stores: Stores, timing: Timing = DEFAULT_TIMING) -> WriteContext:
    """A writer whose process counts as dead as soon as it stops.

    A test that simulates deaths is itself alive, so the process is one of an earlier boot.
    """
    gone = Owner(host=socket.gethostname(), boot_id="an earlier boot", pid=1, pid_start=1)
    return WriteContext(stores, Bases(stores), timing=timing, owner=gone)


def appending(context: WriteContext, *names: str) -> Callable[[Handle, Mark], Staged]:
    def stage(handle: Handle, mark: Mark) -> Staged:
        rows = pa.table({"id": [*names], "name": [*names]}, schema=handle.schema)
        return context.stores.tables.stage_append(handle, rows, mark)

    return stage


def write(
    context: WriteContext,
    name: str,
    *,
    branch: BranchName = MAIN,
    keys: Sequence[TableKey] = BOTH,
    kind: WriterKind = WriterKind.MUTATION,
) -> Published:
    """Heal, then add one row of this name to each table."""
    heal(context)
    with acquire_write_locks(context, branch, keys) as lock:
        pins = lock.base.manifest.pins
        stage = appending(context, name)
        writes = tuple(TableWrite(key, pins[key].version, (stage,)) for key in keys)
        return run(lock, Change(kind, branch, writes, actor="writer"))


def write_group(
    context: WriteContext, names: Sequence[str], *, branch: BranchName = MAIN
) -> Published:
    """Heal, then add rows to both tables, one member of a group for each name.

    The last member touched more than a commit row holds.
    """
    heal(context)
    with acquire_write_locks(context, branch, BOTH) as lock:
        pins = lock.base.manifest.pins
        writes = tuple(
            TableWrite(key, pins[key].version, (appending(context, *names),)) for key in BOTH
        )
        effects = context.stores.effects
        members = tuple(
            GroupMember(
                CommitId(effects.new_id()),
                effects.now_ms() * 1000,
                {key: (name, *(["x" * 600] * 2 if name == names[-1] else [])) for key in BOTH},
                {key: RowCounts(inserted=1) for key in BOTH},
                actor=f"writer of {name}",
            )
            for name in names
        )
        return run(lock, Change(WriterKind.MUTATION, branch, writes, group=members))


def names_in(root: Path, key: TableKey, branch: BranchName = MAIN) -> set[str]:
    """The rows a branch shows of a table, read afresh."""
    stores = stores_at(root)
    pin = Bases(stores).current(branch).manifest.pins[key]
    return {row["id"] for row in stores.tables.read(open_pin(stores, pin)).to_pylist()}
