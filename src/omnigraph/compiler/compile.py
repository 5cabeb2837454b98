"""The pipeline from text to plan. It has no rules of its own.

    parse → resolve → check_split → optimise → lower

A query that was compiled before costs a look-up: results are kept by text, catalog and name, the
least recently used leaving first. Catalogs are told apart by identity, since comparing them whole
would cost more than most compilations. Rejections are not kept.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.ir import Mutation, Parameter, Query
from omnigraph.compiler.lower import lower
from omnigraph.compiler.passes import Watcher, optimise, silent
from omnigraph.compiler.plan import Plan
from omnigraph.compiler.resolve import check_file, check_split, find_mixed, resolve_query
from omnigraph.errors import Finding, QueryInvalid, QueryNotFound
from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Diagnostic, Source

if TYPE_CHECKING:
    from omnigraph.compiler.repair.edits import Repair

QUERIES_KEPT_MAX = 512


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query, ready to run."""

    name: str
    ir: Query
    """As it was written."""
    optimised: Query
    plan: Plan

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
    return CompiledQuery(query.name, query, optimised, lower(optimised, catalog))


@dataclass(frozen=True, slots=True, eq=False)
class _ByIdentity:
    """A catalog that equals only itself. Being kept with the result, it keeps its identity."""

    catalog: Catalog

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.catalog is other.catalog

    def __hash__(self) -> int:
        return id(self.catalog)


@lru_cache(maxsize=QUERIES_KEPT_MAX)
def _compile_once(source: Source, catalog: _ByIdentity, name: str | None) -> CompiledQuery:
    query = select_query(parse(source), name)
    return compile_tree(query, catalog.catalog, source)
