"""What operands are worth, and which rows satisfy a condition.

An operand has one value for the whole execution, or a column with one value per row. A condition is
true, false or unknown. Where it decides about rows, a mask of the true rows is enough; where it is
a value, or negated, a second mask has the false ones.

Numbers of different types are compared by value. Arrow would round an integer to compare it with a
float. So a fixed number is first turned into a bound of the column's own type. Two columns without
a common Arrow type are compared in Python, which is exact.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.types import ValueType
from omnigraph.compiler import ir
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import NOW_PARAMETER, Comparator, Value
from omnigraph.compiler.scalars import Argument, Fixed, apply, convert, evaluate
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.query.columns.frame import Bound, Frame
from omnigraph.engine.query.columns.values import Columns, as_plain, build_column, stored_column
from omnigraph.engine.tables.arrays import Array, Mask, array_of, is_null, numbers_of, pick
from omnigraph.engine.tables.columns import carrier_of

TextMatcher = Callable[[ir.TextMatch, Columns], Mask]
"""Evaluates a full-text clause; it is not decided row by row."""

PathFinder = Callable[[ir.PathOf, Columns], Array]
"""Finds shortest paths, which need all edges of a type."""

_ARROW: Final[Mapping[Comparator, Callable[[Any, Any], Any]]] = {
    Comparator.EQ: pc.equal,
    Comparator.NE: pc.not_equal,
    Comparator.LT: pc.less,
    Comparator.LE: pc.less_equal,
    Comparator.GT: pc.greater,
    Comparator.GE: pc.greater_equal,
}
_PYTHON: Final[Mapping[Comparator, Callable[[Any, Any], bool]]] = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}
_MIRRORED: Final[Mapping[Comparator, Comparator]] = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.LE: Comparator.GE,
    Comparator.GT: Comparator.LT,
    Comparator.GE: Comparator.LE,
}


@dataclass(frozen=True, slots=True)
class PredicateEvaluator:
    """Evaluates operands and conditions for one execution."""

    parameters: Mapping[str, Value]
    match_text: TextMatcher
    find_paths: PathFinder

    # operands

    def value(self, operand: ir.Operand, columns: Columns) -> "Fixed | Array":
        """The value or column of an operand, ready for comparison."""
        match operand:
            case ir.PropertyOf() | ir.IdOf():
                return as_plain(stored_column(operand, columns), operand.type)
            case ir.PathOf():
                return self.find_paths(operand, columns)
            case ir.Constant(value):
                return Fixed(value)
            case ir.ParameterRef(name):
                return Fixed(self.parameters[name])
            case ir.Now():
                return Fixed(self.parameters[NOW_PARAMETER])
            case ir.Computed(function, arguments, kind):
                check_cancelled()
                given = [Argument(self.value(each, columns), each.type) for each in arguments]
                if all(isinstance(each.values, Fixed) for each in given):
                    return Fixed(evaluate(function, given, kind))
                made: Array = apply(function, given, kind, columns.count)
                return made
            case ir.Choice() | ir.Truth() if columns is not ONE_ROW and is_fixed(operand):
                return Fixed(self.fixed(operand))
            case ir.Choice():
                return self._choose(operand, columns)
            case ir.Truth(condition):
                true, false = self.holds(condition, columns), self.fails(condition, columns)
                return array_of(true, ~(true | false))
            case _:
                assert_never(operand)

    def _choose(self, case: ir.Choice, columns: Columns) -> Array:
        chosen = self._converted(case.otherwise, case.type, columns)
        for branch in reversed(case.branches):
            mask = array_of(self.holds(branch.condition, columns))
            value = self._converted(branch.value, case.type, columns)
            if_else: Any = pc.if_else
            chosen = if_else(mask, value, chosen)
        return chosen

    def _converted(self, operand: ir.Operand, kind: ValueType, columns: Columns) -> Array:
        found: Array = convert(
            Argument(self.value(operand, columns), operand.type), kind, columns.count
        )
        return found

    def fixed(self, operand: ir.Operand) -> Value:
        """The value of an operand that is the same for every row."""
        value = self.value(operand, ONE_ROW)
        if isinstance(value, Fixed):
            return value.value
        only: Any = value[0].as_py()
        return tuple(only) if isinstance(only, list) else only

    def column(self, operand: ir.Operand, columns: Columns, kind: ValueType) -> Array:
        """The operand as a column of a result."""
        if isinstance(operand, ir.PropertyOf | ir.IdOf):
            return stored_column(operand, columns)
        value = self.value(operand, columns)
        if isinstance(value, Fixed):
            return build_column(value.value, columns.count, kind)
        carrier = carrier_of(kind)
        if carrier is None:
            return value.cast(arrow_type(kind))
        return value.cast(carrier).view(arrow_type(kind))

    # conditions

    def all_hold(self, conditions: tuple[ir.Condition, ...], columns: Columns) -> Mask | None:
        """The rows for which all are true; None for every row."""
        mask: Mask | None = None
        for each in conditions:
            found = self.holds(each, columns)
            mask = found if mask is None else mask & found
        return mask

    def holds(self, condition: ir.Condition, columns: Columns) -> Mask:
        check_cancelled()  # a query may have thousands of conditions
        match condition:
            case ir.Compare(ir.IdOf(one), comparator, ir.IdOf(other)) if isinstance(columns, Frame):
                same = _compare_ordinals(columns.bound[one], comparator, columns.bound[other])
                return self._compare(condition, columns) if same is None else same
            case ir.Compare():
                return self._compare(condition, columns)
            case ir.Member(needle, haystack):
                return self._member(needle, haystack, columns)
            case ir.StringMatch(subject, test, pattern):
                text, part = self.value(subject, columns), self.value(pattern, columns)
                return _match_text(text, test, part, columns.count)
            case ir.NullTest(operand, negated):
                return _null_test(self.value(operand, columns), columns.count, negated=negated)
            case ir.TextMatch():
                return self.match_text(condition, columns)
            case ir.Not(test):
                return self.fails(test, columns)
            case ir.AllOf(conditions):
                mask = np.ones(columns.count, np.bool_)
                for each in conditions:
                    mask &= self.holds(each, columns)
                return mask
            case ir.AnyOf(conditions):
                mask = np.zeros(columns.count, np.bool_)
                for each in conditions:
                    mask |= self.holds(each, columns)
                return mask
            case _:
                assert_never(condition)

    def _compare(self, condition: ir.Compare, columns: Columns) -> Mask:
        left, right = self.value(condition.left, columns), self.value(condition.right, columns)
        return compare(left, condition.comparator, right, columns.count)

    def fails(self, condition: ir.Condition, columns: Columns) -> Mask:
        """The rows for which a condition is false, not unknown."""
        check_cancelled()
        match condition:
            case ir.Compare(left, _, right) | ir.StringMatch(left, _, right):
                is_known = self._known(left, columns) & self._known(right, columns)
                return is_known & ~self.holds(condition, columns)
            case ir.Member(needle, haystack):
                return self._lacks(needle, haystack, columns)
            case ir.NullTest():
                return ~self.holds(condition, columns)
            case ir.Not(test):
                return self.holds(test, columns)
            case ir.AllOf(conditions):
                mask = np.zeros(columns.count, np.bool_)
                for each in conditions:
                    mask |= self.fails(each, columns)
                return mask
            case ir.AnyOf(conditions):
                mask = np.ones(columns.count, np.bool_)
                for each in conditions:
                    mask &= self.fails(each, columns)
                return mask
            case ir.TextMatch():
                raise AssertionError("a full-text clause is neither a value nor negated")
            case _:
                assert_never(condition)

    def _known(self, operand: ir.Operand, columns: Columns) -> Mask:
        return _null_test(self.value(operand, columns), columns.count, negated=True)

    def _lacks(
        self, needle: ir.Operand, haystack: ir.Operand | tuple[ir.Operand, ...], columns: Columns
    ) -> Mask:
        """An element that is null may be the wanted one; an empty list surely lacks it."""
        is_known = self._known(needle, columns)
        holds = self._member(needle, haystack, columns)
        if isinstance(haystack, tuple):
            for each in haystack:
                is_known &= self._known(each, columns)
            return ~holds & (is_known if haystack else np.ones(columns.count, np.bool_))
        held = self.value(haystack, columns)
        if isinstance(held, Fixed):
            assert held.value is None or isinstance(held.value, tuple)
            if not held.value:
                return np.full(columns.count, held.value is not None)
            return ~holds & (is_known & all(each is not None for each in held.value))
        if is_null(held):
            return np.zeros(columns.count, np.bool_)
        elements, owners = pc.list_flatten(held), np.asarray(pc.list_parent_indices(held))
        has_null = np.zeros(columns.count, np.bool_)
        has_null[owners[np.asarray(elements.is_null())]] = True
        is_empty = np.asarray(pc.list_value_length(held).fill_null(1)) == 0
        there: Mask = np.asarray(held.is_valid())
        lacks: Mask = there & ~holds & (is_empty | (is_known & ~has_null))
        return lacks

    def _member(
        self, needle: ir.Operand, haystack: ir.Operand | tuple[ir.Operand, ...], columns: Columns
    ) -> Mask:
        wanted = self.value(needle, columns)
        if isinstance(haystack, tuple):
            mask = np.zeros(columns.count, np.bool_)
            for each in haystack:
                mask |= compare(wanted, Comparator.EQ, self.value(each, columns), columns.count)
            return mask
        held = self.value(haystack, columns)
        if not isinstance(held, Fixed):
            return _holds_element(held, wanted, columns.count)
        return _is_among(wanted, held.value, columns.count)


class _OneRow:
    """No variable is bound; what is evaluated here needs none."""

    count = 1

    def column(self, variable: str, name: str) -> Array:
        raise AssertionError(f"${variable}.{name} has a value for each row")


ONE_ROW: Final[Columns] = _OneRow()


def refuse_text(condition: ir.TextMatch, columns: Columns) -> Mask:
    raise AssertionError(f"{condition} is decided by an execution over {columns.count} rows")


def refuse_paths(path: ir.PathOf, columns: Columns) -> Array:
    raise AssertionError(f"{path} is found by an execution over {columns.count} rows")


def fixed_value(operand: ir.Operand, parameters: Mapping[str, Value]) -> Value:
    """The value of an operand that is the same for every row."""
    if isinstance(operand, ir.ParameterRef):
        return parameters[operand.name]
    return PredicateEvaluator(parameters, refuse_text, refuse_paths).fixed(operand)


# ── comparing ────────────────────────────────────────────────────────────────────────────────────


def compare(
    left: "Fixed | Array", comparator: Comparator, right: "Fixed | Array", count: int
) -> Mask:
    if isinstance(left, Fixed):
        if isinstance(right, Fixed):
            return np.full(count, _is_true(left.value, comparator, right.value))
        return _compare_fixed(right, _MIRRORED[comparator], left.value)
    if isinstance(right, Fixed):
        return _compare_fixed(left, comparator, right.value)
    return _compare_columns(left, comparator, right)


def _compare_ordinals(left: Bound, comparator: Comparator, right: Bound) -> Mask | None:
    """Are both variables bound to one row? None if their ordinals are of different rows."""
    if left.rows is not right.rows or comparator not in (Comparator.EQ, Comparator.NE):
        return None
    mask: Mask = _PYTHON[comparator](left.at, right.at) & (left.at >= 0) & (right.at >= 0)
    return mask


def _is_true(left: Value, comparator: Comparator, right: Value) -> bool:
    return left is not None and right is not None and _PYTHON[comparator](left, right)


def _compare_fixed(column: Array, comparator: Comparator, value: Value) -> Mask:
    if value is None or is_null(column):
        return np.zeros(len(column), np.bool_)
    if isinstance(value, bool | str):
        return _mask(_ARROW[comparator](column, pa.scalar(value, column.type)))
    assert isinstance(value, int | float), value
    if pa.types.is_integer(column.type):
        return _compare_integer(column, comparator, value)
    if pa.types.is_float32(column.type):
        column = column.cast(pa.float64())
    return _compare_float(column, comparator, value)


def _compare_integer(column: Array, comparator: Comparator, value: float) -> Mask:
    """A fraction is replaced by the nearest integer on the right side."""
    if not math.isfinite(value):
        return _beyond(column, comparator, above=value > 0, is_nan=math.isnan(value))
    if value != math.floor(value):
        match comparator:
            case Comparator.EQ:
                return np.zeros(len(column), np.bool_)
            case Comparator.NE:
                return _mask(column.is_valid())
            case Comparator.LT | Comparator.LE:
                comparator, value = Comparator.LE, math.floor(value)
            case Comparator.GT | Comparator.GE:
                comparator, value = Comparator.GE, math.ceil(value)
    low, high = _bounds(column.type)
    whole = int(value)
    if not low <= whole <= high:
        return _beyond(column, comparator, above=whole > high)
    return _compare_numbers(column, comparator, whole)


def _compare_float(column: Array, comparator: Comparator, value: float) -> Mask:
    """An integer that no float equals is compared through the nearest float."""
    near = float(value)
    if near != value:
        match comparator:
            case Comparator.EQ:
                return np.zeros(len(column), np.bool_)
            case Comparator.NE:
                return _mask(column.is_valid())
            case Comparator.LT | Comparator.LE:
                comparator = Comparator.LE if near < value else Comparator.LT
            case Comparator.GT | Comparator.GE:
                comparator = Comparator.GE if near > value else Comparator.GT
    return _compare_numbers(column, comparator, near)


def _compare_numbers(column: Array, comparator: Comparator, value: float) -> Mask:
    """Compare with a value of the column's type. NumPy returns a mask; Arrow packs bits."""
    if column.null_count:
        return _mask(_ARROW[comparator](column, pa.scalar(value, column.type)))
    mask: Any = _PYTHON[comparator](numbers_of(column), value)
    return mask  # type: ignore[no-any-return]


def _beyond(column: Array, comparator: Comparator, *, above: bool, is_nan: bool = False) -> Mask:
    """The value is above or below every value of the column type."""
    if is_nan:
        is_everything = comparator is Comparator.NE
    else:
        less = comparator in (Comparator.LT, Comparator.LE)
        more = comparator in (Comparator.GT, Comparator.GE)
        is_everything = comparator is Comparator.NE or (less if above else more)
    return _mask(column.is_valid()) if is_everything else np.zeros(len(column), np.bool_)


def _bounds(integer: pa.DataType) -> tuple[int, int]:
    signed = pa.types.is_signed_integer(integer)
    bits = integer.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def _compare_columns(left: Array, comparator: Comparator, right: Array) -> Mask:
    if is_null(left) or is_null(right):
        return np.zeros(len(left), np.bool_)
    common = _common_type(left.type, right.type)
    if common is not None:
        return _mask(_ARROW[comparator](left.cast(common), right.cast(common)))
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return np.fromiter((_is_true(a, comparator, b) for a, b in pairs), np.bool_, len(left))


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """A type that represents every value of both types; None if there is none."""
    if left == right:
        return left
    if pa.types.is_large_string(left) or pa.types.is_large_string(right):
        return pa.large_string()
    both = (left, right)
    if all(pa.types.is_integer(each) for each in both):
        return None if any(pa.types.is_uint64(each) for each in both) else pa.int64()
    is_wide = any(pa.types.is_integer(each) and each.bit_width == 64 for each in both)
    return None if is_wide else pa.float64()


# ── the other tests ──────────────────────────────────────────────────────────────────────────────


def _is_among(wanted: "Fixed | Array", elements: Value, count: int) -> Mask:
    if elements is None:
        return np.zeros(count, np.bool_)
    assert isinstance(elements, tuple)
    if isinstance(wanted, Fixed):
        found = any(_is_true(each, Comparator.EQ, wanted.value) for each in elements)
        return np.full(count, found)
    if all(isinstance(each, str) for each in elements) and not is_null(wanted):
        return _mask(pc.is_in(wanted, value_set=pa.array(elements, wanted.type)))
    mask = np.zeros(count, np.bool_)
    for each in set(elements):
        mask |= _compare_fixed(wanted, Comparator.EQ, each)
    return mask


def _holds_element(lists: Array, wanted: "Fixed | Array", count: int) -> Mask:
    """The rows whose list contains the wanted value."""
    mask = np.zeros(count, np.bool_)
    if is_null(lists):
        return mask
    elements, owners = pc.list_flatten(lists), np.asarray(pc.list_parent_indices(lists))
    if isinstance(wanted, Fixed):
        equal = _compare_fixed(elements, Comparator.EQ, wanted.value)
    else:
        equal = _compare_columns(elements, Comparator.EQ, pick(wanted, owners))
    mask[owners[equal]] = True
    return mask


def _match_text(
    text: "Fixed | Array", test: ir.StringTest, part: "Fixed | Array", count: int
) -> Mask:
    if isinstance(part, Fixed) and not isinstance(text, Fixed):
        if part.value is None or is_null(text):
            return np.zeros(count, np.bool_)
        assert isinstance(part.value, str)
        function = pc.match_substring if test is ir.StringTest.CONTAINS else pc.starts_with
        return _mask(function(text, pattern=part.value))
    texts = [text.value] * count if isinstance(text, Fixed) else text.to_pylist()
    parts = [part.value] * count if isinstance(part, Fixed) else part.to_pylist()
    pairs = zip(texts, parts, strict=True)
    return np.fromiter((_text_matches(a, test, b) for a, b in pairs), np.bool_, count)


def _text_matches(text: object, test: ir.StringTest, part: object) -> bool:
    if not isinstance(text, str) or not isinstance(part, str):
        return False
    return part in text if test is ir.StringTest.CONTAINS else text.startswith(part)


def _null_test(value: "Fixed | Array", count: int, *, negated: bool) -> Mask:
    if isinstance(value, Fixed):
        return np.full(count, (value.value is None) != negated)
    return _mask(value.is_valid() if negated else value.is_null())


def _mask(found: "pa.Array[Any] | pa.ChunkedArray[Any]") -> Mask:
    assert isinstance(found, pa.BooleanArray)
    known = found if not found.null_count else found.fill_null(False)
    return np.asarray(known)
