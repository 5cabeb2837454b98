"""Whole queries and whole files."""

from dataclasses import dataclass, replace

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import VECTOR_DIMENSION_MAX, Scalar, ValueType, Vector
from omnigraph.compiler.ir import (
    NOW_PARAMETER,
    Delete,
    Mutation,
    Parameter,
    Query,
    Read,
    Union,
)
from omnigraph.compiler.resolve.context import BlockScope, Context
from omnigraph.compiler.resolve.groups import split_groups
from omnigraph.compiler.resolve.having import resolve_having
from omnigraph.compiler.resolve.mentions import bound_names
from omnigraph.compiler.resolve.mutation import resolve_statement
from omnigraph.compiler.resolve.ordering import resolve_count, resolve_order
from omnigraph.compiler.resolve.outputs import Column, resolve_outputs
from omnigraph.compiler.resolve.pattern import resolve_pattern
from omnigraph.compiler.resolve.stages import HandedOn, hand_on
from omnigraph.compiler.resolve.unions import agree, resolve_union_order
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import rank_candidates
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.errors import QueryInvalid
from omnigraph.lang.query import ast
from omnigraph.lang.source import Diagnostic, Source


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query of a file: what it means, or everything that is wrong with it."""

    query: ast.Query
    resolved: Query | None
    diagnostics: tuple[Diagnostic, ...]


def check_file(file: ast.File, catalog: Catalog, source: Source) -> tuple[CheckedQuery, ...]:
    """Check every query of a file, in file order."""
    checked: list[CheckedQuery] = []
    for query in file.queries:
        context = Context(catalog, source)
        resolved = _resolve(query, context)
        diagnostics = context.diagnostics()
        checked.append(CheckedQuery(query, None if diagnostics else resolved, diagnostics))
    return tuple(checked)


def resolve_query(query: ast.Query, catalog: Catalog, source: Source) -> Query:
    """What a query means. Raises QueryInvalid with everything that is wrong with it."""
    context = Context(catalog, source)
    resolved = _resolve(query, context)
    diagnostics = context.diagnostics()
    if diagnostics:
        raise QueryInvalid(diagnostics)
    return resolved


def check_split(query: Query, source: Source) -> None:
    """Raises QueryInvalid when a mutation both writes and deletes."""
    diagnostics = find_mixed(query, source)
    if diagnostics:
        raise QueryInvalid(diagnostics)


def find_mixed(query: Query, source: Source) -> list[Diagnostic]:
    """D2: a mutation either inserts and updates, or deletes. Checked after the types."""
    if isinstance(query, Read):
        return []
    deletes = [each for each in query.statements if isinstance(each, Delete)]
    if not deletes or len(deletes) == len(query.statements):
        return []
    mixed = Diagnostic(
        code=QueryRule.D2.value,
        family="plan error",
        message=f"query '{query.name}' mixes inserts or updates with deletes",
        source=source,
        span=deletes[0].span,
        hint="split it into two queries: run the writes first, the deletes second",
    )
    return [mixed]


def _resolve(query: ast.Query, context: Context) -> Query:
    """The query as far as it could be resolved; it means nothing if the context has faults."""
    parameters = _declare_parameters(query.parameters, context)
    context.parameters = {each.name: each for each in parameters}
    if isinstance(query.body, ast.Mutation):
        resolved = (resolve_statement(each, context) for each in query.body.statements)
        whole = tuple(statement for each in resolved for statement in each)
        return Mutation(query.name.text, parameters, whole)
    return _resolve_read(query.name.text, parameters, query.body, context)


def _resolve_read(
    name: str, parameters: tuple[Parameter, ...], body: ast.Read, context: Context
) -> Read:
    if not body.unions:
        return _marked(_resolve_part(name, parameters, body, context), context)
    faults = context.fault_count
    first = replace(body, order=(), limit=None, offset=None)
    whole = _resolve_part(name, parameters, first, context)
    others = [
        Union(_resolve_part(name, parameters, each.part, context), distinct=not each.is_all)
        for each in body.unions
    ]
    if context.fault_count == faults:
        whole = agree(whole, others, context)
    whole = replace(
        whole,
        order=resolve_union_order(body.order, whole, context),
        limit=resolve_count("limit", body.limit, context),
        offset=resolve_count("offset", body.offset, context),
    )
    return _marked(whole, context)


def _marked(read: Read, context: Context) -> Read:
    """The read with the uses of its parameters, which are known by now."""
    marked = tuple(
        replace(
            each,
            is_count=each.name in context.counts,
            is_pattern=each.name in context.patterns,
            is_fraction=each.name in context.fractions,
        )
        for each in read.parameters
    )
    return _with_parameters(read, marked)


def _with_parameters(read: Read, parameters: tuple[Parameter, ...]) -> Read:
    """The read and all its parts with these parameters."""
    unions = (replace(e, read=_with_parameters(e.read, parameters)) for e in read.unions)
    steps, stage = read.steps, read.stage
    if stage is not None:
        before = replace(stage, read=_with_parameters(stage.read, parameters))
        steps = (before, *steps[1:])
    return replace(read, parameters=parameters, steps=steps, unions=tuple(unions))


def _resolve_part(
    name: str, parameters: tuple[Parameter, ...], body: ast.Read, context: Context
) -> Read:
    before = HandedOn()
    written = (*body.stages, body)
    bound = {name for stage in written for name in bound_names(stage.match)} - set(
        context.parameters
    )
    *earlier, last = (each for stage in written for each in split_groups(stage, bound, context))
    for each in earlier:
        stage, columns, scope = _resolve_stage(name, parameters, each, before, context)
        before = hand_on(stage, each, columns, scope, context)
    return _resolve_stage(name, parameters, last, before, context)[0]


def _resolve_stage(
    name: str,
    parameters: tuple[Parameter, ...],
    body: ast.Read,
    before: HandedOn,
    context: Context,
) -> tuple[Read, list[Column], BlockScope]:
    context.pattern = body.match
    context.carried = context.aliases = before.values
    scope = BlockScope(outer=before.scope)
    steps = resolve_pattern(body.match, scope, context)
    if before.stage is not None:
        steps = (before.stage, *steps)
    columns = resolve_outputs(body.returns, scope, context)
    having = resolve_having(body, columns, context)
    order = resolve_order(body, columns, scope, context)
    limit = resolve_count("limit", body.limit, context)
    offset = resolve_count("offset", body.offset, context)
    outputs = tuple(each for each in columns if each is not None)
    read = Read(name, parameters, steps, outputs, order, limit, offset, having)
    return read, columns, scope


# ── parameters ───────────────────────────────────────────────────────────────────────────────────

_RESERVED = frozenset({NOW_PARAMETER, ast.WILDCARD})
_SCALARS = {each.value: each for each in Scalar}


def _declare_parameters(
    declared: tuple[ast.Parameter, ...], context: Context
) -> tuple[Parameter, ...]:
    parameters: list[Parameter] = []
    for each in declared:
        if each.name in _RESERVED:
            message = f"the name `${each.name}` is reserved"
            context.report(TypeProblem(QueryRule.U1, message), each.span)
        value_type = _resolve_type(each.type)
        if isinstance(value_type, TypeProblem):
            context.report(value_type, each.type.span)
            context.mistyped.add(each.name)
        else:
            parameters.append(Parameter(each.name, value_type))
    return tuple(parameters)


def _resolve_type(reference: ast.TypeRef) -> ValueType | TypeProblem:
    base: Scalar | Vector | None
    if reference.dimension is not None:
        base = Vector(reference.dimension)
        if not 1 <= reference.dimension <= VECTOR_DIMENSION_MAX:
            message = f"a vector has 1 to {VECTOR_DIMENSION_MAX} dimensions"
            return TypeProblem(QueryRule.U2, message)
    else:
        base = _SCALARS.get(reference.base or "")
    if base is None:
        message = f"'{reference.base}' is not a type of parameters"
        return TypeProblem(
            QueryRule.U2,
            message,
            f"there are {', '.join(_SCALARS)} and Vector(n)",
            expected=("a type of parameters",),
            candidates=rank_candidates(reference.base or "", _SCALARS),
        )
    if base is Scalar.BLOB and reference.is_list:
        return TypeProblem(QueryRule.U2, "there are no lists of Blobs")
    return ValueType(base, nullable=reference.nullable, is_list=reference.is_list)
