"""Expressions and conditions of a plan as text, spelled as a query would spell them."""

from typing import assert_never

from omnigraph.catalog.temporal import format_date, format_datetime
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.ir import (
    CARRIED,
    RESULT,
    Aggregate,
    AllOf,
    AnyOf,
    Bm25,
    Choice,
    Compare,
    Computed,
    Condition,
    Constant,
    Direction,
    Function,
    IdOf,
    Member,
    Nearest,
    Not,
    Now,
    NullTest,
    ObjectOf,
    Operand,
    ParameterRef,
    PathOf,
    PropertyOf,
    Rank,
    Rrf,
    Scalarish,
    StringMatch,
    TextMatch,
    Truth,
)
from omnigraph.compiler.scope import is_named

_ESCAPES = str.maketrans({'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def variable_text(variable: str) -> str:
    if variable == CARRIED:
        return "the row"
    return f"${variable}" if is_named(variable) else "$_"


def variables_text(variables: tuple[str, ...]) -> str:
    return ", ".join(map(variable_text, variables))


def expression_text(expression: Operand | ObjectOf | Aggregate | Rank) -> str:
    match expression:
        case Constant(value, kind):
            if isinstance(value, tuple):
                item = kind.item if kind is not None and kind.is_list else None
                return f"[{', '.join(_literal(each, item) for each in value)}]"
            return _literal(value, kind)
        case ParameterRef(name):
            return f"${name}"
        case PropertyOf(variable, name) if variable in (RESULT, CARRIED):
            return name
        case PropertyOf(variable):
            return f"{variable_text(variable)}.{expression.spelling}"
        case IdOf(variable) | ObjectOf(variable):
            return variable_text(variable)
        case PathOf():
            return f"{expression.part}({path_text(expression)})"
        case Now():
            return "now()"
        case Computed() | Choice() | Truth():
            return _computed_text(expression)
        case Aggregate(function, argument, distinct, fraction=fraction):
            rest = "" if fraction is None else f", {expression_text(fraction)}"
            return f"{function}({'distinct ' if distinct else ''}{expression_text(argument)}{rest})"
        case Nearest(target, query):
            return _call("nearest", target, query)
        case Bm25(target, query):
            return _call("bm25", target, query)
        case Rrf(first, second, k):
            return _call("rrf", first, second, k)
        case _:
            assert_never(expression)


def path_text(path: PathOf) -> str:
    source, target = variable_text(path.source.variable), variable_text(path.target.variable)
    arrow = {Direction.OUT: "-{}->", Direction.IN: "<-{}-", Direction.BOTH: "-{}-"}[path.direction]
    high = "" if path.hops_high is None else path.hops_high
    walked = arrow.format(f"{path.edge}{{{path.hops_low},{high}}}")
    by = "" if path.weight is None else f" by {path.weight}"
    return f"shortest {source} {walked} {target}{by}"


def hops_text(low: int, high: int | None) -> str:
    return f"{{{low},{'' if high is None else high}}}"


def measure_text(aggregate: Aggregate) -> str:
    """An aggregate over a block: `count`, `sum($x.p)`."""
    is_plain = isinstance(aggregate.argument, Constant)
    return aggregate.function.value if is_plain else expression_text(aggregate)


_SUMS = (Function.ADD, Function.SUBTRACT)
_PRODUCTS = (Function.MULTIPLY, Function.DIVIDE, Function.REMAINDER)


def _computed_text(expression: Computed | Choice | Truth) -> str:
    match expression:
        case Computed(function, (left, right)) if function in (*_SUMS, *_PRODUCTS):
            return f"{_factor(left)} {function} {_factor(right)}"
        case Computed(Function.NEGATE, (operand,)):
            return f"-{_factor(operand)}"
        case Computed(Function.CAST, (operand,), kind):
            return f"cast({expression_text(operand)} as {kind.required()})"
        case Computed(function, arguments):
            return _call(function, *arguments)
        case Choice(branches, otherwise):
            whens = " ".join(
                f"when {condition_text(each.condition)} then {expression_text(each.value)}"
                for each in branches
            )
            return f"case {whens} else {expression_text(otherwise)} end"
        case Truth(condition):
            return f"({condition_text(condition)})"
        case _:
            assert_never(expression)


def _factor(operand: Operand) -> str:
    text = expression_text(operand)
    is_apart = isinstance(operand, Computed) and operand.function in (*_SUMS, *_PRODUCTS)
    return f"({text})" if is_apart else text


def condition_text(condition: Condition) -> str:
    match condition:
        case Compare(left, comparator, right):
            return f"{expression_text(left)} {comparator} {expression_text(right)}"
        case Member(needle, tuple() as options):
            listed = ", ".join(map(expression_text, options))
            return f"{expression_text(needle)} in [{listed}]"
        case Member(needle, PropertyOf() as haystack):
            return f"{expression_text(haystack)} contains {expression_text(needle)}"
        case Member(needle, haystack):
            assert not isinstance(haystack, tuple)
            return f"{expression_text(needle)} in {expression_text(haystack)}"
        case StringMatch(subject, test, pattern):
            return f"{expression_text(subject)} {test} {expression_text(pattern)}"
        case NullTest(operand, negated):
            return f"{expression_text(operand)} is {'not null' if negated else 'null'}"
        case TextMatch(function, target, query, max_edits):
            edits = () if max_edits is None else (max_edits,)
            return _call(function, target, query, *edits)
        case Not(test):
            return f"not ({condition_text(test)})"
        case AllOf(()):
            return "true"
        case AnyOf(()):
            return "false"
        case AllOf(conditions):
            return " and ".join(map(_grouped, conditions))
        case AnyOf(conditions):
            return " or ".join(map(condition_text, conditions))
        case _:
            assert_never(condition)


def conditions_text(conditions: tuple[Condition, ...]) -> str:
    """Several that must all be true."""
    return condition_text(conditions[0] if len(conditions) == 1 else AllOf(conditions))


def _grouped(condition: Condition) -> str:
    """`or` binds weaker than the `and` around it."""
    text = condition_text(condition)
    is_choice = isinstance(condition, AnyOf) and len(condition.conditions) > 1
    return f"({text})" if is_choice else text


def _call(name: str, *arguments: Operand | Rank) -> str:
    return f"{name}({', '.join(map(expression_text, arguments))})"


def _literal(value: Scalarish, kind: ValueType | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case int() if kind is not None and kind.base is Scalar.DATE:
            return f'date("{format_date(value)}")'
        case int() if kind is not None and kind.base is Scalar.DATETIME:
            return f'datetime("{format_datetime(value)}")'
        case _:
            return repr(value)
