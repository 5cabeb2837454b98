"""Building the indexes that a graph wants: on request, never as part of a write.

1. All tables are surveyed first, and only tables with missing indexes are locked. What to build is
   decided again under the lock, from the version that the branch then shows.
2. Small tables are indexed together, in one commit. A large table is indexed alone, one index per
   commit, so that writers get a turn in between. Its texts are counted before it is locked.
3. An index that cannot be built yet is reported and is never an error.
4. Unless a table is very small, its indexes are built before it is locked, and only attached under
   the lock. They do not cover rows written meanwhile; the next upkeep or build extends them. If
   another writer compacted the table meanwhile, the indexes are built again under the lock.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Final

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.staging import staging
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit
from omnigraph.engine.maintain.wanted_indexes import Property, wanted_indexes
from omnigraph.engine.search.texts import SCAN_ROWS_MAX
from omnigraph.engine.search.totals import Ledger, find_uncounted
from omnigraph.engine.search.vectors import partition_count
from omnigraph.engine.tables.filters import quote
from omnigraph.engine.write.upkeep import index_scope
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey, split_table_key
from omnigraph.storage import tables as storage
from omnigraph.storage.tables import (
    Handle,
    IndexScope,
    IndexSpec,
    Mark,
    ScanRequest,
    Staged,
    TableRef,
    Tables,
    TableStats,
)

ROWS_TOGETHER_MAX: Final = 200_000
ROWS_HELD_MAX: Final = 10_000

TOTALS: Final = ""
"""Stands for the totals of texts, in place of an index name."""

AHEAD: Final = Mark("ahead")
"""The mark of indexes that are staged on one version and committed to another."""

TAKEN_NAMES: Final = frozenset({"flat", "__ivf_part_id"})
"""Column names of the index itself: Lance panics if a vector column has such a name."""


@dataclass(frozen=True, slots=True)
class IndexRequest:
    branch: BranchName = MAIN
    actor: str | None = None
    substrings: frozenset[Property] = frozenset()
    """Properties in which queries search for substrings."""
    totals_rows_min: int = SCAN_ROWS_MAX
    """Tables with more rows store the totals of their texts; see `search.texts`."""
    rows_together_max: int = ROWS_TOGETHER_MAX
    """Tables with so many rows together are indexed in one commit."""
    rows_held_max: int = ROWS_HELD_MAX
    """Tables with so few rows are built under the lock: it is fast, and covers all rows."""
    message: str | None = None
    """Why; kept in the commits."""


class IndexState(StrEnum):
    BUILT = "built"
    """The index was missing, or covered a part of the table."""
    COVERED = "covered"
    """The index covered the whole table already."""
    PENDING = "pending"
    """The index cannot be built yet."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    table: TableKey
    column: str
    kind: str
    state: IndexState
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class IndicesResult:
    branch: BranchName
    indexes: tuple[IndexReport, ...]
    commits: tuple[Commit, ...]
    actor: str | None = None

    def of(self, state: IndexState) -> tuple[IndexReport, ...]:
        return tuple(each for each in self.indexes if each.state is state)


def ensure_indices(context: WriteContext, catalog: Catalog, request: IndexRequest) -> IndicesResult:
    """Build the missing indexes of a branch.

    Raises BranchNotFound, SchemaLocked, LeaseHeld and what `commit.attempt.phases` raises.
    """
    check_unlocked(context)
    surveyor = open_surveyor(context, catalog, request)
    base = context.bases.current(request.branch)
    pins = base.manifest.pins
    surveys = {key: surveyor.survey(pin, base) for key, pin in sorted(pins.items())}
    builder = _Builder(surveyor, surveys)
    with_work = [pins[key] for key, each in surveys.items() if each.has_work]
    small = [pin for pin in with_work if pin.row_count <= request.rows_together_max]
    for keys in _batches(small, request.rows_together_max):
        builder.build(keys)
    for pin in with_work:
        if pin.row_count > request.rows_together_max:
            surveyor.count_texts(pin, base)
            # Rows written meanwhile are left for the next build, so that this build ends.
            for only in (*surveys[pin.key].missing, TOTALS):
                builder.build([pin.key], only=only)
    reports = tuple(report for key in sorted(surveys) for report in surveys[key].reports)
    return IndicesResult(request.branch, reports, tuple(builder.commits), request.actor)


@dataclass(frozen=True, slots=True)
class _Builder:
    surveyor: "Surveyor"
    surveys: "dict[TableKey, IndexSurvey]"
    commits: list[Commit] = field(default_factory=list)

    def build(self, keys: Sequence[TableKey], *, only: str | None = None) -> None:
        """Build the missing indexes of these tables, or only the one with that name."""
        request = self.surveyor.request
        with (
            self._ahead(keys, only),
            acquire_write_locks(self.surveyor.context, request.branch, keys) as lock,
        ):
            shown = lock.base.manifest.pins
            seen = {
                key: self.surveyor.survey(shown[key], lock.base) for key in keys if key in shown
            }
            for key, survey in seen.items():
                self.surveys[key] = survey.after(self.surveys[key])
            planned = (each.write(only, each.uncounted) for each in seen.values())
            writes = tuple(each for each in planned if each.stages)
            if writes:
                change = Change(
                    WriterKind.ENSURE_INDICES,
                    request.branch,
                    writes,
                    actor=request.actor,
                    message=request.message,
                )
                self.commits.append(run(lock, change).commits[-1])

    @contextmanager
    def _ahead(self, keys: Sequence[TableKey], only: str | None) -> Iterator[None]:
        """(4) Build indexes before the lock; a staging record protects them from cleanup (D8)."""
        context, request = self.surveyor.context, self.surveyor.request
        base = context.bases.current(request.branch)
        pins = [base.manifest.pins[key] for key in keys if key in base.manifest.pins]
        large = [pin for pin in pins if pin.row_count > request.rows_held_max]
        if only == TOTALS or not large:
            yield
            return
        versions = {pin.key: pin.version for pin in large}
        operation_id = OperationId(context.stores.effects.new_id())
        with staging(
            context.stores.objects, operation_id, request.branch, versions, context.leases.timing
        ):
            for pin in large:
                self.surveyor.survey(pin, base).build(only)
            yield


def _batches(pins: Iterable[Pin], rows_max: int) -> Iterator[list[TableKey]]:
    """(2) The tables to lock together."""
    together: list[TableKey] = []
    room = rows_max
    for pin in pins:
        if pin.row_count > room:
            yield together
            together, room = [], rows_max
        together.append(pin.key)
        room -= pin.row_count
    if together:
        yield together


# ── surveying a table ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class IndexSurvey:
    """The indexes of one table: what to report, and what to build."""

    stats: TableStats
    reports: tuple[IndexReport, ...]
    missing: tuple[str, ...]
    """The names of the indexes to build."""
    uncounted: tuple[str, ...]
    """The columns whose texts are to be counted."""
    totalled: tuple[str, ...]
    """The columns whose totals the table stores, or will store."""
    write: Callable[[str | None, tuple[str, ...]], TableWrite]
    """The write of all indexes, of one index, or of `TOTALS`, with the columns to count."""
    build: Callable[[str | None], None]
    """Write the files of all indexes, or of one, to attach them later."""

    @property
    def has_work(self) -> bool:
        return bool(self.missing or self.uncounted)

    def after(self, earlier: "IndexSurvey") -> "IndexSurvey":
        """A copy that reports an index as built if it was built since the earlier survey."""
        built = {_place(each) for each in earlier.reports if each.state is IndexState.BUILT}
        reports = tuple(
            replace(each, state=IndexState.BUILT)
            if each.state is IndexState.COVERED and _place(each) in built
            else each
            for each in self.reports
        )
        return replace(self, reports=reports)


def _place(report: IndexReport) -> tuple[str, str]:
    return report.column, report.kind


def open_surveyor(context: WriteContext, catalog: Catalog, request: IndexRequest) -> "Surveyor":
    return Surveyor(context, catalog, request, Ledger(context.stores.tables))


@dataclass(frozen=True, slots=True)
class Surveyor:
    context: WriteContext
    catalog: Catalog
    request: IndexRequest
    ledger: Ledger
    built: dict[TableRef, Staged] = field(default_factory=dict)
    """(4) Indexes that were built and are not attached yet."""

    @property
    def tables(self) -> Tables:
        return self.context.stores.tables

    def survey(self, pin: Pin, base: Base) -> IndexSurvey:
        handle = self.context.open_pin(pin, base)
        stats = self.tables.inspect(handle)
        specs = self._specs(pin, stats)
        classified = [(spec, *self._classify(pin, handle, stats, spec)) for spec in specs]
        missing = [spec for spec, state, _ in classified if state is IndexState.BUILT]
        totalled = self._totalled(pin, specs)
        uncounted = find_uncounted(totalled, handle, stats)
        return IndexSurvey(
            stats=stats,
            reports=tuple(
                IndexReport(pin.key, spec.column, spec.kind.value.lower(), state, reason)
                for spec, state, reason in classified
            ),
            missing=tuple(each.name for each in missing),
            uncounted=uncounted,
            totalled=totalled,
            write=partial(self._write, pin, stats, tuple(missing)),
            build=partial(self._build, handle, stats, tuple(missing)),
        )

    def count_texts(self, pin: Pin, base: Base) -> None:
        """(2) A fragment never changes, so a concurrent write does not change its totals."""
        handle = self.context.open_pin(pin, base)
        stats = self.tables.inspect(handle)
        totalled = self._totalled(pin, self._specs(pin, stats))
        self.ledger.count(handle, stats, find_uncounted(totalled, handle, stats))

    def _specs(self, pin: Pin, stats: TableStats) -> tuple[IndexSpec, ...]:
        kind, name = split_table_key(pin.key)
        type_ = self.catalog.node(name) if kind == "node" else self.catalog.edge(name)
        if type_ is None:
            return ()  # the schema changed since this graph was opened
        asked = {column for of, column in self.request.substrings if of == name}
        return wanted_indexes(type_, asked, stats)

    def _classify(
        self, pin: Pin, handle: Handle, stats: TableStats, spec: IndexSpec
    ) -> tuple[IndexState, str | None]:
        index = next((each for each in stats.indices if spec.is_built_by(each)), None)
        covered = frozenset() if index is None else index.covered
        missing = [each.fragment_id for each in stats.fragments if each.fragment_id not in covered]
        if not stats.fragments:
            return IndexState.PENDING, "there are no rows"
        if not missing:
            return IndexState.COVERED, None
        if pin.owner != self.request.branch:
            return IndexState.PENDING, f"the branch still shows the table of '{pin.owner}'"
        if spec.kind is storage.IndexKind.IVF_FLAT and spec.column in TAKEN_NAMES:
            return IndexState.PENDING, "the table format keeps that name for itself"
        if spec.kind is storage.IndexKind.IVF_FLAT and not self._vectors(handle, spec, missing):
            if index is None:
                return IndexState.PENDING, "there are no vectors"
            return IndexState.COVERED, None
        return IndexState.BUILT, None

    def _vectors(self, handle: Handle, spec: IndexSpec, fragment_ids: list[int]) -> int:
        request = ScanRequest(
            columns=(),
            where=f"{quote(spec.column)} IS NOT NULL",
            fragment_ids=tuple(fragment_ids),
            with_row_id=True,
        )
        return self.tables.read(handle, request).num_rows

    def _totalled(self, pin: Pin, specs: tuple[IndexSpec, ...]) -> tuple[str, ...]:
        if pin.row_count <= self.request.totals_rows_min or pin.owner != self.request.branch:
            return ()
        return tuple(each.column for each in specs if each.kind is storage.IndexKind.INVERTED)

    def _write(
        self,
        pin: Pin,
        stats: TableStats,
        missing: tuple[IndexSpec, ...],
        only: str | None,
        totals: tuple[str, ...],
    ) -> TableWrite:
        stages: list[Stage] = []
        specs = tuple(each for each in missing if only in (None, each.name))
        if specs:
            stages.append(partial(self._stage_indices, specs, index_scope(stats)))
        if totals and only in (None, TOTALS):
            stages.append(partial(self.ledger.stage, totals))
        return TableWrite(pin.key, pin.version, tuple(stages))

    def _stage_indices(
        self, specs: tuple[IndexSpec, ...], scope: IndexScope, handle: Handle, mark: Mark
    ) -> Staged | None:
        built = self.built.pop(handle.ref, None)
        if built is not None:
            names = [each.name for each in specs]
            staged = self.tables.restage_indices(built, handle, names, mark)
            if staged is not None:
                return staged
        stats = self.tables.inspect(handle)
        sized = [_sized(spec, stats, scope) for spec in specs]
        return self.tables.stage_indices(handle, sized, scope, mark)

    def _build(
        self, handle: Handle, stats: TableStats, missing: tuple[IndexSpec, ...], only: str | None
    ) -> None:
        scope = index_scope(stats)
        sized = [_sized(spec, stats, scope) for spec in missing if only in (None, spec.name)]
        built = self.tables.stage_indices(handle, sized, scope, AHEAD) if sized else None
        if built is not None:
            self.built[handle.ref] = built


def _sized(spec: IndexSpec, stats: TableStats, scope: IndexScope) -> IndexSpec:
    """Set the number of partitions of a vector index by the rows that it is built over."""
    if spec.kind is not storage.IndexKind.IVF_FLAT:
        return spec
    index = next((each for each in stats.indices if spec.is_built_by(each)), None)
    known = frozenset() if index is None or scope is IndexScope.REBUILD else index.covered
    rows = sum(each.row_count for each in stats.fragments if each.fragment_id not in known)
    parameters: dict[str, int | str] = {"num_partitions": partition_count(rows), "metric": "l2"}
    return IndexSpec(spec.column, spec.kind, parameters)
