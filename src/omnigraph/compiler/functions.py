"""The scalar functions of the language: what each takes, and the type of what it gives.

`call` makes an operand of a function's name and its arguments, or says what is wrong. The types are
checked here; what a function computes stands in `compiler.scalars`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from omnigraph.catalog.regex import PatternInvalid, compile_pattern
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, INTEGERS, Scalar, ValueType
from omnigraph.compiler.ir import (
    BOOL,
    F64,
    I64,
    STRING,
    Computed,
    Constant,
    Function,
    IdOf,
    Member,
    Operand,
    ParameterRef,
    StringMatch,
    StringTest,
    Truth,
)
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.spelling import rank_candidates, suggest
from omnigraph.compiler.typecheck import (
    TypeProblem,
    describe,
    find_member_problem,
    find_string_problem,
)
from omnigraph.lang.source import Span

Outcome = Operand | TypeProblem

_ARITIES: dict[str, tuple[int, int | None]] = {
    "abs": (1, 1),
    "floor": (1, 1),
    "ceil": (1, 1),
    "round": (1, 1),
    "lower": (1, 1),
    "upper": (1, 1),
    "trim": (1, 1),
    "length": (1, 1),
    "concat": (1, None),
    "substring": (2, 3),
    "starts_with": (2, 2),
    "contains": (2, 2),
    "matches": (2, 2),
    "year": (1, 1),
    "month": (1, 1),
    "day": (1, 1),
    "hour": (1, 1),
    "minute": (1, 1),
    "second": (1, 1),
    "date_diff": (3, 3),
    "coalesce": (1, None),
    "len": (1, 1),
    "at": (2, 2),
}

DURATIONS = {
    "years": (12, 0),
    "months": (1, 0),
    "weeks": (0, 7 * 86_400_000),
    "days": (0, 86_400_000),
    "hours": (0, 3_600_000),
    "minutes": (0, 60_000),
    "seconds": (0, 1_000),
    "milliseconds": (0, 1),
}
"""Functions that give a duration of so many units: the months and milliseconds of one unit."""

DURATION = "duration"
CAST = "cast"
NAMES = (*_ARITIES, *DURATIONS, DURATION, CAST)

_TOTAL = frozenset(
    {
        *(Function.LOWER, Function.UPPER, Function.TRIM, Function.LENGTH, Function.CONCAT),
        *(Function.YEAR, Function.MONTH, Function.DAY, Function.HOUR, Function.MINUTE),
        *(Function.SECOND, Function.DATE_DIFF, Function.LEN),
    }
)
"""Functions of values that are not null have a value."""

DATE_UNITS = ("year", "month", "week", "day", "hour", "minute", "second", "millisecond")


def call(name: str, arguments: Sequence[Operand], span: Span) -> Outcome:
    """The operand for `name(arguments)`. Durations and casts are no calls."""
    problem = find_arity_problem(name, len(arguments))
    if problem is not None:
        return problem
    match name:
        case "starts_with":
            subject, pattern = arguments
            wrong = find_string_problem(subject, pattern, StringTest.STARTS_WITH)
            return wrong or Truth(StringMatch(subject, StringTest.STARTS_WITH, pattern, span))
        case "contains":
            return _contains(arguments[0], arguments[1], span)
        case "coalesce":
            return _coalesce(arguments, span)
        case "at":
            return _at(arguments[0], arguments[1], span)
        case "matches":
            return _matches(arguments[0], arguments[1], span)
        case "date_diff":
            return _date_diff(arguments, span)
        case "substring":
            return _substring(arguments, span)
        case _:
            return _plain(Function(name), arguments, span)


def find_arity_problem(name: str, count: int) -> TypeProblem | None:
    """E1: a function that exists, with as many arguments as it takes."""
    if name in DURATIONS or name in (DURATION, CAST):
        wanted: tuple[int, int | None] = (1, 1)
    elif name in _ARITIES:
        wanted = _ARITIES[name]
    else:
        message = f"there is no function '{name}'"
        return TypeProblem(
            QueryRule.E1,
            message,
            suggest(name, NAMES),
            expected=("a function",),
            candidates=rank_candidates(name, NAMES),
        )
    low, high = wanted
    if count >= low and (high is None or count <= high):
        return None
    many = f"{low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}"
    values = "value" if many == "1" else "values"
    return TypeProblem(QueryRule.E1, f"`{name}` takes {many} {values}, not {count}")


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────


def arithmetic(function: Function, left: Operand, right: Operand, span: Span) -> Outcome:
    for each in (left, right):
        if not _is_number(each):
            hint = _arithmetic_hint(function, each)
            return _refused(f"`{function}`", "numbers", each, hint)
    is_float = function is Function.DIVIDE or any(_is_float(each) for each in (left, right))
    return _computed(function, (left, right), (F64 if is_float else I64).optional(), span)


def negate(operand: Operand, span: Span) -> Outcome:
    if not _is_number(operand):
        return _refused("`-`", "a number", operand)
    kind = F64 if _is_float(operand) else I64
    return _computed(Function.NEGATE, (operand,), kind.optional(), span)


def _arithmetic_hint(function: Function, operand: Operand) -> str | None:
    if operand.type is None or operand.type.is_list:
        return None
    if operand.type.is_string and function is Function.ADD:
        return "texts are joined with `concat`"
    if operand.type.base in (Scalar.DATE, Scalar.DATETIME):
        if function is Function.SUBTRACT:
            return 'the time between two is `date_diff("day", from, to)`'
        return "add a duration, such as `days(30)`"
    return None


# ── durations ────────────────────────────────────────────────────────────────────────────────────

_ISO = re.compile(
    r"P(?=.)(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?"
    r"(?:T(?=.)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,3}))?S)?)?",
    re.ASCII,
)


def parse_duration(text: str) -> tuple[int, int] | None:
    """`P1M2DT3H` as months and milliseconds."""
    parts = _ISO.fullmatch(text)
    if parts is None:
        return None
    years, months, weeks, days, hours, minutes, seconds = (
        int(each or 0) for each in parts.groups()[:7]
    )
    fraction = int((parts[8] or "0").ljust(3, "0"))
    whole_days = 7 * weeks + days
    milliseconds = (((whole_days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction
    return 12 * years + months, milliseconds


def shift(
    moved: Operand, months: Operand | None, milliseconds: Operand | None, span: Span
) -> Outcome:
    """A Date or DateTime, so much later. Of a Date, the milliseconds are days already."""
    if moved.type is None or moved.type.is_list or moved.type.base not in _TEMPORAL:
        return _refused("adding a duration", "a Date or a DateTime", moved)
    kind = moved.type.optional()
    found = moved
    if months is not None:
        found = Computed(Function.ADD_MONTHS, (found, months), kind, span)
    if milliseconds is not None:
        is_date = kind.base is Scalar.DATE
        function = Function.ADD_DAYS if is_date else Function.ADD_MILLISECONDS
        found = Computed(function, (found, milliseconds), kind, span)
    return found


_TEMPORAL = (Scalar.DATE, Scalar.DATETIME)

# ── functions ────────────────────────────────────────────────────────────────────────────────────


def _plain(function: Function, arguments: Sequence[Operand], span: Span) -> Outcome:
    """Functions whose arguments all have one kind."""
    match function:
        case Function.ABS | Function.FLOOR | Function.CEIL | Function.ROUND:
            wanted, fits = "a number", _is_number
            result = F64 if _is_float(arguments[0]) else I64
        case Function.LOWER | Function.UPPER | Function.TRIM | Function.CONCAT:
            wanted, fits, result = "a String", _is_text, STRING
        case Function.LENGTH:
            wanted, fits, result = "a String", _is_text, I64
        case Function.YEAR | Function.MONTH | Function.DAY:
            wanted, fits, result = "a Date or a DateTime", _is_temporal, I64
        case Function.HOUR | Function.MINUTE | Function.SECOND:
            wanted, fits, result = "a DateTime", _is_instant, I64
        case _:
            assert function is Function.LEN, function
            wanted, fits, result = "a list", _is_list, I64
    for each in arguments:
        if not fits(each):
            hint = "its length is `length`" if function is Function.LEN and _is_text(each) else None
            hint = "its length is `len`" if function is Function.LENGTH and _is_list(each) else hint
            return _refused(f"`{function}`", wanted, each, hint)
    return _computed(function, tuple(arguments), result, span)


def _contains(held: Operand, wanted: Operand, span: Span) -> Outcome:
    if _is_list(held):
        problem = find_member_problem(wanted, held)
        return problem or Truth(Member(wanted, held, span))
    problem = find_string_problem(held, wanted, StringTest.CONTAINS)
    return problem or Truth(StringMatch(held, StringTest.CONTAINS, wanted, span))


def _substring(arguments: Sequence[Operand], span: Span) -> Outcome:
    text, *bounds = arguments
    if not _is_text(text):
        return _refused("`substring`", "a String", text)
    for each in bounds:
        if not _is_integer(each):
            return _refused("a bound of `substring`", "an integer", each)
    return _computed(Function.SUBSTRING, tuple(arguments), STRING, span)


def _matches(text: Operand, pattern: Operand, span: Span) -> Outcome:
    for each in (text, pattern):
        if not _is_text(each):
            return _refused("`matches`", "a String", each)
    if not isinstance(pattern, Constant | ParameterRef):
        message = f"the pattern of `matches` cannot depend on the row: {describe(pattern)}"
        return TypeProblem(QueryRule.E5, message, "use a literal or a parameter")
    if isinstance(pattern, Constant) and isinstance(pattern.value, str):
        problem = find_pattern_problem(pattern.value)
        if problem is not None:
            return TypeProblem(QueryRule.E5, f"the pattern of `matches` is not one: {problem}")
    return _computed(Function.MATCHES, (text, pattern), BOOL.optional(), span)


def find_pattern_problem(pattern: str) -> str | None:
    """Why a text is not a pattern of the dialect that runs in linear time."""
    try:
        compile_pattern(pattern)
    except PatternInvalid as invalid:
        return str(invalid)
    return None


def _date_diff(arguments: Sequence[Operand], span: Span) -> Outcome:
    unit, start, end = arguments
    if not isinstance(unit, Constant) or unit.value not in DATE_UNITS:
        units = ", ".join(f'"{each}"' for each in DATE_UNITS)
        message = f"`date_diff` counts units, and {describe(unit)} is not one"
        return TypeProblem(QueryRule.E2, message, f"the first value is one of {units}")
    for each in (start, end):
        if not _is_temporal(each):
            return _refused("`date_diff`", "a Date or a DateTime", each)
    assert start.type is not None
    assert end.type is not None
    if start.type.base != end.type.base:
        message = f"{describe(start)} and {describe(end)} are not of one type"
        return TypeProblem(QueryRule.E2, message, "write `cast(… as DateTime)`")
    return _computed(Function.DATE_DIFF, tuple(arguments), I64, span)


def _at(held: Operand, position: Operand, span: Span) -> Outcome:
    if not _is_list(held):
        return _refused("`at`", "a list", held)
    if not _is_integer(position):
        return _refused("the position of `at`", "an integer", position)
    assert held.type is not None
    return _computed(Function.AT, (held, position), held.type.item.optional(), span)


# ── choices ──────────────────────────────────────────────────────────────────────────────────────


def _coalesce(arguments: Sequence[Operand], span: Span) -> Outcome:
    kind = common_type(arguments, "`coalesce`")
    if isinstance(kind, TypeProblem):
        return kind
    is_never_null = any(each.type is not None and not each.type.nullable for each in arguments)
    result = kind.required() if is_never_null else kind.optional()
    return Computed(Function.COALESCE, tuple(arguments), result, span)


def common_type(choices: Sequence[Operand], what: str) -> ValueType | TypeProblem:
    """E3: the type that holds the value of each. A literal takes the type of the others."""
    for each in choices:
        if isinstance(each, IdOf):
            return _refused(what, "values", each, "return the node itself, or a property of it")
        if each.type is not None and (each.type.is_blob or each.type.is_vector):
            return _refused(what, "single values and lists", each)
    typed = [each for each in choices if each.type is not None]
    deciding = [each for each in typed if not isinstance(each, Constant)] or typed
    if not deciding:
        return TypeProblem(QueryRule.E3, f"{what} chooses from nulls only, which have no type")
    kinds = [each.type for each in deciding if each.type is not None]
    found = kinds[0]
    for kind in kinds[1:]:
        wider = _wider(found, kind)
        if wider is None:
            message = f"{what} chooses from {found.required()} and {kind.required()}"
            return TypeProblem(QueryRule.E3, message, "convert one of them with `cast(… as …)`")
        found = wider
    return _with_literals(found, typed, what)


def _with_literals(
    found: ValueType, typed: Sequence[Operand], what: str
) -> ValueType | TypeProblem:
    for each in typed:
        if not isinstance(each, Constant) or each.type is None:
            continue
        if isinstance(each.value, int) and found.is_integer and not isinstance(each.value, bool):
            assert isinstance(found.base, Scalar)
            low, high = INTEGER_BOUNDS[found.base]
            if low <= each.value <= high:
                continue
        wider = _wider(found, each.type)
        if wider is None:
            message = f"{what} chooses from {found.required()} and {describe(each)}"
            return TypeProblem(QueryRule.E3, message, "convert one of them with `cast(… as …)`")
        found = wider
    return found.optional()


def _wider(left: ValueType, right: ValueType) -> ValueType | None:
    """A type that holds every value of both, exactly or as the nearest float."""
    if left.is_list != right.is_list:
        return None
    if left.base == right.base:
        same = left.enum_values == right.enum_values
        return replace(left, enum_values=left.enum_values if same else None, nullable=True)
    if left.is_list or not (left.is_number and right.is_number):
        return None
    if {left.base, right.base} & FLOATS:
        return F64
    return None if Scalar.U64 in (left.base, right.base) else I64


# ── casts ────────────────────────────────────────────────────────────────────────────────────────

_CASTABLE = {each.value: each for each in Scalar if each is not Scalar.BLOB}


def cast(operand: Operand, type_name: str, span: Span) -> Outcome:
    base = _CASTABLE.get(type_name)
    if base is None:
        message = f"nothing can be cast to '{type_name}'"
        hint = suggest(type_name, _CASTABLE) or f"there are {', '.join(_CASTABLE)}"
        return TypeProblem(QueryRule.E2, message, hint)
    wanted = ValueType(base, nullable=True)
    given = operand.type
    if isinstance(operand, IdOf) or (given is not None and not _can_cast(given, base)):
        message = f"{describe(operand)} cannot be cast to {type_name}"
        return TypeProblem(QueryRule.E2, message)
    is_same = given is not None and given.base is base and given.enum_values is None
    return operand if is_same else _computed(Function.CAST, (operand,), wanted, span)


def _can_cast(given: ValueType, wanted: Scalar) -> bool:
    if given.is_list or given.is_vector or given.is_blob:
        return False
    if wanted is Scalar.STRING or given.base in (wanted, Scalar.STRING):
        return True
    if given.is_number:
        return wanted in INTEGERS | FLOATS
    if given.base is Scalar.BOOL:
        return wanted in INTEGERS
    return given.base in _TEMPORAL and wanted in _TEMPORAL


# ── shared ───────────────────────────────────────────────────────────────────────────────────────


def _computed(
    function: Function, arguments: tuple[Operand, ...], result: ValueType, span: Span
) -> Computed:
    is_total = function in _TOTAL or (function is Function.SUBSTRING)
    is_known = all(each.type is not None and not each.type.nullable for each in arguments)
    kind = result.required() if is_total and is_known else result.optional()
    return Computed(function, arguments, kind, span)


def _refused(what: str, wanted: str, given: Operand, hint: str | None = None) -> TypeProblem:
    return TypeProblem(QueryRule.E2, f"{what} takes {wanted}, not {describe(given)}", hint)


def _is_value(operand: Operand) -> bool:
    return not isinstance(operand, IdOf)


def _is_number(operand: Operand) -> bool:
    return operand.type is None or operand.type.is_number


def _is_integer(operand: Operand) -> bool:
    return operand.type is None or operand.type.is_integer


def _is_float(operand: Operand) -> bool:
    return operand.type is not None and operand.type.base in FLOATS


def _is_text(operand: Operand) -> bool:
    return _is_value(operand) and (operand.type is None or operand.type.is_string)


def _is_list(operand: Operand) -> bool:
    return operand.type is not None and operand.type.is_list


def _is_temporal(operand: Operand) -> bool:
    kind = operand.type
    return kind is None or (not kind.is_list and kind.base in _TEMPORAL)


def _is_instant(operand: Operand) -> bool:
    kind = operand.type
    return kind is None or (not kind.is_list and kind.base is Scalar.DATETIME)
