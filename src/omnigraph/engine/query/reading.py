"""One read, from the text of a query to its result.

    compile → bind the parameters → choose the snapshot → execute the plan → result

Compiled plans are cached (`compiler.compile`), an unchanged branch is probed and not read again
(`commit.manifest.base`), and columns may be cached (`table_cache`): then no file is read at all.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import assert_never

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.catalog.types import ValueType
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.compiler import plan
from omnigraph.compiler.compile import (
    QUERIES_KEPT_MAX,
    CompiledQuery,
    arrange,
    compile_query,
)
from omnigraph.compiler.explain import explain, known_of
from omnigraph.compiler.ir import NOW_PARAMETER, Parameter, Value
from omnigraph.compiler.parameters import IntegerEncoding, bind
from omnigraph.engine.query.blob import BlobName, OpenBlob, open_blob
from omnigraph.engine.query.columns.table_cache import TableCache
from omnigraph.engine.query.columns.view import View, read_entity
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.engine.query.operators.run import Runner
from omnigraph.engine.query.profile import Profile
from omnigraph.engine.query.result import QueryResult, ReadTarget
from omnigraph.engine.search.provider import WITHOUT_EMBEDDER, SearchProvider
from omnigraph.engine.settings import Settings
from omnigraph.engine.tables.memory import Memory
from omnigraph.engine.tables.metered import ON_READ
from omnigraph.engine.tables.statistics import KeptStatistics
from omnigraph.errors import NotARead
from omnigraph.ids import BranchName, TableKey
from omnigraph.lang.source import Source
from omnigraph.storage.stores import Stores

Pins = Mapping[TableKey, Pin]


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A read with its parameters."""

    plan: plan.ReadPlan
    types: tuple[ValueType, ...]
    """The types of its columns."""
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A read that only lacks its parameters."""

    plan: plan.ReadPlan
    types: tuple[ValueType, ...]
    parameters: tuple[Parameter, ...]


class PreparedQuery:
    """A read that is compiled once for each schema, and each snapshot, that it meets in a row.

    Threads may share it: at worst two of them compile the same text.
    """

    def __init__(self, source: Source, name: str | None) -> None:
        self._source = source
        self._name = name
        self._compiled: tuple[Catalog, CompiledQuery] | None = None
        self._planned: tuple[Catalog, Pins, PlannedQuery] | None = None

    def compiled(self, catalog: Catalog) -> CompiledQuery:
        """Raises QueryInvalid, QueryNotFound, NotARead."""
        held = self._compiled
        if held is not None and held[0] is catalog:
            return held[1]
        compiled = compile_query(self._source, catalog, name=self._name)
        if not isinstance(compiled.plan, plan.ReadPlan):
            raise NotARead(compiled.name)
        self._compiled = catalog, compiled
        return compiled

    def planned(self, catalog: Catalog, pins: Pins, statistics: KeptStatistics) -> PlannedQuery:
        """Raises QueryInvalid, QueryNotFound, NotARead."""
        held = self._planned
        if held is not None and held[0] is catalog and held[1] is pins:
            return held[2]
        planned = _plan_query(self.compiled(catalog), catalog, pins, statistics)
        self._planned = catalog, pins, planned
        return planned


class PreparedQueries:
    """The reads that were asked as text last. Safe to share among threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str | None], PreparedQuery] = OrderedDict()
        self._lock = Lock()

    def of(self, source: Source, name: str | None) -> PreparedQuery:
        key = (source.text, source.name, name)
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = self._kept[key] = PreparedQuery(source, name)
                if len(self._kept) > QUERIES_KEPT_MAX:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
            return found


def _plan_query(
    compiled: CompiledQuery, catalog: Catalog, pins: Pins, statistics: KeptStatistics
) -> PlannedQuery:
    planned = plan_for(compiled, catalog, pins, statistics)
    return PlannedQuery(planned, types_of(planned.root), compiled.parameters)


def plan_for(
    compiled: CompiledQuery, catalog: Catalog, pins: Pins, statistics: KeptStatistics
) -> plan.ReadPlan:
    """The plan for the tables of a snapshot. Raises NotARead."""

    def row_count(key: TableKey) -> int:
        return pins[key].row_count if key in pins else 0

    found = arrange(compiled, catalog, row_count, lambda: statistics.at(pins))
    if not isinstance(found, plan.ReadPlan):
        raise NotARead(compiled.name)
    return found


def bind_query(
    source: PreparedQuery,
    catalog: Catalog,
    snapshot: ManifestSnapshot,
    *,
    params: object,
    now_ms: int,
    statistics: KeptStatistics,
    binding: IntegerEncoding = IntegerEncoding.NATIVE,
) -> BoundQuery:
    """Raises QueryInvalid, QueryNotFound, ParameterInvalid, NotARead."""
    planned = source.planned(catalog, snapshot.pins, statistics)
    values = bind(planned.parameters, params, binding)
    return BoundQuery(planned.plan, planned.types, {NOW_PARAMETER: now_ms, **values})


@dataclass(frozen=True, slots=True)
class ReadView:
    """The snapshot a read looks at, and how it was asked for."""

    asked: ReadTarget
    snapshot: ManifestSnapshot
    incarnation_of: Callable[[BranchName], str]


@dataclass(frozen=True, slots=True)
class Reader:
    """Executes the reads of one graph. Safe to share among threads."""

    stores: Stores
    settings: Settings
    cache: TableCache
    statistics: KeptStatistics
    search: SearchProvider = WITHOUT_EMBEDDER
    queries: PreparedQueries = field(default_factory=PreparedQueries)

    def analyze(self, query: BoundQuery, catalog: Catalog, seen: ReadView) -> "Explanation":
        """Run a read, and report what its operators did."""
        # Only a profile needs it, and a small query imports little (ADR 35).
        from omnigraph.engine.query.estimate import Estimator  # noqa: PLC0415

        read = query.plan
        statistics = self.statistics.at(seen.snapshot.pins)
        expected = Estimator(self.prepare(query, catalog, seen), statistics).expect(read.root)
        profile = Profile(expected)
        result = self.execute(query, catalog, seen, profile)
        steps = tuple(profile.documents(read))
        text = f"{profile.text(read)}\nexpected from: {known_of(read.root, statistics)}"
        return Explanation(read.name, text, steps, len(result))

    def execute(
        self, query: BoundQuery, catalog: Catalog, seen: ReadView, profile: Profile | None = None
    ) -> QueryResult:
        """Raises QueryMemoryExceeded, QueryTimeout, TableUnknown, and whatever the store raises."""
        execution = self.prepare(query, catalog, seen)
        memory = execution.memory
        watching = None if profile is None else ON_READ.set(profile.read)
        memory.begin()
        try:
            table = Runner(execution, profile).table(query.plan.root)
        finally:
            memory.end()
            if watching is not None:
                ON_READ.reset(watching)
            if self.cache.grown:
                self.cache.trim()
        commit = seen.snapshot.commit
        return QueryResult(
            query.plan.name,
            seen.asked,
            None if commit is None else commit.id,
            table,
            query.types,
        )

    def prepare(self, query: BoundQuery, catalog: Catalog, seen: ReadView) -> Execution:
        """What the operators of a read share, before any of them runs."""
        memory = Memory(self.settings.query_memory_bytes_max, self.settings.meter)
        hops_max = self.settings.query_hops_max
        return Execution(self.view(catalog, seen), query.values, memory, self.search, hops_max)

    def find(self, type_: NodeType | EdgeType, identity: str, seen: ReadView) -> QueryResult:
        """One node or edge; no row if there is none. Raises TableUnknown."""
        view = self._view(Catalog(), seen)
        table, types = read_entity(view.table(type_), identity)
        commit = seen.snapshot.commit
        commit_id = None if commit is None else commit.id
        return QueryResult(type_.name, seen.asked, commit_id, table, types)

    def open_blob(self, type_: NodeType | EdgeType, name: BlobName, seen: ReadView) -> OpenBlob:
        """Raises BlobNotFound, TableUnknown."""
        view = self._view(Catalog(), seen)
        commit = seen.snapshot.commit
        return open_blob(view.table(type_), name, None if commit is None else commit.id)

    def view(self, catalog: Catalog, seen: ReadView) -> View:
        """The same view for all reads of a snapshot, until a table of the cache is evicted."""
        known = self.cache.view_of(seen.snapshot.pins)
        if isinstance(known, View) and known.catalog is catalog and known.stores is self.stores:
            return known
        made = self._view(catalog, seen)
        self.cache.keep_view(made)
        return made

    def _view(self, catalog: Catalog, seen: ReadView) -> View:
        access = self.settings.query_access
        return View(seen.snapshot, catalog, self.stores, self.cache, access, seen.incarnation_of)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plan of a query; after a run, with what each operator did. Prints as its text."""

    query_name: str
    text: str
    steps: tuple[JsonObject, ...] = ()
    """What each operator did, the last operator first. Empty if the query was not run."""
    row_count: int | None = None

    def __str__(self) -> str:
        return self.text


def explain_query(
    source: Source,
    catalog: Catalog,
    snapshot: ManifestSnapshot,
    statistics: KeptStatistics,
    *,
    name: str | None,
) -> Explanation:
    """The plan of a read or a mutation, without running it. Raises QueryInvalid, QueryNotFound."""
    compiled = compile_query(source, catalog, name=name)
    planned: plan.Plan = compiled.plan
    if isinstance(planned, plan.ReadPlan):
        planned = plan_for(compiled, catalog, snapshot.pins, statistics)
    return Explanation(compiled.name, explain(planned))


def types_of(root: plan.Operator) -> tuple[ValueType, ...]:
    """The types of the columns that a plan yields."""
    match root:
        case plan.Project(columns=columns):
            return tuple(each.type for each in columns)
        case plan.Aggregate(columns=groups):
            return tuple(each.type for each in groups)
        case (
            plan.Union(given)
            | plan.FilterColumns(given)
            | plan.SortColumns(given)
            | plan.Limit(given)
        ):
            return types_of(given)
        case (
            plan.OneRow()
            | plan.Given()
            | plan.NodeScan()
            | plan.KeyLookup()
            | plan.Either()
            | plan.Stage()
            | plan.Expand()
            | plan.ExpandAny()
            | plan.EachPath()
            | plan.CrossJoin()
            | plan.AntiJoin()
            | plan.SemiJoin()
            | plan.Measure()
            | plan.LeftJoin()
            | plan.Filter()
            | plan.TopRanked()
            | plan.Sort()
        ):
            raise AssertionError(f"{type(root).__name__} yields rows, not columns")
        case _:
            assert_never(root)
