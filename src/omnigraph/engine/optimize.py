"""Optimising: small fragments are put together, and the indexes are brought up to date.

Nothing is removed: every commit still shows what it showed. All tables of a branch that have
something to gain are compacted in one commit; the indexes follow, by `indexes.ensure_indices`. The
manifest needs nothing of this, its publishers keep it small.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt import Hold, hold, run
from omnigraph.commit.base import Base
from omnigraph.commit.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest import Pin
from omnigraph.commit.records import Commit, JsonObject, JsonValue
from omnigraph.commit.recovery import heal
from omnigraph.commit.workbench import Workbench
from omnigraph.engine.indexes import IndexOrder, IndexReport, IndexState, ensure_indices
from omnigraph.engine.once import Once, answer_once, find_done
from omnigraph.errors import DriftFound
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraph.storage.tables import Handle, Mark, Settings, Staged, StagedCompaction

AUTO_CLEANUP: Final = "lance.auto_cleanup."
"""Settings by which the table format would purge versions on its own, shown or not."""

DRIFT: Final = "drift_needs_repair"


@dataclass(frozen=True, slots=True)
class OptimizeOrder:
    branch: BranchName = MAIN
    actor: str | None = None
    once: Once | None = None
    """The key that makes asking again harmless."""


@dataclass(frozen=True, slots=True)
class OptimizedTable:
    key: TableKey
    fragments_removed: int
    fragments_added: int
    is_committed: bool
    version: Version
    """The version the branch shows afterwards."""
    skipped: str | None = None
    pending: tuple[IndexReport, ...] = ()
    """Indexes that cannot be built yet."""

    def to_json(self) -> JsonObject:
        return {
            "table_key": self.key,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "committed": self.is_committed,
            "skipped": self.skipped,
            "manifest_version": self.version,
            "pending_indexes": [
                {"column": each.column, "index": each.kind, "reason": each.reason}
                for each in self.pending
            ],
        }


def decode_table(document: Mapping[str, Any]) -> OptimizedTable:
    """What `OptimizedTable.to_json` made. Raises KeyError, TypeError."""
    key = TableKey(document["table_key"])
    return OptimizedTable(
        key,
        document["fragments_removed"],
        document["fragments_added"],
        is_committed=document["committed"],
        version=Version(document["manifest_version"]),
        skipped=document["skipped"],
        pending=tuple(
            IndexReport(key, each["column"], each["index"], IndexState.PENDING, each["reason"])
            for each in document["pending_indexes"]
        ),
    )


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    branch: BranchName
    tables: tuple[OptimizedTable, ...]
    commits: tuple[Commit, ...]


def optimize(bench: Workbench, catalog: Catalog, order: OptimizeOrder) -> OptimizeResult:
    """Tidy up every table a branch owns.

    Raises BranchNotFound, SchemaLocked, LeaseHeld, KeyReused and whatever `commit.attempt` raises.
    """
    heal(bench)

    def act() -> OptimizeResult:
        result = _optimize(bench, catalog, order)
        if order.once is not None:
            _remember(bench, order, order.once, result)
        return result

    return answer_once(lambda: _find_optimized(bench, order), act)


def _optimize(bench: Workbench, catalog: Catalog, order: OptimizeOrder) -> OptimizeResult:
    before = bench.bases.current(order.branch)
    counts = {key: _count(bench, before.manifest.pins[key], before) for key in before.manifest.pins}
    commits, drifted = _compact(bench, order)
    indices = ensure_indices(bench, catalog, IndexOrder(order.branch, order.actor))
    commits += indices.commits
    after = bench.bases.current(order.branch)
    tables = []
    for key, pin in after.manifest.pins.items():
        was, now = counts.get(key, frozenset()), _count(bench, pin, after)
        known = before.manifest.pins.get(key)
        pending = [each for each in indices.of(IndexState.PENDING) if each.table == key]
        tables.append(
            OptimizedTable(
                key,
                len(was - now),
                len(now - was),
                is_committed=known is not None and known.version != pin.version,
                version=pin.version,
                skipped=DRIFT if key in drifted else None,
                pending=tuple(pending),
            )
        )
    return OptimizeResult(order.branch, tuple(tables), tuple(commits))


def _remember(bench: Workbench, order: OptimizeOrder, once: Once, result: OptimizeResult) -> None:
    """Tidying takes any number of commits, and done twice it finds nothing to do the second time.
    Its key and what came of it stand in a commit of their own, after all of them.
    """
    with hold(bench, order.branch, ()) as held:
        note = once.record(_encode(result))
        run(
            held, Change(WriterKind.OPTIMIZE, order.branch, (), actor=order.actor, idempotency=note)
        )


def _find_optimized(bench: Workbench, order: OptimizeOrder) -> OptimizeResult | None:
    """What came of it when this was asked for before. Raises KeyReused."""
    if order.once is None:
        return None
    manifest = bench.bases.current(order.branch).manifest
    done = find_done(manifest, order.once, order.actor)
    if done is None:
        return None
    listed = _list(done.result.get("commits"))
    commits = [manifest.log.find(CommitId(str(each))) for each in listed]
    return OptimizeResult(
        order.branch,
        tuple(map(decode_table, _list(done.result.get("tables")))),
        tuple(each for each in commits if each is not None),
    )


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []


def _encode(result: OptimizeResult) -> JsonObject:
    tables: list[JsonValue] = [each.to_json() for each in result.tables]
    commits: list[JsonValue] = [each.id for each in result.commits]
    return {"tables": tables, "commits": commits}


def _count(bench: Workbench, pin: Pin, base: Base) -> frozenset[int]:
    anatomy = bench.stores.tables.inspect(bench.open_pin(pin, base))
    return frozenset(each.fragment_id for each in anatomy.fragments)


def _compact(bench: Workbench, order: OptimizeOrder) -> tuple[list[Commit], set[TableKey]]:
    """One commit for all tables; none if none has anything to gain. Drifted ones are left out."""
    drifted: set[TableKey] = set()
    while True:
        pins = bench.bases.current(order.branch).manifest.pins.values()
        keys = {each.key for each in pins if each.owner == order.branch} - drifted
        if not keys:
            return [], drifted
        try:
            with hold(bench, order.branch, keys) as held:
                writes = [each for key in sorted(keys) if (each := _write(held, key)) is not None]
                if not writes:
                    return [], drifted
                change = Change(WriterKind.OPTIMIZE, order.branch, tuple(writes), actor=order.actor)
                return list(run(held, change).commits), drifted
        except DriftFound as drift:
            drifted.add(TableKey(drift.table_key))


def _write(held: Hold, key: TableKey) -> TableWrite | None:
    """What there is to do to a table. Its files are written here, before anything moves."""
    bench, pin = held.bench, held.base.manifest.pins.get(key)
    if pin is None:
        return None
    handle = bench.open_pin(pin, held.base)
    stages: list[Stage] = []
    staged = bench.stores.tables.stage_compaction(handle)
    if staged is not None:
        stages.append(_Compacted(staged))
    doomed = {name: None for name in handle.config if name.startswith(AUTO_CLEANUP)}
    if doomed:
        stages.append(_Stripped(bench, Settings(config=doomed)))
    return TableWrite(key, pin.version, tuple(stages), is_named=False) if stages else None


@dataclass(frozen=True, slots=True)
class _Compacted:
    staged: StagedCompaction

    def __call__(self, handle: Handle, mark: Mark) -> StagedCompaction:  # noqa: ARG002
        return self.staged


@dataclass(frozen=True, slots=True)
class _Stripped:
    bench: Workbench
    settings: Settings

    def __call__(self, handle: Handle, mark: Mark) -> Staged:
        return self.bench.stores.tables.stage_settings(handle, self.settings, mark)
