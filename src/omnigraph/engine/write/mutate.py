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

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.change import Change, WriterKind
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.records import Commit, JsonObject
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.commit.recovery.heal import heal
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.ir import NOW_PARAMETER
from omnigraph.compiler.parameters import IntegerEncoding, bind
from omnigraph.compiler.plan import DeleteRows, InsertRow, MutationPlan, UpdateRows
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.write.base_rows import BaseRows
from omnigraph.engine.write.idempotency import IdempotencyKey, find_done, run_idempotent
from omnigraph.engine.write.pending import Affected, Pending
from omnigraph.engine.write.row_rules import Endpoint, rules_of_write
from omnigraph.engine.write.statements import BoundValues, run_statements
from omnigraph.engine.write.validate import Delta, evaluate_rules, find_violations
from omnigraph.engine.write.violations import check_none
from omnigraph.errors import ExpectedVersionMismatch, NotAMutation
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


class WriteTask(Protocol):
    """A write before it runs: a mutation, or a batch."""

    @property
    def tables(self) -> Collection[TableKey]:
        """Every table it may write."""
        ...

    @property
    def strict(self) -> Collection[TableKey]:
        """(2) The tables that it updates or deletes from."""
        ...

    def run(self, pending: Pending) -> Affected: ...


# ── mutations ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Program:
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


def carry_out(
    context: WriteContext, schema: ActiveSchema, task: WriteTask, request: WriteRequest
) -> WriteOutcome:
    """Run a task on a branch, and commit its decisions.

    Raises ConstraintViolation, KeyConflict, HeadMoved, ExpectedVersionMismatch, BranchNotFound and
    what `commit.attempt.phases` raises.
    """
    heal(context)
    return run_idempotent(
        lambda: _find_written(context, request), lambda: _write(context, schema, task, request)
    )


def _find_written(context: WriteContext, request: WriteRequest) -> WriteOutcome | None:
    """The result of an earlier request with the same key. Raises KeyReused."""
    if request.idempotency is None:
        return None
    return _written_before(context.bases.current(request.branch).manifest, request)


def _written_before(manifest: Manifest, request: WriteRequest) -> WriteOutcome | None:
    done = find_done(manifest, request.idempotency, request.actor)
    if done is None:
        return None
    affected = Affected(done.number("affected_nodes"), done.number("affected_edges"))
    return WriteOutcome(affected, done.commit)


def _write(
    context: WriteContext, schema: ActiveSchema, task: WriteTask, request: WriteRequest
) -> WriteOutcome:
    seen = _pins(context, request.branch, task.strict)
    with acquire_write_locks(context, request.branch, task.tables) as lock:
        done = _written_before(lock.base.manifest, request)
        if done is not None:
            return done
        lock.base.manifest.check_schema(schema.schema_hash)
        lock.base.manifest.check_head(request.if_commit)
        check_unmoved(lock, seen)
        committed = BaseRows(
            context.stores.tables,
            lock.base.manifest,
            lambda pin: context.open_pin(pin, lock.base),
        )
        pending = Pending(schema.catalog, committed, context.stores.effects.new_id)
        affected = task.run(pending)
        _validate(pending)
        if not pending.deltas() and request.idempotency is None:
            return WriteOutcome(affected)
        change = _change(lock, schema, pending, request, affected)
        published = run(lock, change)
        moved = tuple(each.key for each in change.writes)
        return WriteOutcome(affected, published.commits[-1], moved)


def _pins(
    context: WriteContext, branch: BranchName, keys: Collection[TableKey]
) -> dict[TableKey, Pin | None]:
    """(2) The pins of these tables as the call begins; reads nothing without tables."""
    if not keys:
        return {}
    pins = context.bases.current(branch).manifest.pins
    return {key: pins.get(key) for key in keys}


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


def _validate(pending: Pending) -> None:
    """(3) Raises ConstraintViolation, KeyConflict."""
    check_none(pending.violations)
    pending.find_existing()
    check_none(find_violations(pending.deltas(), pending))
    pending.check_fresh()


def _change(
    lock: WriteLock,
    schema: ActiveSchema,
    pending: Pending,
    request: WriteRequest,
    affected: Affected,
) -> Change:
    tables = lock.context.stores.tables
    writes = pending.writes(tables)
    written = {each.key for each in writes}
    reads: Mapping[TableKey, Version] = pending.committed.asked
    result: JsonObject = {"affected_nodes": affected.nodes, "affected_edges": affected.edges}
    return Change(
        kind=WriterKind.MUTATION,
        branch=request.branch,
        writes=writes,
        actor=request.actor,
        message=request.message,
        reads={key: version for key, version in reads.items() if key not in written},
        recheck=_recheck(lock.context, schema.catalog, pending.deltas()),
        on_top_of=request.if_commit,
        idempotency=None if request.idempotency is None else request.idempotency.record(result),
        schema_hash=schema.schema_hash,
    )


def _recheck(
    context: WriteContext, catalog: Catalog, deltas: Collection[Delta]
) -> Callable[[Manifest], None]:
    """(4) Checks that the ends of written edges still exist."""
    ends = [
        rule for rule in rules_of_write(each.type for each in deltas) if isinstance(rule, Endpoint)
    ]

    def recheck(manifest: Manifest) -> None:
        committed = BaseRows(
            context.stores.tables, manifest, lambda pin: open_pin(context.stores, pin)
        )
        before = Pending(catalog, committed, context.stores.effects.new_id)
        check_none(evaluate_rules(ends, deltas, before))

    return recheck
