"""Decide what is already known: constant conditions, duplicates, contradictions, dead blocks.

Unknown may be folded to false. No construct turns a condition that is not true into one that is:
`and` and `or` are monotone, `not` stands before single tests only, and filters, `not` blocks,
`optional` blocks and `case` ask only whether a condition is true. So false and unknown can be told
apart only by a condition that is a value, of which nothing but the operands is folded.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.temporal import DAY_MS, parse_date
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import (
    ALWAYS,
    NEVER,
    Aggregate,
    AggregateFunction,
    AllOf,
    AnyOf,
    Choice,
    ChoiceArm,
    Comparator,
    Compare,
    Computed,
    Condition,
    Constant,
    EachPath,
    Expand,
    ExpandAny,
    Function,
    IdOf,
    Measured,
    Member,
    Not,
    Now,
    NullTest,
    ObjectOf,
    Operand,
    Optionally,
    ParameterRef,
    PathOf,
    PropertyOf,
    Rank,
    Read,
    Scan,
    ScanAny,
    Stage,
    Step,
    StringMatch,
    StringTest,
    TextMatch,
    Truth,
    Value,
    Where,
    Within,
    Without,
)
from omnigraph.compiler.scope import conjuncts_of, ranking_of, variables_of
from omnigraph.lang.source import Span

COMPARISONS: Mapping[Comparator, Callable[..., bool]] = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}

MIRRORED: Mapping[Comparator, Comparator] = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.LE: Comparator.GE,
    Comparator.GT: Comparator.LT,
    Comparator.GE: Comparator.LE,
}

_IS_SOME = ((Comparator.GT, 0), (Comparator.GE, 1), (Comparator.NE, 0))
_IS_NONE = ((Comparator.EQ, 0), (Comparator.LT, 1), (Comparator.LE, 0))
"""The comparisons of a count that ask for a solution, and for none."""

LOWER = frozenset({Comparator.GT, Comparator.GE})
UPPER = frozenset({Comparator.LT, Comparator.LE})


def fold_constants(query: Read, catalog: Catalog) -> Read:
    """Simplify every condition, drop blocks that cannot matter, and an offset of nothing."""
    del catalog
    return replace(
        query,
        steps=_fold_block(query.steps, keep_readers=ranking_of(query) is not None),
        outputs=tuple(
            replace(each, expression=_fold_expression(each.expression)) for each in query.outputs
        ),
        order=tuple(
            each if isinstance(each.key, int) else replace(each, key=_fold_expression(each.key))
            for each in query.order
        ),
        offset=None if query.offset == 0 else query.offset,
        having=_fold_having(query.having),
    )


def _fold_having(condition: Condition | None) -> Condition | None:
    folded = None if condition is None else _fold(condition)
    return None if folded == ALWAYS else folded


# ── values ───────────────────────────────────────────────────────────────────────────────────────

Expression = TypeVar("Expression", bound=Operand | ObjectOf | Aggregate | Rank)


def _fold_expression(expression: Expression) -> Expression:
    folded: object = expression
    match expression:
        case Aggregate(argument=argument):
            folded = replace(expression, argument=fold_operand(argument))
        case Computed() | Choice() | Truth():
            folded = fold_operand(expression)
        case _:
            pass
    return folded  # type: ignore[return-value]  # an operand for an operand


def fold_operand(operand: Operand) -> Operand:
    """The operand with everything computed that needs no row, parameter or clock."""
    match operand:
        case Computed(function, arguments, kind):
            folded = tuple(map(fold_operand, arguments))
            constants = [each for each in folded if isinstance(each, Constant)]
            if len(constants) == len(folded):
                return _compute(function, constants, kind, operand.span)
            return operand if folded == arguments else replace(operand, arguments=folded)
        case Choice(branches, otherwise):
            # Only a condition that is true chooses, so false and unknown are alike here too.
            whens = [
                ChoiceArm(_fold(each.condition), fold_operand(each.value)) for each in branches
            ]
            kept = tuple(each for each in whens if each.condition != NEVER)
            rest = fold_operand(otherwise)
            return replace(operand, branches=kept, otherwise=rest)
        case Truth(condition):
            return replace(operand, condition=_fold_operands(condition))
        case Constant() | ParameterRef() | PropertyOf() | IdOf() | PathOf() | Now():
            return operand
        case _:
            assert_never(operand)


def _compute(
    function: Function, constants: Sequence[Constant], kind: ValueType, span: Span
) -> Constant:
    # Arrow is loaded only by queries that compute something.
    from omnigraph.compiler.scalars import Argument, Fixed, evaluate  # noqa: PLC0415

    arguments = [Argument(Fixed(each.value), each.type) for each in constants]
    value = evaluate(function, arguments, kind)
    return Constant(value, kind if value is None else kind.required(), span)


def _fold_operands(condition: Condition) -> Condition:
    """The same condition, false and unknown as before, of folded operands."""
    match condition:
        case Compare(left, _, right):
            return replace(condition, left=fold_operand(left), right=fold_operand(right))
        case Member(needle, tuple() as options):
            folded = tuple(map(fold_operand, options))
            return replace(condition, needle=fold_operand(needle), haystack=folded)
        case Member(needle, haystack):
            assert not isinstance(haystack, tuple)
            return replace(condition, needle=fold_operand(needle), haystack=fold_operand(haystack))
        case StringMatch(subject, _, pattern):
            return replace(condition, subject=fold_operand(subject), pattern=fold_operand(pattern))
        case NullTest(operand):
            return replace(condition, operand=fold_operand(operand))
        case TextMatch():
            return condition
        case Not(test):
            inner = _fold_operands(test)
            assert isinstance(inner, Compare | Member | StringMatch)
            return Not(inner)
        case AllOf(conditions):
            return AllOf(tuple(map(_fold_operands, conditions)))
        case AnyOf(conditions):
            return AnyOf(tuple(map(_fold_operands, conditions)))
        case _:
            assert_never(condition)


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


def _fold_block(steps: Sequence[Step], *, keep_readers: bool = False) -> tuple[Step, ...]:
    """`keep_readers`: a ranked query picks its candidates by the conditions that read the ranked
    variable alone. A condition must then not become one of them by losing its other variables.
    """
    folded: list[Step] = []
    waiting: list[Condition] = []
    for step in steps:
        for made in _fold_step(step, keep_readers=keep_readers):
            if isinstance(made, Where):
                waiting.append(made.condition)
                continue
            folded += map(Where, _conjunction(waiting))
            folded.append(made)
            waiting = []
    folded += map(Where, _conjunction(waiting))
    return tuple(folded)


def _fold_step(step: Step, *, keep_readers: bool) -> Iterator[Step]:
    match step:
        case Scan() | ScanAny() | Expand() | ExpandAny():
            filters = _conjunction([part for each in step.filters for part in _fold_all(each)])
            yield step if filters == step.filters else replace(step, filters=filters)
        case Where(condition):
            parts = _fold_kept(condition) if keep_readers else _fold_all(condition)
            yield from map(Where, parts)
        case Without(steps):
            inner = _fold_block(steps)
            if not inner:
                yield Where(NEVER)  # the row itself is a solution, whatever it is
            elif not any(map(_yields_nothing, inner)):
                yield Without(inner)
        case Within(steps):
            inner = _fold_block(steps)
            if any(map(_yields_nothing, inner)):
                yield Where(NEVER)
            elif inner:
                yield Within(inner)
        case Measured(steps):
            inner = _fold_block(steps)
            bound, measured = fold_operand(step.bound), _fold_expression(step.aggregate)
            yield from _fold_measured(replace(step, steps=inner, bound=bound, aggregate=measured))
        case Optionally(steps):
            inner = _fold_block(steps)
            if inner:
                yield Optionally(inner)
        case Stage() | EachPath():
            yield step
        case _:
            assert_never(step)


def _fold_measured(step: Measured) -> Iterator[Step]:
    """A count that asks only whether there is a solution need not count."""
    is_count = step.aggregate.function is AggregateFunction.COUNT
    if any(map(_yields_nothing, step.steps)):
        none = Constant(0 if is_count else None, step.aggregate.type)
        yield from map(Where, _fold_all(Compare(none, step.comparator, step.bound)))
        return
    counts_solutions = is_count and isinstance(step.aggregate.argument, Constant)
    asked = (step.comparator, step.bound.value if isinstance(step.bound, Constant) else None)
    if counts_solutions and asked in _IS_SOME:
        yield from _fold_step(Within(step.steps), keep_readers=False)
    elif counts_solutions and asked in _IS_NONE:
        yield from _fold_step(Without(step.steps), keep_readers=False)
    else:
        yield step


def _yields_nothing(step: Step) -> bool:
    match step:
        case Scan() | ScanAny() | Expand() | ExpandAny():
            return NEVER in step.filters
        case Where(condition):
            return condition == NEVER
        case Stage() | EachPath() | Without() | Within() | Measured() | Optionally():
            return False
        case _:
            assert_never(step)


def _fold_kept(condition: Condition) -> Iterator[Condition]:
    for part in conjuncts_of(condition):
        folded = _fold(part)
        is_decided = folded in (ALWAYS, NEVER)
        if is_decided or variables_of(folded) == variables_of(part):
            yield from conjuncts_of(folded)
        else:
            yield part


def _fold_all(condition: Condition) -> Iterator[Condition]:
    return iter(conjuncts_of(_fold(condition)))


# ── single conditions ────────────────────────────────────────────────────────────────────────────


def _fold(condition: Condition) -> Condition:
    condition = _fold_operands(condition)
    match condition:
        case Compare():
            return _fold_compare(condition)
        case Not(test):
            return _fold_not(test)
        case Member():
            return _fold_member(condition)
        case StringMatch(Constant(str() as text), test, Constant(str() as part)):
            return _verdict(part in text if test is StringTest.CONTAINS else text.startswith(part))
        case StringMatch(subject, _, pattern):
            return NEVER if _is_null(subject) or _is_null(pattern) else condition
        case NullTest(Constant(value), negated):
            return _verdict((value is None) != negated)
        case NullTest(Now(), negated):
            return _verdict(negated)
        case NullTest(ParameterRef(type=declared), negated) if not declared.nullable:
            return _verdict(negated)
        case NullTest():
            return condition
        case TextMatch(query=query):
            return NEVER if _is_null(query) else condition
        case AllOf(conditions):
            parts = _conjunction([part for each in conditions for part in _fold_all(each)])
            return parts[0] if len(parts) == 1 else AllOf(parts)
        case AnyOf(conditions):
            return _disjunction([_fold(each) for each in conditions])
        case _:
            assert_never(condition)


def _fold_compare(condition: Compare) -> Condition:
    match condition:
        case Compare(left, _, right) if _is_null(left) or _is_null(right):
            return NEVER
        case Compare(Constant(left), comparator, Constant(right)):
            return _verdict(COMPARISONS[comparator](left, right))
        case Compare(left, comparator, right) if is_fixed(left) and not is_fixed(right):
            # What varies stands on the left, where later passes look for it.
            turned = replace(condition, left=right, comparator=MIRRORED[comparator], right=left)
            return _fold_compare(turned)
        case Compare(Computed(Function.YEAR, (PropertyOf() as dated,)), comparator, Constant(year)):
            return _within_years(dated, comparator, year) or condition
        case _:
            return condition


def _fold_not(test: Compare | Member | StringMatch) -> Condition:
    match test:
        case Compare(left, _, right) if _is_null(left) or _is_null(right):
            return NEVER
        case Compare(Constant(), _, Constant()):
            return NEVER if _fold_compare(test) == ALWAYS else ALWAYS
        case StringMatch(subject, _, pattern) if _is_null(subject) or _is_null(pattern):
            return NEVER
        case _:
            return Not(test)


def _within_years(dated: PropertyOf, comparator: Comparator, year: Value) -> Condition | None:
    """A condition on a year as a range of days, which an index can find."""
    if not isinstance(year, int) or not 1 <= year <= 9998:
        return None
    unit = 1 if dated.type.base is Scalar.DATE else DAY_MS

    def bound(comparator: Comparator, first_year: int) -> Compare:
        first = Constant(parse_date(f"{first_year:04d}-01-01") * unit, dated.type.required())
        return Compare(dated, comparator, first)

    match comparator:
        case Comparator.EQ:
            return AllOf((bound(Comparator.GE, year), bound(Comparator.LT, year + 1)))
        case Comparator.NE:
            return AnyOf((bound(Comparator.LT, year), bound(Comparator.GE, year + 1)))
        case Comparator.LT | Comparator.GE:
            return bound(comparator, year)
        case Comparator.LE:
            return bound(Comparator.LT, year + 1)
        case Comparator.GT:
            return bound(Comparator.GE, year + 1)
        case _:
            assert_never(comparator)


def _fold_member(condition: Member) -> Condition:
    needle = condition.needle
    if _is_null(needle):
        return NEVER
    match condition.haystack:
        case Constant(None):
            return NEVER
        case Constant(tuple() as items, listed) if listed is not None:
            options: tuple[Operand, ...] = tuple(Constant(each, listed.item) for each in items)
        case tuple() as options:
            pass
        case _:
            return condition
    return _fold_options(condition, needle, options)


def _fold_options(condition: Member, needle: Operand, options: tuple[Operand, ...]) -> Condition:
    left = tuple(dict.fromkeys(each for each in options if not _is_null(each)))
    if isinstance(needle, Constant):
        known = [each for each in left if isinstance(each, Constant)]
        if any(each.value == needle.value for each in known):
            return ALWAYS
        left = tuple(each for each in left if not isinstance(each, Constant))
    match left:
        case ():
            return NEVER
        case (single,):
            return _fold_compare(Compare(needle, Comparator.EQ, single, condition.span))
        case _ if len(left) == len(options):
            return condition
        case _:
            return replace(condition, haystack=left)


def _verdict(truth: bool) -> Condition:  # noqa: FBT001 — one argument, and it is the verdict
    return ALWAYS if truth else NEVER


def _is_null(operand: Operand) -> bool:
    return isinstance(operand, Constant) and operand.value is None


# ── several conditions ───────────────────────────────────────────────────────────────────────────


def _disjunction(conditions: Sequence[Condition]) -> Condition:
    flat: dict[Condition, None] = {}
    for each in conditions:
        flat.update(dict.fromkeys(each.conditions if isinstance(each, AnyOf) else (each,)))
    if ALWAYS in flat:
        return ALWAYS
    return next(iter(flat)) if len(flat) == 1 else AnyOf(tuple(flat))


def _conjunction(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """Folded conditions that must all be true, without repeats and what others imply."""
    distinct = dict.fromkeys(conditions)
    if NEVER in distinct or _contradict(distinct):
        return (NEVER,)
    if len(distinct) < 2:
        return tuple(distinct)
    return tuple(each for each in distinct if not _is_implied(each, distinct))


def _contradict(conditions: Iterable[Condition]) -> bool:
    """Can these never be true together? May miss a contradiction, never invents one."""
    needed = {operand for each in conditions for operand in _needed(each)}
    bounds: dict[Operand, list[tuple[Comparator, Value]]] = {}
    for condition in conditions:
        match condition:
            case NullTest(operand, negated=False) if operand in needed:
                return True
            case Compare(left, comparator, Constant(value)):
                bounds.setdefault(left, []).append((comparator, value))
            case _:
                pass
    return any(
        _exclude(one, other) for facts in bounds.values() for one in facts for other in facts
    )


def _needed(condition: Condition) -> tuple[Operand, ...]:
    """The operands that cannot be null if the condition is true."""
    match condition:
        case Compare(left, _, right):
            return (left, right)
        case StringMatch(subject, _, pattern):
            return (subject, pattern)
        case Member(needle):
            return (needle,)
        case TextMatch(target=target):
            return (target,)
        case NullTest(operand, negated=True):
            return (operand,)
        case Not(test):
            return _needed(test)
        case _:
            return ()


def _exclude(one: tuple[Comparator, Value], other: tuple[Comparator, Value]) -> bool:
    match one, other:
        case (Comparator.EQ, value), (comparator, bound):
            return not COMPARISONS[comparator](value, bound)
        case (lower, low), (upper, high) if lower in LOWER and upper in UPPER:
            is_closed = lower is Comparator.GE and upper is Comparator.LE
            return not COMPARISONS[Comparator.LE if is_closed else Comparator.LT](low, high)
        case _:
            return False


def _is_implied(condition: Condition, others: Iterable[Condition]) -> bool:
    """Is it true whenever the others are? They are known not to contradict each other.

    Only a condition that reads the same variables may stand in for another: one that reads more
    cannot be evaluated as early.
    """
    match condition:
        case NullTest(operand, negated=True):
            return any(
                operand in _needed(each) and variables_of(each) == variables_of(condition)
                for each in others
                if each != condition
            )
        case Compare(left, comparator, Constant()) if comparator is not Comparator.EQ:
            return any(
                isinstance(each, Compare)
                and each.left == left
                and each.comparator is Comparator.EQ
                and isinstance(each.right, Constant)
                for each in others
            )
        case _:
            return False
