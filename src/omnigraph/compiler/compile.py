"""The pipeline from text to plan. It has no rules of its own.

    parse → resolve → check_split → optimise → lower

A query that was compiled before costs a look-up: results are kept by text, catalog and name, the
least recently used leaving first. The plan of a read is then arranged for the sizes of the tables
that it will meet; it is kept by these. Catalogs are told apart by identity, since comparing them
whole would cost more than most compilations. Rejections are not kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.ir import Mutation, Parameter, Query, Read
from omnigraph.compiler.lower import lower
from omnigraph.compiler.passes import Watcher, optimise, silent
from omnigraph.compiler.plan import Plan
from omnigraph.compiler.resolve import check_file, check_split, find_mixed, resolve_query
from omnigraph.compiler.sizes import Sizes, tables_of
from omnigraph.compiler.statistics import UNKNOWN, Statistics
from omnigraph.errors import Finding, QueryInvalid, QueryNotFound
from omnigraph.ids import TableKey
from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Diagnostic, Source

if TYPE_CHECKING:
    from omnigraph.compiler.repair.edits import Repair

QUERIES_KEPT_MAX = 512

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query, ready to run."""

    name: str
    ir: Query
    """As it was written."""
    optimised: Query
    plan: Plan
    """For tables of unknown sizes."""
    sized_by: tuple[TableKey, ...]
    """The tables whose sizes decide about the order of its steps."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.ir.parameters


def compile_query(source: Source, catalog: Catalog, *, name: str | None = None) -> CompiledQuery:
    """Compile one query of a text; the name may be left out when there is only one.

    Raises QueryInvalid with everything that is wrong, and QueryNotFound. Other queries of the text
    are parsed but not checked.
    """
    try:
        return _compile_once(source, _ByIdentity(catalog), name)
    except QueryInvalid as error:
        repair = _find_repair(error, source, catalog, name)
        raise QueryInvalid(error.findings, repair=repair) from None


def arrange(
    compiled: CompiledQuery,
    catalog: Catalog,
    row_count: Callable[[TableKey], int],
    statistics: Callable[[], Statistics] = lambda: UNKNOWN,
) -> Plan:
    """The plan of a query for tables of these sizes. Most reads have one plan and ask nothing."""
    if not compiled.sized_by:
        return compiled.plan
    sizes = Sizes.of(compiled.sized_by, row_count, statistics())
    return _arranged(_ByIdentity(compiled), _ByIdentity(catalog), sizes)


def compile_file(source: Source, catalog: Catalog) -> tuple[CompiledQuery, ...]:
    """Compile every query of a text. Raises QueryInvalid with what is wrong in all of them."""
    resolved: list[Query] = []
    faults: list[Finding] = []
    for checked in check_file(parse(source), catalog, source):
        if checked.resolved is None:
            faults.extend(checked.diagnostics)
        else:
            faults.extend(find_mixed(checked.resolved, source))
            resolved.append(checked.resolved)
    if faults:
        raise QueryInvalid(faults)
    return tuple(_finish(each, catalog) for each in resolved)


def compile_tree(
    query: ast.Query, catalog: Catalog, source: Source, watch: Watcher = silent
) -> CompiledQuery:
    """Compile a query that is parsed already; `watch` is told what each pass made of it."""
    resolved = resolve_query(query, catalog, source)
    check_split(resolved, source)
    return _finish(resolved, catalog, watch)


def select_query(file: ast.File, name: str | None) -> ast.Query:
    """The query of that name, or the only one. Raises QueryNotFound."""
    if name is None and len(file.queries) == 1:
        return file.queries[0]
    for query in file.queries:
        if query.name.text == name:
            return query
    raise QueryNotFound(name, available=[each.name.text for each in file.queries])


def find_faults(
    source: Source, catalog: Catalog, name: str | None = None
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with the query of that name; with all queries if there is none."""
    try:
        checked = check_file(parse(source), catalog, source)
    except QueryInvalid as error:
        return tuple(each for each in error.findings if isinstance(each, Diagnostic))
    faults: list[Diagnostic] = []
    for each in [each for each in checked if each.query.name.text == name] or checked:
        faults.extend(each.diagnostics)
        if each.resolved is not None:
            faults.extend(find_mixed(each.resolved, source))
    return tuple(faults)


def _find_repair(
    error: QueryInvalid, source: Source, catalog: Catalog, name: str | None
) -> "Repair | None":
    # Imported here: most programs are right.
    from omnigraph.compiler.repair.search import find_repair

    faults = tuple(each for each in error.findings if isinstance(each, Diagnostic))
    return find_repair(source, faults, catalog, lambda text: find_faults(text, catalog, name))


def _finish(query: Query, catalog: Catalog, watch: Watcher = silent) -> CompiledQuery:
    optimised = query if isinstance(query, Mutation) else optimise(query, catalog, watch)
    sized_by = tables_of(optimised, catalog) if isinstance(optimised, Read) else ()
    return CompiledQuery(query.name, query, optimised, lower(optimised, catalog), sized_by)


@dataclass(frozen=True, slots=True, eq=False)
class _ByIdentity(Generic[Kept]):
    """What equals only itself. Being kept with the result, it keeps its identity."""

    kept: Kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.kept is other.kept

    def __hash__(self) -> int:
        return id(self.kept)


@lru_cache(maxsize=QUERIES_KEPT_MAX)
def _compile_once(source: Source, catalog: _ByIdentity[Catalog], name: str | None) -> CompiledQuery:
    query = select_query(parse(source), name)
    return compile_tree(query, catalog.kept, source)


@lru_cache(maxsize=QUERIES_KEPT_MAX)
def _arranged(
    compiled: _ByIdentity[CompiledQuery], catalog: _ByIdentity[Catalog], sizes: Sizes
) -> Plan:
    query = compiled.kept.ir
    assert isinstance(query, Read)
    arranged = optimise(query, catalog.kept, sizes=sizes)
    return (
        compiled.kept.plan if arranged == compiled.kept.optimised else lower(arranged, catalog.kept)
    )
