"""Building the indexes a graph wants: on request, never as part of a write.

What is wanted follows from the schema: `id` and the ends of edges, keys and `@index` by the type of
the property, a second index for exact look-ups beside the full-text one of a key, and one for every
`@unique` property, which writes look values up in. Queries may ask for more: `contains` is served
by an index over pieces of words.

1. Tables are looked at first, and only those with something to build are touched. What is to be
   built is decided again once they are held, from what the branch shows then.
2. Small tables are done together, as one commit; each large one alone, so that writers of the
   others do not wait for it.
3. What cannot be built yet is reported and is never an error.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, IndexKind, NodeType, Unique, index_kind
from omnigraph.commit.attempt import Hold, hold, run
from omnigraph.commit.base import Base
from omnigraph.commit.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest import Pin
from omnigraph.commit.records import Commit
from omnigraph.commit.refs import check_unlocked
from omnigraph.commit.workbench import Workbench
from omnigraph.compiler.compile import compile_file
from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Condition,
    Expand,
    Optionally,
    PropertyOf,
    Read,
    Scan,
    Step,
    StringMatch,
    StringTest,
    Where,
    Without,
)
from omnigraph.engine.filters import quote
from omnigraph.engine.query.texts import (
    SCAN_ROWS_MAX,
    Texts,
    read_totals,
    spell_totals,
    totals_key,
)
from omnigraph.engine.query.vectors import partition_count
from omnigraph.engine.upkeep import SEGMENTS_MAX
from omnigraph.ids import MAIN, BranchName, TableKey, split_table_key
from omnigraph.lang.source import Source
from omnigraph.storage import tables as storage
from omnigraph.storage.tables import (
    Anatomy,
    Handle,
    IndexScope,
    IndexSpec,
    Mark,
    ScanRequest,
    Settings,
    Staged,
    Tables,
)

ROWS_TOGETHER_MAX: Final = 200_000
"""Tables of so many rows, together, are indexed in one commit."""

TAKEN_NAMES: Final = frozenset({"flat", "__ivf_part_id"})
"""Columns of the index itself: Lance panics if a vector is called like one."""

Type = NodeType | EdgeType
Property = tuple[str, str]
"""A type and one of its properties."""


@dataclass(frozen=True, slots=True)
class IndexOrder:
    branch: BranchName = MAIN
    actor: str | None = None
    substrings: frozenset[Property] = frozenset()
    """Properties that queries look for pieces of words in."""
    totals_rows_min: int = SCAN_ROWS_MAX
    """Larger tables have the totals of their texts written down; see `query.texts`."""


class IndexState(StrEnum):
    BUILT = "built"
    """It was missing, or knew only part of the table."""
    COVERED = "covered"
    """It knew the whole table already."""
    PENDING = "pending"
    """It cannot be built yet."""


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


def ensure_indices(bench: Workbench, catalog: Catalog, order: IndexOrder) -> IndicesResult:
    """Build what is missing on a branch.

    Raises BranchNotFound, SchemaLocked, LeaseHeld and whatever `commit.attempt` raises.
    """
    check_unlocked(bench.stores)
    surveyor = _Surveyor(bench, catalog, order)
    base = bench.bases.current(order.branch)
    pins = base.manifest.pins
    surveys = {key: surveyor.survey(pin, base) for key, pin in sorted(pins.items())}
    commits = []
    for keys in _batches(pins[key] for key, each in surveys.items() if each.has_work):
        with hold(bench, order.branch, keys) as held:
            shown = held.base.manifest.pins
            again = {key: surveyor.survey(shown[key], held.base) for key in keys if key in shown}
            surveys.update(again)
            writes = tuple(each.write() for each in again.values() if each.has_work)
            if writes:
                commits.append(_commit(held, order, writes))
    reports = tuple(report for key in sorted(surveys) for report in surveys[key].reports)
    return IndicesResult(order.branch, reports, tuple(commits), order.actor)


def _commit(held: Hold, order: IndexOrder, writes: tuple[TableWrite, ...]) -> Commit:
    change = Change(WriterKind.ENSURE_INDICES, order.branch, writes, actor=order.actor)
    return run(held, change).commits[-1]


def _batches(pins: Iterable[Pin]) -> Iterator[list[TableKey]]:
    """(2) Which tables are held together."""
    small: list[TableKey] = []
    room = ROWS_TOGETHER_MAX
    for pin in pins:
        if pin.row_count > ROWS_TOGETHER_MAX:
            yield [pin.key]
            continue
        if pin.row_count > room:
            yield small
            small, room = [], ROWS_TOGETHER_MAX
        small.append(pin.key)
        room -= pin.row_count
    if small:
        yield small


# ── what is wanted ───────────────────────────────────────────────────────────────────────────────


def wanted_indexes(
    type_: Type, substrings: Collection[str] = (), kept: Anatomy | None = None
) -> tuple[IndexSpec, ...]:
    """By the schema, by the queries, and because it was asked for before."""
    specs = [_spec(column, kind) for column, kind in type_.indexes]
    exact = {column for column, kind in type_.indexes if kind is IndexKind.BTREE}
    looked_up = [*(type_.key if isinstance(type_, NodeType) else ())]
    for constraint in type_.constraints:
        if isinstance(constraint, Unique):
            looked_up += constraint.columns
    for column in dict.fromkeys(looked_up):
        declared = type_.find(column)
        if declared is None or column in exact or index_kind(declared.type) is None:
            continue
        specs.append(IndexSpec(column, storage.IndexKind.BTREE, is_second=True))
    for property_ in type_.properties:
        if not property_.type.is_string:
            continue
        spec = IndexSpec(property_.name, storage.IndexKind.NGRAM, is_second=True)
        is_kept = kept is not None and any(spec.is_built_by(each) for each in kept.indices)
        if property_.name in substrings or is_kept:
            specs.append(spec)
    return tuple(specs)


def _spec(column: str, kind: IndexKind) -> IndexSpec:
    match kind:
        case IndexKind.BTREE:
            return IndexSpec(column, storage.IndexKind.BTREE)
        case IndexKind.FULL_TEXT:
            return IndexSpec(column, storage.IndexKind.INVERTED)
        case IndexKind.VECTOR:
            return IndexSpec(column, storage.IndexKind.IVF_FLAT)


def find_substrings(source: Source, catalog: Catalog) -> frozenset[Property]:
    """The properties in which the queries of a file look for pieces of words.

    Raises QueryInvalid.
    """
    found: set[Property] = set()
    for query in compile_file(source, catalog):
        if isinstance(query.ir, Read):
            types: dict[str, str] = {}
            for condition in _conditions(query.ir.steps, types):
                if isinstance(condition, StringMatch) and condition.test is StringTest.CONTAINS:
                    subject = condition.subject
                    if isinstance(subject, PropertyOf) and subject.variable in types:
                        found.add((types[subject.variable], subject.name))
    return frozenset(found)


def _conditions(steps: Iterable[Step], types: dict[str, str]) -> Iterator[Condition]:
    """Every condition, the smallest parts of it; `types` learns what variables are bound to."""
    for step in steps:
        match step:
            case Scan(variable, type_name, filters):
                types[variable] = type_name
                yield from _parts(filters)
            case Expand(target=target, target_type=type_name, filters=filters):
                types[target] = type_name
                if step.edge_variable is not None:
                    types[step.edge_variable] = step.edge
                yield from _parts(filters)
            case Where(condition):
                yield from _parts((condition,))
            case Without(inner) | Optionally(inner):
                yield from _conditions(inner, types)


def _parts(conditions: Iterable[Condition]) -> Iterator[Condition]:
    for each in conditions:
        if isinstance(each, AllOf | AnyOf):
            yield from _parts(each.conditions)
        else:
            yield each


# ── what is there ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Survey:
    """One table: what there is to report, and to do."""

    reports: tuple[IndexReport, ...]
    write: "partial[TableWrite]"
    has_work: bool = False


@dataclass(frozen=True, slots=True)
class _Surveyor:
    bench: Workbench
    catalog: Catalog
    order: IndexOrder

    @property
    def tables(self) -> Tables:
        return self.bench.stores.tables

    def survey(self, pin: Pin, base: Base) -> _Survey:
        kind, name = split_table_key(pin.key)
        type_ = self.catalog.node(name) if kind == "node" else self.catalog.edge(name)
        assert type_ is not None, f"the schema knows every table, and not {pin.key}"
        handle = self.bench.open_pin(pin, base)
        anatomy = self.tables.inspect(handle)
        asked = {column for of, column in self.order.substrings if of == name}
        specs = wanted_indexes(type_, asked, anatomy)
        judged = [(spec, *self._judge(pin, handle, anatomy, spec)) for spec in specs]
        missing = [spec for spec, state, _ in judged if state is IndexState.BUILT]
        uncounted = self._uncounted(pin, handle, anatomy, specs)
        return _Survey(
            reports=tuple(
                IndexReport(pin.key, spec.column, spec.kind.value.lower(), state, reason)
                for spec, state, reason in judged
            ),
            write=partial(self._write, pin, anatomy, tuple(missing), uncounted),
            has_work=bool(missing or uncounted),
        )

    def _judge(
        self, pin: Pin, handle: Handle, anatomy: Anatomy, spec: IndexSpec
    ) -> tuple[IndexState, str | None]:
        index = next((each for each in anatomy.indices if spec.is_built_by(each)), None)
        covered = frozenset() if index is None else index.covered
        missing = [
            each.fragment_id for each in anatomy.fragments if each.fragment_id not in covered
        ]
        if not anatomy.fragments:
            return IndexState.PENDING, "there are no rows"
        if not missing:
            return IndexState.COVERED, None
        if pin.owner != self.order.branch:
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

    def _uncounted(
        self, pin: Pin, handle: Handle, anatomy: Anatomy, specs: tuple[IndexSpec, ...]
    ) -> tuple[str, ...]:
        """The text columns whose totals are not written down for all of the table."""
        if pin.row_count <= self.order.totals_rows_min or pin.owner != self.order.branch:
            return ()
        identities = {each.identity for each in anatomy.fragments}
        return tuple(
            spec.column
            for spec in specs
            if spec.kind is storage.IndexKind.INVERTED
            and not identities <= read_totals(handle.config, spec.column).keys()
        )

    def _write(
        self, pin: Pin, anatomy: Anatomy, specs: tuple[IndexSpec, ...], uncounted: tuple[str, ...]
    ) -> TableWrite:
        stages: list[Stage] = []
        if specs:
            pieces = max((each.segment_count for each in anatomy.indices), default=0)
            scope = IndexScope.REBUILD if pieces >= SEGMENTS_MAX else IndexScope.UNCOVERED
            stages.append(partial(self._stage_indices, specs, scope))
        if uncounted:
            stages.append(partial(self._stage_totals, uncounted))
        return TableWrite(pin.key, pin.version, tuple(stages))

    def _stage_indices(
        self, specs: tuple[IndexSpec, ...], scope: IndexScope, handle: Handle, mark: Mark
    ) -> Staged | None:
        anatomy = self.tables.inspect(handle)
        sized = [_sized(spec, anatomy, scope) for spec in specs]
        return self.tables.stage_indices(handle, sized, scope, mark)

    def _stage_totals(self, columns: tuple[str, ...], handle: Handle, mark: Mark) -> Staged:
        fragments = self.tables.inspect(handle).fragments
        config: dict[str, str | None] = {}
        for column in columns:
            texts = Texts(self.tables, handle, column)
            noted = read_totals(handle.config, column)
            missing = [each for each in fragments if each.identity not in noted]
            known = {**noted, **texts.count(missing)}
            kept = {each.identity: known[each.identity] for each in fragments}
            config[totals_key(column)] = spell_totals(kept)
        return self.tables.stage_settings(handle, Settings(config=config), mark)


def _sized(spec: IndexSpec, anatomy: Anatomy, scope: IndexScope) -> IndexSpec:
    """An index over vectors is told how many partitions to make of what it is built over."""
    if spec.kind is not storage.IndexKind.IVF_FLAT:
        return spec
    index = next((each for each in anatomy.indices if spec.is_built_by(each)), None)
    known = frozenset() if index is None or scope is IndexScope.REBUILD else index.covered
    rows = sum(each.row_count for each in anatomy.fragments if each.fragment_id not in known)
    parameters: dict[str, int | str] = {"num_partitions": partition_count(rows), "metric": "l2"}
    return IndexSpec(spec.column, spec.kind, parameters)
