"""One write of rows, from the request to the commit.

    gate → compile the request → heal → lock the tables → run the statements into `Pending`
      → find existing rows → validate → Change

1. A request that is invalid by itself is refused before any table is read.
2. A table that the write updates or deletes from must not have changed since the call began, or the
   write fails (D5). A table that the write only inserts into is used as it is once locked. Upkeep
   changes no row, so it never makes a write fail, nor a comparison of heads.
3. Nothing is staged before everything is valid: a failed write leaves every table unchanged. A
   write without effect makes no commit, unless it has an idempotency key.
4. The ends of edges are looked up in tables that are not locked. If such a table moves before the
   commit is published, the ends are looked up again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.entry import WriteEntry, enter
from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.change import Change, WriterKind
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.records import Commit, JsonObject
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.ir import NOW_PARAMETER
from omnigraph.compiler.parameters import IntegerEncoding, bind
from omnigraph.compiler.plan import DeleteRows, InsertRow, MutationPlan, UpdateRows
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.tables.cells import size_of
from omnigraph.engine.write.base_rows import BaseRows
from omnigraph.engine.write.idempotency import IdempotencyKey, find_done, run_idempotent
from omnigraph.engine.write.pending import Affected, Pending
from omnigraph.engine.write.row_rules import EdgeCount, Endpoint, rules_of_write
from omnigraph.engine.write.statements import BoundValues, run_statements
from omnigraph.engine.write.validate import Delta, evaluate_rules, find_violations
from omnigraph.engine.write.violations import Violation, check_none
from omnigraph.errors import ExpectedVersionMismatch, NotAMutation
from omnigraph.errors.base import counted
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version, table_key
from omnigraph.lang.source import Source
from omnigraph.storage.tables import TransactionKind


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """The branch and actor of a write, and the commit it builds on."""

    branch: BranchName = MAIN
    actor: str | None = None
    if_commit: CommitId | None = None
    """The commit that must be the head of the branch; None accepts any head."""
    idempotency: IdempotencyKey | None = None
    """A repeated request with this key returns the first result and writes nothing."""
    message: str | None = None
    """Why the write is made; kept in the commit."""


ON_MAIN: Final = WriteRequest()

_HARMLESS: Final = frozenset(
    {TransactionKind.INDEX, TransactionKind.CONFIG, TransactionKind.COMPACTION}
)
"""Transactions that change how rows are stored, and no row."""


@dataclass(frozen=True, slots=True)
class MutationResult:
    """The result of a write."""

    branch: BranchName
    query_name: str | None
    """None for a write without a query."""
    affected_nodes: int
    affected_edges: int
    actor: str | None
    commit: Commit | None
    """None if the write had no effect."""

    def __repr__(self) -> str:
        made = "no commit" if self.commit is None else f"commit {self.commit.id}"
        rows = f"{counted(self.affected_nodes, 'node')}, {counted(self.affected_edges, 'edge')}"
        return f"<MutationResult {rows} on {self.branch}: {made}>"


class WriteTask(Protocol):
    """A write before it runs: a mutation, a batch, or a small load."""

    __slots__ = ()

    kind: ClassVar[WriterKind] = WriterKind.MUTATION

    @property
    def tables(self) -> Collection[TableKey]:
        """Every table it may write."""
        ...

    @property
    def strict(self) -> Collection[TableKey]:
        """(2) The tables that it updates or deletes from."""
        ...

    @property
    def size_bytes(self) -> int:
        """About how many bytes its values take."""
        ...

    def run(self, pending: Pending) -> Affected: ...

    def check(self, pending: Pending) -> None:
        """(3) Check what `run` decided. Raises ConstraintViolation, KeyConflict, LoadRejected."""
        validate(pending)

    def refuse(self, violations: Sequence[Violation]) -> None:
        """Raises ConstraintViolation, LoadRejected if there are any."""
        check_none(violations)

    def result_of(self, affected: Affected) -> JsonObject:
        """The result that a commit records for a repeated request."""
        return {"affected_nodes": affected.nodes, "affected_edges": affected.edges}


# ── mutations ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Program(WriteTask):
    """A compiled mutation with the values of one call."""

    bound: BoundValues

    @property
    def name(self) -> str:
        return self.bound.plan.name

    @property
    def tables(self) -> Collection[TableKey]:
        return tables_of(self.bound.plan)

    @property
    def strict(self) -> Collection[TableKey]:
        return strict_tables_of(self.bound.plan)

    @property
    def size_bytes(self) -> int:
        return sum(map(size_of, self.bound.values.values()))

    def run(self, pending: Pending) -> Affected:
        return run_statements(self.bound, pending)


def parse_program(
    source: Source,
    catalog: Catalog,
    *,
    name: str | None,
    params: object,
    now_ms: int,
    binding: IntegerEncoding = IntegerEncoding.NATIVE,
) -> Program:
    """Raises QueryInvalid, QueryNotFound, ParameterInvalid, NotAMutation."""
    compiled = compile_query(source, catalog, name=name)
    if not isinstance(compiled.plan, MutationPlan):
        raise NotAMutation(compiled.name)
    values = bind(compiled.parameters, params, binding)
    now = values.get(NOW_PARAMETER)
    return Program(BoundValues(compiled.plan, values, now if isinstance(now, int) else now_ms))


def tables_of(plan: MutationPlan) -> frozenset[TableKey]:
    """Every table a mutation may write."""
    return strict_tables_of(plan) | {
        table_key(each.kind, each.type_name)
        for each in plan.statements
        if isinstance(each, InsertRow)
    }


def strict_tables_of(plan: MutationPlan) -> frozenset[TableKey]:
    """The tables that a mutation updates or deletes from, including cascades."""
    keys: set[TableKey] = set()
    for statement in plan.statements:
        match statement:
            case UpdateRows(type_name):
                keys.add(table_key("node", type_name))
            case DeleteRows(kind, type_name, cascade=cascade):
                keys.add(table_key(kind, type_name))
                keys.update(table_key("edge", each) for each in cascade)
            case InsertRow():
                pass
    return frozenset(keys)


# ── carrying out ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    affected: Affected
    commit: Commit | None = None
    tables: tuple[TableKey, ...] = ()
    """The tables that the write changed."""
    recorded: Mapping[str, object] | None = None
    """The result that the first request with the same idempotency key recorded."""


def carry_out(
    context: WriteContext,
    schema: ActiveSchema,
    task: WriteTask,
    request: WriteRequest,
    *,
    patience_ms: int | None = None,
) -> WriteOutcome:
    """Run a task on a branch, and commit its decisions.

    `patience_ms` limits the wait for other processes and for other operations of this one; None
    means the limit of the settings, and none.

    Raises ConstraintViolation, KeyConflict, HeadMoved, ExpectedVersionMismatch, BranchNotFound and
    what `commit.attempt.phases` raises.
    """
    entry = enter(context, request.branch, task.tables)
    return run_idempotent(
        lambda: _find_before(context, request),
        lambda: _write(context, schema, task, request, entry=entry, patience_ms=patience_ms),
    )


def _find_before(context: WriteContext, request: WriteRequest) -> WriteOutcome | None:
    if request.idempotency is None:
        return None
    return find_written(context.bases.current(request.branch).manifest, request)


def find_written(manifest: Manifest, request: WriteRequest) -> WriteOutcome | None:
    """The result of an earlier request with the same key. Raises KeyReused."""
    done = find_done(manifest, request.idempotency, request.actor)
    if done is None:
        return None
    affected = Affected(done.number("affected_nodes"), done.number("affected_edges"))
    return WriteOutcome(affected, done.commit, recorded=done.result)


def _write(
    context: WriteContext,
    schema: ActiveSchema,
    task: WriteTask,
    request: WriteRequest,
    *,
    entry: WriteEntry | None,
    patience_ms: int | None,
) -> WriteOutcome:
    seen = pins_of(context, request.branch, task.strict)
    with acquire_write_locks(
        context,
        request.branch,
        task.tables,
        wait_ms_max=patience_ms,
        queue_ms_max=patience_ms,
        entry=entry,
    ) as lock:
        done = find_written(lock.base.manifest, request)
        if done is not None:
            return done
        lock.base.manifest.check_schema(schema.schema_hash)
        lock.base.manifest.check_head(request.if_commit)
        check_unmoved_elsewhere(lock, seen)
        committed = BaseRows(
            context.stores.tables,
            lock.base.manifest,
            lambda pin: context.open_pin(pin, lock.base),
        )
        pending = Pending(schema.catalog, committed, context.stores.effects.new_id)
        affected = task.run(pending)
        task.check(pending)
        if not pending.deltas() and request.idempotency is None:
            return WriteOutcome(affected)
        change = change_of(lock, schema, task, pending, request=request, affected=affected)
        published = run(lock, change)
        moved = tuple(each.key for each in change.writes)
        return WriteOutcome(affected, published.commits[-1], moved)


def pins_of(
    context: WriteContext, branch: BranchName, keys: Collection[TableKey]
) -> dict[TableKey, Pin | None]:
    """(2) The pins of these tables as the call begins; reads nothing without tables."""
    if not keys:
        return {}
    pins = context.bases.current(branch).manifest.pins
    return {key: pins.get(key) for key in keys}


def check_unmoved_elsewhere(lock: WriteLock, seen: Mapping[TableKey, Pin | None]) -> None:
    """(2) The same for writes of rows: a move by another such write of this process does not count
    if writes share attempts. The base of a write is then what the write before it left (D29).

    Raises ExpectedVersionMismatch.
    """
    context, base = lock.context, lock.base
    moved = {
        key: before
        for key, before in seen.items()
        if not context.is_moved_here(before, base.manifest.pins.get(key), base)
    }
    check_unmoved(lock, moved)


def check_unmoved(lock: WriteLock, seen: Mapping[TableKey, Pin | None]) -> None:
    """(2) Raises ExpectedVersionMismatch."""
    manifest = lock.base.manifest
    for key, before in sorted(seen.items()):
        now = manifest.pins.get(key)
        if before != now and not only_maintenance_since(lock, before, now):
            expected = Version(0) if before is None else before.version
            actual = manifest.version_of(key)
            raise ExpectedVersionMismatch(key, expected=expected, actual=actual)


def only_maintenance_since(lock: WriteLock, before: Pin | None, now: Pin | None) -> bool:
    """Did the table move without a change of its rows?"""
    if before is None or now is None or before.owner != now.owner:
        return False
    handle = lock.context.open_pin(now, lock.base)
    since = lock.context.stores.tables.find_transactions(handle, after=before.version)
    return bool(since) and all(each.kind in _HARMLESS for each in since)


def validate(pending: Pending) -> None:
    """(3) Raises ConstraintViolation, KeyConflict."""
    check_none(pending.violations)
    pending.find_existing()
    check_none(find_violations(pending.catalog, pending.deltas(), pending))
    pending.check_fresh()


def change_of(
    lock: WriteLock,
    schema: ActiveSchema,
    task: WriteTask,
    pending: Pending,
    *,
    request: WriteRequest,
    affected: Affected,
) -> Change:
    tables = lock.context.stores.tables
    writes = pending.writes(tables)
    written = {each.key for each in writes}
    reads: Mapping[TableKey, Version] = pending.committed.asked
    result = task.result_of(affected)
    return Change(
        kind=task.kind,
        branch=request.branch,
        writes=writes,
        actor=request.actor,
        message=request.message,
        reads={key: version for key, version in reads.items() if key not in written},
        recheck=recheck_ends(lock.context, schema.catalog, pending.deltas(), task.refuse),
        on_top_of=request.if_commit,
        idempotency=None if request.idempotency is None else request.idempotency.record(result),
        schema_hash=schema.schema_hash,
        counts=pending.counts(),
        is_shared=True,
    )


def recheck_ends(
    context: WriteContext,
    catalog: Catalog,
    deltas: Collection[Delta],
    refuse: Callable[[Sequence[Violation]], None] = check_none,
) -> Callable[[Manifest], None]:
    """(4) Checks that the ends of written edges still exist, or refuses the write.

    And that the edges of other pairs of ends, which count together with them, are not too many.
    """
    rules = [
        rule
        for rule in rules_of_write(catalog, (each.type for each in deltas))
        if isinstance(rule, Endpoint) or (isinstance(rule, EdgeCount) and rule.siblings)
    ]

    def recheck(manifest: Manifest) -> None:
        committed = BaseRows(
            context.stores.tables, manifest, lambda pin: open_pin(context.stores, pin)
        )
        before = Pending(catalog, committed, context.stores.effects.new_id)
        refuse(evaluate_rules(rules, deltas, before))

    return recheck
