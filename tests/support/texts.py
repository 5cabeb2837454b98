"""A read as the text of a query that should mean the same.

Not every read has one: the language cannot spell negative numbers or empty choices, for example.
The front of the compiler refuses such a text, which is the simplest way to find out. A caller must
avoid wildcards that are used twice.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from omnigraph.compiler import ir
from omnigraph.compiler.phrases import (
    condition_text,
    expression_text,
    hops_text,
    measure_text,
    variable_text,
)


def as_text(query: ir.Read) -> str:
    parameters = ", ".join(f"${each.name}: {each.type}" for each in query.parameters)
    lines = [f"query {query.name}({parameters}) {{", *_part(query)]
    for each in query.unions:
        lines += ["union" if each.distinct else "union all", *_part(each.read)]
    if query.order:
        lines.append(f"order {{ {', '.join(_ordering(query, each) for each in query.order)} }}")
    for word, count in (("limit", query.limit), ("offset", query.offset)):
        if count is not None:
            lines.append(f"{word} {count if isinstance(count, int) else expression_text(count)}")
    return "\n".join((*lines, "}"))


def _part(query: ir.Read) -> Iterator[str]:
    returned = ", ".join(f"{expression_text(o.expression)} as {o.name}" for o in query.outputs)
    yield "match {"
    yield from _clauses(query.steps)
    yield f"}} return {{ {returned} }}"
    if query.having is not None:
        yield f"having {{ {condition_text(query.having)} }}"


def _clauses(steps: Sequence[ir.Step]) -> Iterator[str]:
    for step in steps:
        match step:
            case ir.Scan(variable, type_name, filters):
                yield f"{variable_text(variable)}: {type_name}"
                yield from map(condition_text, filters)
            case ir.ScanAny(variable, types, filters):
                yield f"{variable_text(variable)}: {' | '.join(types)}"
                yield from map(condition_text, filters)
            case ir.Stage():
                raise AssertionError("stages are drawn as programs only")
            case ir.ExpandAny():
                raise AssertionError("which way each edge is walked has no spelling")
            case ir.Expand():
                yield _traversal(step)
                yield from map(condition_text, step.filters)
            case ir.EachPath():
                raise AssertionError("paths are drawn without a spelling")
            case ir.Where(condition):
                yield condition_text(condition)
            case ir.Without(inner):
                yield "not {"
                yield from _clauses(inner)
                yield "}"
            case ir.Within(inner):
                yield "exists {"
                yield from _clauses(inner)
                yield "}"
            case ir.Measured(inner, aggregate, comparator, bound):
                yield f"{measure_text(aggregate)} {{"
                yield from _clauses(inner)
                yield f"}} {comparator} {expression_text(bound)}"
            case ir.Optionally(inner):
                yield "optional {"
                yield from _clauses(inner)
                yield "}"
            case _:
                assert_never(step)


def _traversal(step: ir.Expand) -> str:
    left, right = variable_text(step.source), variable_text(step.target)
    if step.direction is ir.Direction.IN:
        left, right = right, left
    edge = step.edge[0].lower() + step.edge[1:]
    if step.direction is ir.Direction.BOTH:
        edge = f"<{edge}>"
    if step.edge_variable is not None:
        edge = f"${step.edge_variable}:{edge}"
    if (step.hops_low, step.hops_high) != (1, 1):
        edge += hops_text(step.hops_low, step.hops_high)
    return f"{left} {edge} {right}"


def _ordering(query: ir.Read, ordering: ir.Ordering) -> str:
    key = ordering.key
    text = query.outputs[key].name if isinstance(key, int) else expression_text(key)
    return f"{text} desc" if ordering.descending else text
