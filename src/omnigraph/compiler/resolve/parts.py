"""The parts of an expression: found, and exchanged for others."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from omnigraph.lang.query import ast


def leaves(expression: ast.Expression) -> Iterator[ast.Expression]:
    """The expression and its parts; those of an aggregate and of a property are not looked at."""
    yield expression
    if not isinstance(expression, ast.Aggregate | ast.PropertyRef):
        for part in _parts(expression):
            yield from leaves(part)


def _parts(node: Any) -> Iterator[ast.Expression]:
    for each in fields(node):
        value = getattr(node, each.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, ast.Expression):
                yield item
            elif isinstance(item, ast.CaseArm):
                yield from _parts(item)


def rewrite(node: Any, others: Mapping[ast.Expression, ast.Expression]) -> Any:
    """The expression with some parts exchanged; what stands there now has the place of the part."""
    if isinstance(node, tuple):
        return tuple(rewrite(each, others) for each in node)
    if not isinstance(node, ast.Expression | ast.CaseArm):
        return node
    if not isinstance(node, ast.CaseArm) and (other := others.get(node)) is not None:
        return replace(other, span=node.span)
    assert is_dataclass(node)
    changed = {each.name: rewrite(getattr(node, each.name), others) for each in fields(node)}
    return replace(node, **changed)
