"""`union`: the rows of several parts, each of which is a pattern and what it returns.

The parts have the same columns: as many, of the same names and types, in the same order. A bare
`null` takes the type of the other column. The rows of the whole are ordered by its columns.
"""

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.catalog.types import ValueType
from omnigraph.compiler.ir import Constant, Ordering, Output, Read, Union
from omnigraph.compiler.resolve.context import Context
from omnigraph.compiler.resolve.ordering import unknown_alias
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span


def agree(first: Read, unions: Sequence[Union], context: Context) -> Read:
    """The first part with the others behind it; reports which column of which part differs."""
    parts = [first, *(each.read for each in unions)]
    columns = [each.outputs for each in parts]
    for number, part in enumerate(parts[1:], start=2):
        difference = _find_difference(first.outputs, part.outputs, number)
        if difference is not None:
            context.report(*difference)
            return first
    kinds = [_common(same) for same in zip(*columns, strict=True)]
    typed = [tuple(map(_typed, of, kinds)) for of in columns]
    whole = [replace(part, outputs=outputs) for part, outputs in zip(parts, typed, strict=True)]
    others = zip(unions, whole[1:], strict=True)
    return replace(whole[0], unions=tuple(replace(each, read=read) for each, read in others))


def _find_difference(
    first: Sequence[Output], other: Sequence[Output], number: int
) -> tuple[TypeProblem, Span] | None:
    """U20: the first column that is not the same in both parts, and where it stands."""
    if len(first) != len(other):
        message = (
            f"part {number} of the union returns {_columns(other)}, the first {_columns(first)}"
        )
        hint = "return the same columns in every part"
        return TypeProblem(QueryRule.U20, message, hint), other[0].span
    for at, (one, two) in enumerate(zip(first, other, strict=True), start=1):
        if one.name != two.name:
            message = (
                f"column {at} is called '{two.name}' in part {number} of the union, "
                f"'{one.name}' in the first"
            )
            hint = f"write `as {_as_name(one.name)}`"
            return TypeProblem(QueryRule.U20, message, hint), two.span
        if not _is_null(one) and not _is_null(two) and _kind(one) != _kind(two):
            message = (
                f"column '{one.name}' is {two.type} in part {number} of the union, "
                f"{one.type} in the first"
            )
            hint = "convert one of them, as with `cast(… as F64)`"
            return TypeProblem(QueryRule.U20, message, hint), two.span
    return None


def _columns(outputs: Sequence[Output]) -> str:
    return "1 column" if len(outputs) == 1 else f"{len(outputs)} columns"


def _as_name(name: str) -> str:
    """A name that an alias can have: a column without one may be called `a.ref`."""
    return name.rpartition(".")[2].removeprefix("@")


def _is_null(output: Output) -> bool:
    return isinstance(output.expression, Constant) and output.expression.type is None


def _kind(output: Output) -> ValueType:
    """The type without what a union may widen: nullability, and the values of an enum."""
    return replace(output.type, nullable=False, enum_values=None)


def _common(outputs: Sequence[Output]) -> ValueType:
    known = [each.type for each in outputs if not _is_null(each)] or [outputs[0].type]
    is_nullable = len(known) < len(outputs) or any(each.nullable for each in known)
    enums = {each.enum_values for each in known}
    found = known[0] if len(enums) == 1 else replace(known[0], enum_values=None)
    return found.optional() if is_nullable else found


def _typed(output: Output, kind: ValueType) -> Output:
    if isinstance(output.expression, Constant) and output.expression.type is None:
        return replace(output, expression=replace(output.expression, type=kind), type=kind)
    return replace(output, type=kind)


def resolve_union_order(
    orderings: Sequence[ast.Ordering], first: Read, context: Context
) -> tuple[Ordering, ...]:
    """Rows of several parts have nothing in common but their columns."""
    places = {each.name: at for at, each in enumerate(first.outputs)}
    keys: list[Ordering] = []
    for each in orderings:
        if not isinstance(each.expression, ast.Word):
            message = "a union is ordered by the names of its columns"
            hint = "name the column with `as`, and order by that name"
            context.report(TypeProblem(QueryRule.U15, message, hint), each.span)
            continue
        at = places.get(each.expression.text)
        if at is None:
            context.report(unknown_alias(each.expression.text, places), each.expression.span)
            continue
        kind = first.outputs[at].type
        if kind.is_list or kind.is_vector:
            message = f"'{each.expression.text}' ({kind}) is not a single value to order by"
            context.report(TypeProblem(QueryRule.T7, message), each.expression.span)
            continue
        keys.append(Ordering(at, bool(each.descending), each.span))
    return tuple(keys)
