"""Which walks are only counted, so that nobody needs to walk them."""

from omnigraph.compiler import ir, plan
from omnigraph.compiler.ir import AggregateFunction
from omnigraph.compiler.plan import WalkMode
from omnigraph.compiler.scope import operands_in


def counted_expand(operator: plan.Aggregate) -> plan.Expand | None:
    """The walk below an aggregate, if all it does is multiply rows.

    Nothing may read where it arrives, except to count it: whoever arrives is somebody, so counting
    them is counting rows.
    """
    walk = operator.input
    if not isinstance(walk, plan.Expand) or walk.closes or walk.filters:
        return None
    if walk.mode not in (WalkMode.NEIGHBOURS, WalkMode.EDGES):
        return None
    reached = {walk.target, walk.edge_variable}
    for column in operator.columns:
        if not _counts(column.expression, reached) and _reads(column.expression, reached):
            return None
    return walk


def _counts(expression: ir.Operand | ir.Aggregate, reached: set[str | None]) -> bool:
    match expression:
        case ir.Aggregate(AggregateFunction.COUNT, ir.IdOf(variable), distinct=False):
            return variable in reached
        case _:
            return False


def _reads(expression: ir.Operand | ir.Aggregate, reached: set[str | None]) -> bool:
    return any(
        isinstance(each, ir.PropertyOf | ir.IdOf) and each.variable in reached
        for each in operands_in(expression)
    )
