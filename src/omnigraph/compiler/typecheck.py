"""Which typed expressions go together: the type rules, as functions from operands to a problem.

They look at resolved operands only, and know neither syntax nor scopes. `resolve` calls them as it
builds each part, so that a part which is wrong is reported and left out while the rest of the query
is still checked.
"""

import json
from dataclasses import KW_ONLY, dataclass, replace
from typing import assert_never

from omnigraph.catalog.temporal import format_date, format_datetime
from omnigraph.catalog.types import Scalar, ValueType, Vector, are_compatible
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import (
    CARRIED,
    F64,
    I64,
    RESULT,
    Aggregate,
    AggregateFunction,
    Choice,
    Comparator,
    Computed,
    Constant,
    Function,
    IdOf,
    Nearest,
    Now,
    Operand,
    ParameterRef,
    PathOf,
    PropertyOf,
    Rrf,
    StringTest,
    Truth,
    Value,
)
from omnigraph.compiler.rules import QueryRule


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """A broken rule, before it is known where it was broken."""

    rule: QueryRule
    message: str
    hint: str | None = None
    _: KW_ONLY
    expected: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    """As in `Diagnostic`."""


_TEXT_SHOWN_MAX = 40

# ── names for messages ───────────────────────────────────────────────────────────────────────────


def describe(operand: Operand) -> str:
    """An operand as a message names it, with its type."""
    match operand:
        case Constant(_, None):
            return "null"
        case Constant(tuple() as values):
            return f"a list of {len(values)}"
        case Constant(value, value_type):
            return f"the literal {_spell(value, value_type)}"
        case ParameterRef(name, value_type):
            return f"`${name}` ({value_type})"
        case PropertyOf(variable, name, value_type) if variable in (RESULT, CARRIED):
            return f"`{name}` ({value_type})"
        case PropertyOf(variable, type=value_type):
            return f"`${variable}.{operand.spelling}` ({value_type})"
        case IdOf(variable):
            return f"the node `${variable}`"
        case PathOf(part, type=value_type):
            return f"the {part} of a path ({value_type})"
        case Now():
            return "`now()` (DateTime)"
        case Computed(
            Function.ADD_MONTHS | Function.ADD_DAYS | Function.ADD_MILLISECONDS, type=value_type
        ):
            return f"the date moved by a duration ({value_type})"
        case Computed(function, type=value_type):
            return f"the result of `{function}` ({value_type})"
        case Choice(type=value_type):
            return f"the `case` ({value_type})"
        case Truth():
            return "the condition (Bool)"
        case _:
            assert_never(operand)


def _spell(value: Value, value_type: ValueType | None) -> str:
    base = None if value_type is None else value_type.base
    match value:
        case str():
            shown = value if len(value) <= _TEXT_SHOWN_MAX else f"{value[:_TEXT_SHOWN_MAX]}…"
            return json.dumps(shown, ensure_ascii=False)
        case bool():
            return str(value).lower()
        case int() if base is Scalar.DATE:
            return f'date("{format_date(value)}")'
        case int() if base is Scalar.DATETIME:
            return f'datetime("{format_datetime(value)}")'
        case _:
            return repr(value)


def hint_for_text(given: Operand, wanted: ValueType) -> str | None:
    """A String next to a Date is the commonest slip; say what to write instead."""
    if given.type is None or not given.type.is_string:
        return None
    if wanted.base not in (Scalar.DATE, Scalar.DATETIME):
        return None
    if isinstance(given, ParameterRef):
        return f"declare `${given.name}` as {wanted.base}"
    if not isinstance(given, Constant):
        return None
    is_date = wanted.base is Scalar.DATE
    return 'write date("2024-05-01")' if is_date else 'write datetime("2024-05-01T08:00:00Z")'


# ── comparisons ──────────────────────────────────────────────────────────────────────────────────


def find_comparison_problem(left: Operand, right: Operand) -> TypeProblem | None:
    """T7 and U11: both sides are scalars, neither is null, and their types go together."""
    return (
        find_null_problem(left, right)
        or find_scalar_problem(left)
        or find_scalar_problem(right)
        or find_mismatch(left, right)
    )


def find_identity_problem(
    left: IdOf, right: IdOf, operator: str, *, is_alike: bool
) -> TypeProblem | None:
    """T7: two variables of one type are the same or not; they have no order."""
    pair = f"`${left.variable}` and `${right.variable}`"
    if left.variable == right.variable:
        message = f"`${left.variable}` is compared with itself"
        return TypeProblem(QueryRule.T7, message, "compare two variables, or two properties")
    if operator not in (Comparator.EQ, Comparator.NE):
        message = f"{pair} are not values: `{operator}` does not apply"
        return TypeProblem(QueryRule.T7, message, "compare with `=` or `!=`, or compare properties")
    if not is_alike:
        message = f"{pair} are of different types and never the same"
        return TypeProblem(QueryRule.T7, message, "compare properties of them")
    return None


def find_null_problem(left: Operand, right: Operand) -> TypeProblem | None:
    """U11: null is not equal to anything, nor different from it."""
    for null, other in ((left, right), (right, left)):
        if null.type is None:
            message = f"comparing {describe(other)} with null never matches"
            return TypeProblem(QueryRule.U11, message, "write `is null` or `is not null`")
    return None


def find_scalar_problem(operand: Operand) -> TypeProblem | None:
    """T7: lists, vectors, Blobs and whole nodes are not compared."""
    if isinstance(operand, IdOf):
        message = f"{describe(operand)} cannot be compared"
        return TypeProblem(QueryRule.T7, message, "compare one of its properties, or two nodes")
    if is_scalar(operand):
        return None
    hint = (
        "look into it with `contains` or `in`"
        if operand.type is not None and operand.type.is_list
        else None
    )
    return TypeProblem(QueryRule.T7, f"{describe(operand)} is not a single value to compare", hint)


def is_scalar(operand: Operand) -> bool:
    """A single value that can be compared and sorted."""
    value_type = operand.type
    if value_type is None:
        return False
    return not (value_type.is_list or value_type.is_vector or value_type.is_blob)


def find_mismatch(left: Operand, right: Operand) -> TypeProblem | None:
    """T7: types that do not go together."""
    left_type, right_type = left.type, right.type
    if left_type is None or right_type is None or are_compatible(left_type, right_type):
        return None
    message = f"{describe(left)} and {describe(right)} cannot be compared"
    hint = hint_for_text(left, right_type) or hint_for_text(right, left_type)
    return TypeProblem(QueryRule.T7, message, hint, expected=(str(left_type),))


def find_member_problem(needle: Operand, haystack: Operand) -> TypeProblem | None:
    """T7: an element is looked for in a list whose elements it can equal."""
    problem = find_null_problem(needle, haystack)
    if problem is not None:
        return problem
    if isinstance(needle, IdOf) or not is_scalar(needle):
        return TypeProblem(QueryRule.T7, f"{describe(needle)} is not a single value to look for")
    if haystack.type is None or not haystack.type.is_list:
        return TypeProblem(QueryRule.T7, f"{describe(haystack)} is not a list to look into")
    if isinstance(haystack, Constant) and haystack.value == ():
        return None
    assert needle.type is not None
    if are_compatible(needle.type, haystack.type.item):
        return None
    message = f"{describe(haystack)} cannot hold {describe(needle)}"
    return TypeProblem(QueryRule.T7, message, hint_for_text(needle, haystack.type.item))


def find_string_problem(subject: Operand, pattern: Operand, test: StringTest) -> TypeProblem | None:
    """T7: prefixes and substrings are looked for in Strings."""
    problem = find_null_problem(subject, pattern)
    if problem is not None:
        return problem
    for operand in (subject, pattern):
        if isinstance(operand, IdOf) or operand.type is None or not operand.type.is_string:
            message = f"`{test}` takes Strings, not {describe(operand)}"
            return TypeProblem(QueryRule.T7, message)
    return None


# ── aggregates ───────────────────────────────────────────────────────────────────────────────────

_ORDERED = frozenset({Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME})


def find_aggregate_problem(
    function: AggregateFunction, argument: Operand, *, distinct: bool
) -> TypeProblem | None:
    """T8, and T24 for Blobs."""
    if argument.type is not None and argument.type.is_blob:
        return TypeProblem(QueryRule.T24, f"{describe(argument)} cannot be aggregated")
    if distinct and function not in (AggregateFunction.COUNT, AggregateFunction.COLLECT):
        return TypeProblem(
            QueryRule.T8,
            f"`{function}` does not take `distinct`; only `count` and `collect` do",
        )
    match function:
        case AggregateFunction.COUNT:
            if distinct and not is_scalar(argument):
                message = f"`count(distinct …)` takes single values, not {describe(argument)}"
                return TypeProblem(QueryRule.T8, message)
            return None
        case (
            AggregateFunction.SUM
            | AggregateFunction.AVG
            | AggregateFunction.STDDEV
            | AggregateFunction.PERCENTILE
        ):
            wanted = "a number"
            is_fitting = argument.type is not None and argument.type.is_number
        case AggregateFunction.MIN | AggregateFunction.MAX | AggregateFunction.COLLECT:
            wanted = "a number, a String, a Bool, a Date or a DateTime"
            is_fitting = is_scalar(argument) and _is_ordered(argument)
        case _:
            assert_never(function)
    if is_fitting and not isinstance(argument, IdOf):
        return None
    return TypeProblem(QueryRule.T8, f"`{function}` takes {wanted}, not {describe(argument)}")


def _is_ordered(argument: Operand) -> bool:
    assert argument.type is not None
    return argument.type.is_number or argument.type.base in _ORDERED


def aggregate_type(function: AggregateFunction, argument: Operand) -> ValueType:
    """The type of the result; all but counts and lists are null for a group without values."""
    match function:
        case AggregateFunction.COUNT:
            return I64
        case (
            AggregateFunction.SUM
            | AggregateFunction.AVG
            | AggregateFunction.STDDEV
            | AggregateFunction.PERCENTILE
        ):
            return F64.optional()
        case AggregateFunction.MIN | AggregateFunction.MAX:
            assert argument.type is not None
            return argument.type.optional()
        case AggregateFunction.COLLECT:
            assert argument.type is not None
            return replace(argument.type.required(), is_list=True)
        case _:
            assert_never(function)


def find_fraction_problem(
    function: AggregateFunction, fraction: Operand | None
) -> TypeProblem | None:
    """E1 and T8: `percentile` takes a fraction, the same for every row, and nothing else does."""
    if function is not AggregateFunction.PERCENTILE:
        if fraction is None:
            return None
        return TypeProblem(QueryRule.E1, f"`{function}` takes one value")
    hint = "write `percentile($x.n, 0.9)`"
    if fraction is None:
        return TypeProblem(QueryRule.E1, "`percentile` takes a value and a fraction", hint)
    match fraction:
        case Constant(int() | float() as value) if not isinstance(value, bool) and 0 <= value <= 1:
            return None
        case ParameterRef(type=kind) if kind.is_number and not kind.nullable:
            return None
    message = f"the fraction of `percentile` is a number from 0 to 1, not {describe(fraction)}"
    hint = "write a number, or a parameter of type F64"
    return TypeProblem(QueryRule.T8, message, hint)


def find_measure_problem(aggregate: Aggregate, bound: Operand) -> TypeProblem | None:
    """T7 and U11: what an aggregate over a block is compared with."""
    if aggregate.type.is_list:
        message = f"`{aggregate.function} {{ }}` is a list, and a block is compared by one value"
        return TypeProblem(QueryRule.T8, message, "count the values: `count(distinct …) { … }`")
    if bound.type is None:
        message = f"comparing `{aggregate.function} {{ }}` with null never matches"
        return TypeProblem(QueryRule.U11, message, "leave the block out, or compare with a value")
    problem = find_scalar_problem(bound)
    if problem is not None:
        return problem
    if are_compatible(aggregate.type, bound.type):
        return None
    message = (
        f"`{aggregate.function} {{ }}` ({aggregate.type}) and {describe(bound)} cannot be compared"
    )
    return TypeProblem(QueryRule.T7, message, hint_for_text(bound, aggregate.type))


# ── search ───────────────────────────────────────────────────────────────────────────────────────


def find_query_problem(rule: QueryRule, function: str, query: Operand) -> TypeProblem | None:
    """T19 and T20: what is searched for is one String, the same for every row."""
    if isinstance(query, IdOf) or query.type is None or not query.type.is_string:
        return TypeProblem(rule, f"`{function}` searches for a String, not for {describe(query)}")
    return _find_row_problem(rule, f"what `{function}` looks for", query)


def find_integer_problem(rule: QueryRule, what: str, operand: Operand) -> TypeProblem | None:
    """An integer, the same for every row."""
    if operand.type is None or not operand.type.is_integer:
        return TypeProblem(rule, f"{what} is an integer, not {describe(operand)}")
    return _find_row_problem(rule, what, operand)


def _find_row_problem(rule: QueryRule, what: str, operand: Operand) -> TypeProblem | None:
    if not is_fixed(operand):
        message = f"{what} cannot depend on the row: {describe(operand)}"
        return TypeProblem(rule, message, "use a literal or a parameter")
    return None


def find_nearest_problem(target: PropertyOf, query: Operand) -> TypeProblem | None:
    """T15: a vector property, and a vector of its length or a String to embed."""
    if not isinstance(target.type.base, Vector):
        return TypeProblem(QueryRule.T15, f"`nearest` ranks by a vector, not by {describe(target)}")
    problem = _find_row_problem(QueryRule.T15, "what `nearest` looks for", query)
    if problem is not None:
        return problem
    if query.type is not None and query.type.is_string:
        return None
    dimension = target.type.base.dimension
    if query.type is None or not _is_vector_like(query):
        message = f"`nearest` looks for a vector or a String, not for {describe(query)}"
        return TypeProblem(QueryRule.T15, message)
    given = _dimension_of(query)
    if given != dimension:
        message = f"{describe(target)} has {dimension} dimensions, {describe(query)} has {given}"
        return TypeProblem(QueryRule.T15, message)
    return None


def _is_vector_like(query: Operand) -> bool:
    assert query.type is not None
    is_numbers = query.type.is_list and query.type.item.is_number
    return query.type.is_vector or (is_numbers and isinstance(query, Constant))


def _dimension_of(query: Operand) -> int:
    if isinstance(query, Constant) and isinstance(query.value, tuple):
        return len(query.value)
    assert query.type is not None
    assert isinstance(query.type.base, Vector)
    return query.type.base.dimension


def find_fusion_problem(rrf: Rrf) -> TypeProblem | None:
    """T21: two rankings of one variable, fused with a positive integer."""
    first, second = rrf.first.target.variable, rrf.second.target.variable
    if first != second:
        message = f"`rrf` fuses two rankings of one variable, here `${first}` and `${second}`"
        return TypeProblem(QueryRule.T21, message)
    problem = find_integer_problem(QueryRule.T21, "k of `rrf`", rrf.k)
    if problem is not None:
        return problem
    if isinstance(rrf.k, Constant) and isinstance(rrf.k.value, int) and rrf.k.value <= 0:
        return TypeProblem(QueryRule.T21, f"k of `rrf` is positive, not {rrf.k.value}")
    return None


def find_limit_problem(rank: object) -> TypeProblem | None:
    """T17 and T21: what to report when the ordering has no limit. `bm25` needs none."""
    if isinstance(rank, Nearest):
        message = "ordering by `nearest` needs a limit"
        return TypeProblem(QueryRule.T17, message, "add `limit 10` after the order")
    if isinstance(rank, Rrf):
        message = "ordering by `rrf` needs a limit"
        return TypeProblem(QueryRule.T21, message, "add `limit 10` after the order")
    return None
