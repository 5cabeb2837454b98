"""Operands and conditions in the SQL of DuckDB: the third opinion on what they mean.

A column of a row is called `variable.property`. Dates are days and instants milliseconds, as in
the interpreter. Where SQL means something else than the language, a macro says what is meant:

- an integer is compared with a float exactly, where SQL would round it to a float first;
- sums beyond 64 bits, divisions by zero and floats that are not finite are null, not errors;
- `substring` counts from 1 on, where a start before that would be counted from the end;
- a name in a list that is null or empty is unknown or false, also for a null.
"""

from collections.abc import Mapping
from typing import assert_never

from omnigraph.catalog.types import (
    FLOATS,
    INTEGER_BOUNDS,
    INTEGERS,
    Scalar,
    Struct,
    ValueType,
    Vector,
)
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Comparator, Function, Value

SETUP = """
SET order_by_non_integer_literal = true;
CREATE MACRO whole(x) AS CAST(floor(greatest(least(x, 1e30), -1e30)) AS HUGEINT);
CREATE MACRO beside(i, f) AS CASE WHEN i IS NULL OR f IS NULL THEN NULL
    WHEN i < whole(f) THEN -1 WHEN i > whole(f) THEN 1 WHEN f > floor(f) THEN -1 ELSE 0 END;
CREATE MACRO finite(x) AS CASE WHEN isfinite(x) THEN x END;
CREATE MACRO letters(s, start, count) AS CASE WHEN start IS NULL OR count IS NULL THEN NULL
    ELSE substring(s, CAST(greatest(start, 1) AS BIGINT), CAST(greatest(0,
    least(CAST(start AS HUGEINT) + count - greatest(start, 1), 1000)) AS BIGINT)) END;
CREATE MACRO among(x, l) AS CASE WHEN l IS NULL THEN NULL WHEN len(l) = 0 THEN false
    WHEN x IS NULL THEN NULL ELSE list_contains(l, x) END;
CREATE MACRO between_or_null(x, low, high) AS CASE WHEN x BETWEEN low AND high THEN x END;
"""

FAR = 10**9
"""More letters than any text here has."""
DAY_MS = 86_400_000
YEARS = {
    Scalar.DATE: (-719_162, 2_932_896),
    Scalar.DATETIME: (-719_162 * DAY_MS, 2_932_897 * DAY_MS - 1),
}
"""The years 1 to 9999."""
PARTS = ("year", "month", "day", "hour", "minute", "second")


class Unsayable(Exception):
    """SQL has no word for it, or ours means something that would have to be written out."""


def column(variable: str, name: str) -> str:
    return f'"{variable}.{name}"'


def sql_type(kind: ValueType) -> str:
    if isinstance(kind.base, Vector):
        return "DOUBLE[]"
    base = kind.base
    assert isinstance(base, Scalar)
    name = {Scalar.STRING: "VARCHAR", Scalar.BOOL: "BOOLEAN"}.get(base)
    name = name or ("DOUBLE" if base in FLOATS else "BIGINT")
    return f"{name}[]" if kind.is_list else name


def literal(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return f"({value}::{'BIGINT' if abs(value) < 2**63 else 'HUGEINT'})"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case str():
            quoted = value.replace("'", "''")
            return f"'{quoted}'"
        case tuple():
            return f"[{', '.join(map(literal, value))}]"
        case _:
            assert_never(value)


def base_of(operand: ir.Operand) -> Scalar | None:
    """None for what is always null, and for lists."""
    kind = operand.type
    return kind.base if kind is not None and isinstance(kind.base, Scalar) else None


class Values:
    """What is the same in the whole read: the parameters, and the instant."""

    def __init__(self, parameters: Mapping[str, Value], now_ms: int) -> None:
        self._parameters = parameters
        self._now_ms = now_ms

    def count(self, count: int | ir.ParameterRef | None) -> int | None:
        found = self._parameters[count.name] if isinstance(count, ir.ParameterRef) else count
        assert found is None or isinstance(found, int)
        return found

    # operands

    def operand(self, operand: ir.Operand | ir.ObjectOf) -> str:
        match operand:
            case ir.Constant(value, kind):
                return self._typed(value, kind)
            case ir.ParameterRef(name, kind):
                return self._typed(self._parameters.get(name), kind)
            case ir.Now():
                return literal(self._now_ms)
            case ir.IdOf(variable):
                return column(variable, "id")
            case ir.PropertyOf(variable, name):
                return column(variable, name)
            case ir.Computed():
                return self._computed(operand)
            case ir.Choice(branches, otherwise, kind):
                whens = " ".join(
                    f"WHEN {self.condition(each.condition)} THEN {self._as(each.value, kind)}"
                    for each in branches
                )
                return f"CASE {whens} ELSE {self._as(otherwise, kind)} END"
            case ir.Truth(condition):
                return f"({self.condition(condition)})"
            case ir.ObjectOf(variable):
                fields = ", ".join(column(variable, name) for name, _ in operand.fields)
                return f"CASE WHEN {column(variable, 'id')} IS NOT NULL THEN row({fields}) END"
            case ir.PathOf():
                raise Unsayable
            case _:
                assert_never(operand)

    def _typed(self, value: Value, kind: ValueType | None) -> str:
        is_plain = kind is None or isinstance(kind.base, Struct)
        if is_plain or (value is not None and value != ()):
            return literal(value)
        assert kind is not None
        return f"CAST({literal(value)} AS {sql_type(kind)})"

    def _as(self, operand: ir.Operand, kind: ValueType) -> str:
        """As a value of a wider type."""
        return f"CAST({self.operand(operand)} AS {sql_type(kind)})"

    def _computed(self, computed: ir.Computed) -> str:
        function, arguments, kind = computed.function, computed.arguments, computed.type
        match function:
            case Function.COALESCE:
                return f"coalesce({', '.join(self._as(each, kind) for each in arguments)})"
            case Function.CAST:
                return self._cast(arguments[0], kind)
            case Function.DATE_DIFF:
                unit, *ends = arguments
                moments = ", ".join(map(self._moment, ends))
                return f"date_diff({self.operand(unit)}, {moments})"
            case Function.ADD_DAYS | Function.ADD_MILLISECONDS:
                return self._later(computed)
            case _ if function.value in PARTS:
                return f"{function.value}({self._moment(arguments[0])})"
            case _:
                given = [self.operand(each) for each in arguments]
                return _number(function, given, kind) or _text(function, given)

    def _moment(self, operand: ir.Operand) -> str:
        factor = f" * {DAY_MS}" if base_of(operand) is Scalar.DATE else ""
        return f"epoch_ms({self.operand(operand)}{factor})"

    def _later(self, computed: ir.Computed) -> str:
        base, length = computed.arguments
        assert isinstance(computed.type.base, Scalar)
        if base_of(base) is not computed.type.base:
            raise Unsayable
        low, high = YEARS[computed.type.base]
        moved = f"CAST({self.operand(base)} AS HUGEINT) + {self.operand(length)}"
        return f"CAST(between_or_null({moved}, {low}, {high}) AS BIGINT)"

    def _cast(self, operand: ir.Operand, kind: ValueType) -> str:
        given, wanted, text = base_of(operand), kind.base, self.operand(operand)
        if kind.is_list or (operand.type is not None and operand.type.is_list):
            raise Unsayable
        match given, wanted:
            case None, _:
                return f"CAST(NULL AS {sql_type(kind)})"
            case _ if given is wanted:
                return text
            case _, Scalar() if given in INTEGERS | FLOATS and wanted in INTEGERS:
                low, high = INTEGER_BOUNDS[wanted]
                whole = f"CAST({text} AS HUGEINT)"
                if given in FLOATS:
                    whole = f"sign({text}) * whole(abs({text}))"
                return f"between_or_null({whole}, {low}, {high})"
            case _, Scalar.F64 if given in INTEGERS:
                return f"CAST({text} AS DOUBLE)"
            case _, Scalar.STRING if given in INTEGERS or given is Scalar.BOOL:
                return f"CAST({text} AS VARCHAR)"
            case Scalar.DATE, Scalar.DATETIME:
                return f"({text} * {DAY_MS})"
            case _:
                raise Unsayable

    # conditions

    def condition(self, condition: ir.Condition) -> str:
        match condition:
            case ir.Compare(left, comparator, right):
                return self.comparison(left, comparator, right)
            case ir.Member(needle, tuple() as options):
                equal = [self.comparison(needle, Comparator.EQ, each) for each in options]
                return _joined(equal, "OR", otherwise="false")
            case ir.Member(needle, ir.Constant(tuple() as items, kind)):
                assert kind is not None
                single = ValueType(kind.base, enum_values=kind.enum_values)
                options = tuple(ir.Constant(each, single) for each in items)
                return self.condition(ir.Member(needle, options))
            case ir.Member(needle, haystack):
                assert not isinstance(haystack, tuple)
                return f"among({self.operand(needle)}, {self.operand(haystack)})"
            case ir.StringMatch(subject, test, pattern):
                texts = ", ".join(self._as(each, ir.STRING) for each in (subject, pattern))
                return f"{test.value}({texts})"
            case ir.NullTest(operand, negated):
                return f"({self.operand(operand)}) IS {'NOT ' if negated else ''}NULL"
            case ir.Not(test):
                return f"NOT ({self.condition(test)})"
            case ir.AllOf(conditions):
                return _joined([*map(self.condition, conditions)], "AND", otherwise="true")
            case ir.AnyOf(conditions):
                return _joined([*map(self.condition, conditions)], "OR", otherwise="false")
            case ir.TextMatch():
                raise Unsayable
            case _:
                assert_never(condition)

    def comparison(self, left: ir.Operand, comparator: Comparator, right: ir.Operand) -> str:
        one, other = self.operand(left), self.operand(right)
        kinds = base_of(left), base_of(right)
        sign = comparator.value.replace("!=", "<>")
        if kinds[0] in INTEGERS and kinds[1] in FLOATS:
            return f"beside({one}, {other}) {sign} 0"
        if kinds[0] in FLOATS and kinds[1] in INTEGERS:
            return f"-beside({other}, {one}) {sign} 0"
        return f"({one}) {sign} ({other})"


def _joined(parts: list[str], word: str, *, otherwise: str) -> str:
    return f" {word} ".join(f"({each})" for each in parts) or otherwise


def _number(function: Function, given: list[str], kind: ValueType) -> str | None:
    """Of integers in 128 bits, of others in 64-bit floats; null for what does not fit."""
    is_whole = kind.base is Scalar.I64
    wide = [f"CAST({each} AS {'HUGEINT' if is_whole else 'DOUBLE'})" for each in given]
    match function:
        case Function.ADD | Function.SUBTRACT | Function.MULTIPLY:
            found = f" {function.value} ".join(wide)
        case Function.DIVIDE | Function.REMAINDER:
            found = f"{wide[0]} {function.value} nullif({wide[1]}, 0)"
        case Function.NEGATE:
            found = f"-{wide[0]}"
        case Function.ABS | Function.FLOOR | Function.CEIL | Function.ROUND:
            changes = function is Function.ABS or not is_whole
            found = f"{function.value}({wide[0]})" if changes else wide[0]
        case _:
            return None
    return f"TRY_CAST({found} AS BIGINT)" if is_whole else f"finite({found})"


def _text(function: Function, given: list[str]) -> str:
    match function:
        case Function.CONCAT:
            return f"({' || '.join(given)})"
        case Function.LOWER | Function.UPPER | Function.LENGTH | Function.LEN:
            return f"{function.value}({given[0]})"
        case Function.TRIM:
            return f"trim({given[0]}, ' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13))"
        case Function.SUBSTRING:
            return f"letters({', '.join([*given, str(FAR)][:3])})"
        case Function.AT:
            items, place = given
            return f"CASE WHEN {place} BETWEEN 1 AND len({items}) THEN ({items})[{place}] END"
        case _:
            raise Unsayable
