"""A read before it becomes a plan, as text that is easy to compare: one line per step."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from omnigraph.compiler import ir
from omnigraph.compiler.phrases import (
    condition_text,
    conditions_text,
    expression_text,
    hops_text,
    measure_text,
    path_text,
    variable_text,
)

ARROWS = {
    ir.Direction.OUT: ("-", "->"),
    ir.Direction.IN: ("<-", "-"),
    ir.Direction.BOTH: ("<-", "->"),
}


def format_read(query: ir.Read) -> str:
    return "\n".join(_lines(query))


def _lines(query: ir.Read) -> list[str]:
    lines = [*_part(query)]
    for each in query.unions:
        lines += ["union" if each.distinct else "union all", *_part(each.read)]
    if query.order:
        lines.append(f"order {', '.join(map(_ordering, query.order))}")
    for word, count in (("limit", query.limit), ("offset", query.offset)):
        if count is not None:
            lines.append(f"{word} {count if isinstance(count, int) else expression_text(count)}")
    return lines


def _part(query: ir.Read) -> Iterator[str]:
    yield from _steps(query.steps, "")
    yield f"return {', '.join(expression_text(each.expression) for each in query.outputs)}"
    if query.having is not None:
        yield f"having {condition_text(query.having)}"


def _steps(steps: Sequence[ir.Step], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case ir.Scan(variable, type_name):
                text = f"scan {variable_text(variable)}: {type_name}"
                yield indent + text + _rest(step.filters, step.columns, None)
            case ir.ScanAny(variable, types):
                text = f"scan {variable_text(variable)}: {' | '.join(types)}"
                yield indent + text + _rest(step.filters, step.columns, None)
            case ir.Stage(read, carried):
                yield "stage"
                yield from (f"  {line}" for line in _lines(read))
                for each in carried:
                    text = f"with {variable_text(each.variable)}: {' | '.join(each.types)}"
                    yield text + _rest((), each.columns, None)
            case ir.Expand():
                yield indent + _expand(step)
            case ir.ExpandAny():
                yield indent + _expand_any(step)
            case ir.EachPath(variable, path):
                yield f"{indent}each path {variable_text(variable)} of {path_text(path)}"
            case ir.Where(condition):
                yield f"{indent}where {condition_text(condition)}"
            case ir.Without(inner):
                yield f"{indent}not"
                yield from _steps(inner, indent + "  ")
            case ir.Within(inner):
                yield f"{indent}exists"
                yield from _steps(inner, indent + "  ")
            case ir.Measured(inner, aggregate, comparator, bound):
                measured = f"{measure_text(aggregate)} {comparator} {expression_text(bound)}"
                yield f"{indent}measured {measured}"
                yield from _steps(inner, indent + "  ")
            case ir.Optionally(inner):
                yield f"{indent}optional"
                yield from _steps(inner, indent + "  ")
            case _:
                assert_never(step)


def _expand(step: ir.Expand) -> str:
    edge = "" if step.edge_variable is None else f"${step.edge_variable}:"
    hops = "" if step.hops_high == 1 == step.hops_low else hops_text(step.hops_low, step.hops_high)
    left, right = ARROWS[step.direction]
    arrow = f"{left}{edge}{step.edge}{hops}{right}"
    target = f"{variable_text(step.target)}: {step.target_type}"
    rest = _rest(step.filters, step.columns, step.edge_columns or None)
    return f"expand {variable_text(step.source)} {arrow} {target}{rest}"


def _expand_any(step: ir.ExpandAny) -> str:
    edge = "" if step.edge_variable is None else f"${step.edge_variable}:"
    hops = "" if step.hops_high == 1 == step.hops_low else hops_text(step.hops_low, step.hops_high)
    ways = ", ".join(
        f"{each.source_type} {each.edge.join(ARROWS[each.direction])} {each.target_type}"
        for each in step.ways
    )
    target = f"{variable_text(step.target)}: {' | '.join(step.target_types)}"
    rest = _rest(step.filters, step.columns, step.edge_columns or None)
    return f"expand {variable_text(step.source)} {edge}({ways}){hops} {target}{rest}"


def _rest(
    filters: tuple[ir.Condition, ...],
    columns: tuple[str, ...] | None,
    edge_columns: tuple[str, ...] | None,
) -> str:
    text = f" where {conditions_text(filters)}" if filters else ""
    text += "" if columns is None else f" [{', '.join(columns)}]"
    return text + ("" if edge_columns is None else f" edge [{', '.join(edge_columns)}]")


def _ordering(ordering: ir.Ordering) -> str:
    key = ordering.key
    text = f"column {key}" if isinstance(key, int) else expression_text(key)
    return f"{text} desc" if ordering.descending else text
