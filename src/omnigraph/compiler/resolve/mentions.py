"""Which variables a clause mentions, and which it binds, as written."""

from collections.abc import Container, Iterable, Iterator
from typing import assert_never

from omnigraph.lang.query import ast


def bound_names(clauses: Iterable[ast.Clause]) -> Iterator[str]:
    """Every variable bound anywhere in these clauses, in their blocks too."""
    for clause in clauses:
        match clause:
            case ast.Binding(variable):
                yield variable.name
            case ast.Traversal(source=source, edge_variable=edge_variable, target=target):
                yield source.name
                yield target.name
                if edge_variable is not None:
                    yield edge_variable.name
            case (
                ast.Negation(inner)
                | ast.OptionalMatch(inner)
                | ast.Existence(inner)
                | ast.Measure(clauses=inner)
            ):
                yield from bound_names(inner)
            case ast.Filter():
                pass
            case _:
                assert_never(clause)


def mentioned_names(clause: ast.Clause, *, parameters: Container[str]) -> Iterator[str]:
    """The variables a clause names itself; what its blocks mention does not count.

    A bare `$x` that is a declared parameter names the parameter.
    """
    match clause:
        case ast.Binding() | ast.Traversal():
            yield from bound_names((clause,))
        case ast.Filter(condition):
            yield from _in_expression(condition, parameters)
        case ast.Negation() | ast.OptionalMatch() | ast.Existence() | ast.Measure():
            pass
        case _:
            assert_never(clause)


def _in_expression(expression: ast.Expression, parameters: Container[str]) -> Iterator[str]:
    match expression:
        case ast.PropertyRef(variable):
            yield variable.name
        case ast.Variable(name):
            if name not in parameters:
                yield name
        case _:
            for each in _parts_of(expression):
                yield from _in_expression(each, parameters)


def _parts_of(expression: ast.Expression) -> Iterator[ast.Expression]:
    match expression:
        case ast.Comparison(left=left, right=right) | ast.Arithmetic(left=left, right=right):
            yield left
            yield right
        case ast.NullTest(operand) | ast.Negative(operand) | ast.Cast(operand=operand):
            yield operand
        case ast.Inversion(condition):
            yield condition
        case ast.AnyOf(conditions) | ast.AllOf(conditions):
            yield from conditions
        case ast.TextMatch(target=target, query=query):
            yield target
            yield query
        case ast.Call(arguments=arguments):
            yield from arguments
        case ast.CaseWhen(subject, branches, otherwise):
            yield from (each for each in (subject, otherwise) if each is not None)
            for branch in branches:
                yield branch.condition
                yield branch.value
        case _:
            # Rank functions and aggregates are refused in `match`; literals mention nothing.
            pass
