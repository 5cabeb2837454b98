"""What values mean: comparison, order and aggregation, straight from the rules."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import TypeVar, assert_never

from omnigraph.compiler.ir import AggregateFunction, Comparator, Value


def compare(left: Value, comparator: Comparator, right: Value) -> bool | None:
    """Python compares int with float exactly, which is the rule of the language."""
    if left is None or right is None:
        return None
    match comparator:
        case Comparator.EQ:
            return left == right
        case Comparator.NE:
            return left != right
        case Comparator.LT:
            return sort_key(left) < sort_key(right)
        case Comparator.LE:
            return sort_key(left) <= sort_key(right)
        case Comparator.GT:
            return sort_key(left) > sort_key(right)
        case Comparator.GE:
            return sort_key(left) >= sort_key(right)
        case _:
            assert_never(comparator)


@dataclass(frozen=True, slots=True, order=True)
class NullsFirst:
    """Anything of one column against anything else of it; null is smallest."""

    rank: int
    number: int | float = 0
    text: str = ""
    items: "tuple[NullsFirst, ...]" = ()


def sort_key(value: Value) -> NullsFirst:
    match value:
        case None:
            return NullsFirst(0)
        case bool() | int() | float():
            return NullsFirst(1, number=value)
        case str():
            return NullsFirst(1, text=value)
        case tuple():
            return NullsFirst(1, items=tuple(sort_key(each) for each in value))
        case _:
            assert_never(value)


T = TypeVar("T")


def sort_by(rows: Sequence[T], cells: Sequence[Value], *, descending: bool) -> list[T]:
    """The rows in the order of their cells; equal ones stay as they stand, also when descending."""
    keys = [sort_key(each) for each in cells]
    places = sorted(range(len(rows)), key=keys.__getitem__, reverse=descending)
    return [rows[at] for at in places]


def aggregate(
    function: AggregateFunction,
    values: Iterable[Value],
    *,
    distinct: bool,
    fraction: Value = None,
) -> Value:
    known = [each for each in values if each is not None]
    if distinct:
        known = list(dict.fromkeys(known))
    match function:
        case AggregateFunction.COUNT:
            return len(known)
        case AggregateFunction.COLLECT:
            return tuple(sorted(known, key=sort_key))  # type: ignore[arg-type]
        case _ if not known:
            return None
        case AggregateFunction.SUM:
            return math.fsum(number(each) for each in known)
        case AggregateFunction.AVG:
            return math.fsum(number(each) for each in known) / len(known)
        case AggregateFunction.MIN:
            return min(known, key=sort_key)
        case AggregateFunction.MAX:
            return max(known, key=sort_key)
        case AggregateFunction.STDDEV:
            return stdev(map(number, known)) if len(known) > 1 else None
        case AggregateFunction.PERCENTILE:
            return percentile(sorted(map(number, known)), number(fraction))
        case _:
            assert_never(function)


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Between two neighbours, as far as the fraction goes from one to the other."""
    whole, part = divmod(fraction * (len(ordered) - 1), 1)
    low = ordered[int(whole)]
    return low if not part else low + (ordered[int(whole) + 1] - low) * part


def number(value: Value) -> float:
    assert isinstance(value, int | float), value
    return float(value)


def all_true(truths: Iterable[bool | None]) -> bool | None:
    seen = set(truths)
    return False if False in seen else None if None in seen else True


def any_true(truths: Iterable[bool | None]) -> bool | None:
    seen = set(truths)
    return True if True in seen else None if None in seen else False
