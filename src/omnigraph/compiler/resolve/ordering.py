"""`order`, `limit` and `offset`.

Only the first key can be a rank function, and then it is the only key that counts. That same rank
function may be returned too: what rows are ranked by can be shown. Groups are ordered by what is
returned of them, and by nothing else.
"""

from collections.abc import Collection
from dataclasses import dataclass

from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import (
    Aggregate,
    Bm25,
    IdOf,
    Nearest,
    ObjectOf,
    Operand,
    Ordering,
    Output,
    ParameterRef,
    Rank,
    Rrf,
)
from omnigraph.compiler.resolve.context import BlockScope, Context
from omnigraph.compiler.resolve.expressions import resolve_operand
from omnigraph.compiler.resolve.operands import rank_name, resolve_parameter
from omnigraph.compiler.resolve.outputs import Column, resolve_aggregate
from omnigraph.compiler.resolve.search import resolve_rank
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import rank_candidates, suggest
from omnigraph.compiler.typecheck import TypeProblem, describe, find_limit_problem, is_scalar
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span

Key = Operand | Rank | int


@dataclass(frozen=True, slots=True)
class _Returned:
    """What the keys can refer to."""

    columns: list[Column]
    aliases: dict[str, int]
    is_aggregate: bool

    def find(self, expression: Operand | Aggregate) -> int | None:
        """The place of a column that shows just this; an object is ordered by its id."""
        for at, column in enumerate(self.columns):
            match column, expression:
                case Output(expression=ObjectOf(one)), IdOf(other) if one == other:
                    return at
                case Output(expression=shown), _ if shown == expression:
                    return at
        return None


def resolve_order(
    read: ast.Read, columns: list[Column], scope: BlockScope, context: Context
) -> tuple[Ordering, ...]:
    aliases: dict[str, int] = {}
    for at, projection in enumerate(read.returns):
        if projection.alias is not None:
            aliases.setdefault(projection.alias.text, at)
    is_aggregate = any(isinstance(each.expression, ast.Aggregate) for each in read.returns)
    returned = _Returned(columns, aliases, is_aggregate)
    context.aliases = {**context.carried, **_values_of(returned)}
    keys = [
        _resolve_key(each.expression, returned, scope, context, is_first=at == 0)
        for at, each in enumerate(read.order)
    ]
    rank = keys[0] if keys and isinstance(keys[0], Nearest | Bm25 | Rrf) else None
    if not keys or keys[0] is not None:
        _check_returned_ranks(columns, rank, context)
    if rank is not None:
        _check_rank_order(read, rank, context)
        return (Ordering(rank, span=read.order[0].span),)
    return tuple(
        Ordering(key, bool(ordering.descending), ordering.span)
        for key, ordering in zip(keys, read.order, strict=True)
        if key is not None
    )


def _values_of(returned: _Returned) -> dict[str, Operand]:
    """The aliases that an expression can be made of."""
    found: dict[str, Operand] = {}
    for name, at in returned.aliases.items():
        column = returned.columns[at]
        if column is not None and not isinstance(
            column.expression, Aggregate | ObjectOf | Nearest | Bm25 | Rrf
        ):
            found[name] = column.expression
    return found


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def _resolve_key(
    expression: ast.Expression,
    returned: _Returned,
    scope: BlockScope,
    context: Context,
    *,
    is_first: bool,
) -> Key | None:
    match expression:
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            problem = _find_rank_misuse(rank_name(expression), returned, is_first=is_first)
            if problem is None:
                return resolve_rank(expression, scope, context)
            context.report(problem, expression.span)
            return None
        case ast.Word(text, span) if text in returned.aliases or not (
            text == "null" or text in context.carried
        ):
            return _resolve_alias(text, span, returned, context, is_first=is_first)
        case ast.Aggregate():
            return _resolve_aggregate_key(expression, returned, scope, context)
        case _:
            operand = resolve_operand(expression, scope, context)
            if operand is None:
                return None
            key = _find_operand_key(operand, returned)
    if isinstance(key, TypeProblem):
        context.report(key, expression.span)
        return None
    return key


def _find_rank_misuse(name: str, returned: _Returned, *, is_first: bool) -> TypeProblem | None:
    if returned.is_aggregate:
        return TypeProblem(
            QueryRule.U9, f"`{name}` ranks rows, and an aggregate query returns groups"
        )
    if not is_first:
        return TypeProblem(QueryRule.U9, f"`{name}` can only be the first key of `order`")
    return None


def _resolve_alias(
    text: str, span: Span, returned: _Returned, context: Context, *, is_first: bool
) -> int | Rank | None:
    at = returned.aliases.get(text)
    if at is None:
        context.report(unknown_alias(text, returned.aliases), span)
        return None
    column = returned.columns[at]
    if column is None:
        return None
    if isinstance(column.expression, Nearest | Bm25 | Rrf):
        problem = _find_rank_misuse(text, returned, is_first=is_first)
        if problem is None:
            return column.expression
    elif column.type.is_list or column.type.is_vector:
        problem = TypeProblem(
            QueryRule.T7, f"'{text}' ({column.type}) is not a single value to order by"
        )
    else:
        return at
    context.report(problem, span)
    return None


def unknown_alias(text: str, aliases: Collection[str]) -> TypeProblem:
    """U8: a word that names no column, with the one that may have been meant."""
    return TypeProblem(
        QueryRule.U8,
        f"'{text}' is not an alias of `return`",
        suggest(text, aliases) or "a property is written `$x.name`",
        expected=("an alias",),
        candidates=rank_candidates(text, aliases),
    )


def _resolve_aggregate_key(
    expression: ast.Aggregate, returned: _Returned, scope: BlockScope, context: Context
) -> int | None:
    aggregate = resolve_aggregate(expression, scope, context)
    if aggregate is None:
        return None
    at = returned.find(aggregate)
    if at is None:
        message = f"`{expression.function}` orders only what it is returned for"
        hint = "return it, with an alias, and order by that"
        context.report(TypeProblem(QueryRule.U12, message, hint), expression.span)
    return at


def _find_operand_key(operand: Operand, returned: _Returned) -> Operand | int | TypeProblem:
    if operand.type is None or is_fixed(operand):
        message = f"{describe(operand)} is the same for every row and orders nothing"
        return TypeProblem(QueryRule.U15, message)
    if operand.type.is_blob:
        return TypeProblem(QueryRule.T24, f"{describe(operand)} cannot be ordered by")
    if not is_scalar(operand):
        return TypeProblem(QueryRule.T7, f"{describe(operand)} is not a single value to order by")
    if not returned.is_aggregate:
        return operand
    at = returned.find(operand)
    if at is None:
        message = f"{describe(operand)} is not a group key, so a group has no one value of it"
        return TypeProblem(
            QueryRule.U15, message, "return it beside the aggregates, or order by an alias"
        )
    return at


# ── ranking ──────────────────────────────────────────────────────────────────────────────────────


def _check_rank_order(read: ast.Read, rank: Rank, context: Context) -> None:
    span = read.order[0].span
    problem = find_limit_problem(rank)
    if problem is not None and read.limit is None:
        context.report(problem, span)
    if not isinstance(read.order[0].expression, ast.Nearest):
        return
    alias = next((each for each in read.order if isinstance(each.expression, ast.Word)), None)
    if alias is not None:
        message = "ordering by `nearest` leaves nothing for an alias to order"
        context.report(TypeProblem(QueryRule.T18, message, "leave the alias out"), alias.span)


def _check_returned_ranks(columns: list[Column], rank: Rank | None, context: Context) -> None:
    """A score exists only where rows are ranked by it."""
    for column in columns:
        if column is None or not isinstance(column.expression, Nearest | Bm25 | Rrf):
            continue
        if column.expression != rank:
            message = f"'{column.name}' is a score that the rows are not ranked by"
            hint = f"order by it first: `order {{ {column.name} }}`"
            context.report(TypeProblem(QueryRule.U9, message, hint), column.span)


# ── limit and offset ─────────────────────────────────────────────────────────────────────────────


def resolve_count(
    word: str, value: ast.Literal | ast.Variable | None, context: Context
) -> int | ParameterRef | None:
    """How many rows to keep or to skip; a parameter is marked, so that its value is checked."""
    match value:
        case None:
            return None
        case ast.Variable(name, span):
            parameter = resolve_parameter(value, context, rule=QueryRule.U4)
            if parameter is None:
                return None
            if parameter.type.is_integer and not parameter.type.nullable:
                context.counts.add(name)
                return parameter
            given = describe(parameter)
        case ast.Literal(bool(), span):
            given = "a boolean"
        case ast.Literal(int() as count, span) if 0 <= count < 2**63:
            return count
        case ast.Literal(literal, span):
            given = repr(literal)
    message = f"`{word}` takes a count from zero up, not {given}"
    hint = f"declare the parameter as I64 without `?` to use it for `{word}`"
    context.report(
        TypeProblem(QueryRule.U14, message, hint if isinstance(value, ast.Variable) else None), span
    )
    return None
