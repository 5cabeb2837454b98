"""`with`: what one stage of a read hands on to the next.

A node or an edge keeps its variable; it is handed on by its id, and whatever is read of it later is
fetched then. A value has a name, and is a bare word further down, as an alias is in `order`. All
else of the stage is forgotten: its names can be bound again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from omnigraph.compiler.ir import (
    CARRIED,
    STRING,
    TYPE_COLUMN,
    CarriedVariable,
    IdOf,
    ObjectOf,
    Operand,
    Output,
    PropertyOf,
    Read,
    Stage,
)
from omnigraph.compiler.resolve.context import BlockScope, BoundVariable, Context
from omnigraph.compiler.resolve.outputs import Column, name_of
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.lang.query import ast

UNKNOWN = BoundVariable("node", ())
"""Of a variable that is wrong, which has been reported."""


@dataclass(frozen=True, slots=True)
class HandedOn:
    """Where a stage begins: with nothing, or with what the stage before it handed on."""

    stage: Stage | None = None
    scope: BlockScope | None = None
    values: dict[str, Operand | None] = field(default_factory=dict)
    """By name; None if a value is wrong, which has been reported."""


def hand_on(
    read: Read, body: ast.Read, columns: Sequence[Column], scope: BlockScope, context: Context
) -> HandedOn:
    """What the next stage begins with. Reports what has the wrong name, or none."""
    carried: list[CarriedVariable] = []
    bound: dict[str, BoundVariable] = {}
    values: dict[str, Operand | None] = {}
    outputs: list[Output] = []
    types: list[Output] = []
    for projection, column in zip(body.returns, columns, strict=True):
        expression = projection.expression
        is_variable = isinstance(expression, ast.Variable) and (
            expression.name not in context.parameters
        )
        problem = _find_naming_problem(projection, is_variable=is_variable)
        if problem is not None:
            context.report(problem, projection.span)
        if column is not None and isinstance(column.expression, ObjectOf):
            shown = column.expression
            found = scope.find(shown.variable)
            assert found is not None, "the object was resolved through it"
            bound[shown.variable] = found
            carried.append(CarriedVariable(shown.variable, found.kind, found.types))
            kind = STRING.optional() if found.optional else STRING
            outputs.append(replace(column, expression=IdOf(shown.variable, kind), type=kind))
            if found.is_several:
                type_name = PropertyOf(shown.variable, TYPE_COLUMN, kind)
                types.append(Output(carried[-1].type_column, type_name, kind, column.span))
        elif is_variable:
            bound[name_of(projection)] = UNKNOWN
        elif column is None:
            values[name_of(projection)] = None
        else:
            outputs.append(column)
            values[column.name] = PropertyOf(CARRIED, column.name, column.type)
    # Behind all others: an order names its columns by their places.
    whole = replace(read, outputs=(*outputs, *types))
    around = BlockScope(variables=bound, is_stage=True)
    return HandedOn(Stage(whole, tuple(carried)), around, values)


def _find_naming_problem(projection: ast.Projection, *, is_variable: bool) -> TypeProblem | None:
    """U22: a node has its name already, and a value is known by the one that it gets."""
    if is_variable and projection.alias is not None:
        message = f"`${name_of(replace(projection, alias=None))}` keeps its name behind `with`"
        return TypeProblem(QueryRule.U22, message, f"leave `as {projection.alias.text}` out")
    is_named = is_variable or isinstance(projection.expression, ast.Word)
    if is_named or projection.alias is not None:
        return None
    message = "a value that `with` hands on needs a name"
    return TypeProblem(QueryRule.U22, message, "write `… as name`")
