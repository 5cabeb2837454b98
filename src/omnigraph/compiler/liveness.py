"""Which variables the rows of an operator still have to bind.

A walk copies a row for everything that it reaches, so a variable that nothing reads any more is
dropped there. The trees of blocks keep all their variables: they are joined by more than names.
"""

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.compiler import plan
from omnigraph.compiler.ir import Condition
from omnigraph.compiler.scope import operands_in, variables_in, variables_of


def drop_unread(root: plan.Operator) -> plan.Operator:
    """The same plan, whose walks and filters keep only what is read above them."""
    match root:
        case plan.Project(given, columns) | plan.Aggregate(given, columns):
            read = variables_in(leaf for each in columns for leaf in operands_in(each.expression))
            return replace(root, input=_rows(given, read))
        case plan.FilterColumns(given) | plan.SortColumns(given) | plan.Limit(given):
            return replace(root, input=drop_unread(given))
        case plan.Union(left, right):
            return replace(root, left=drop_unread(left), right=drop_unread(right))
        case _:
            return root


def _rows(operator: plan.Operator, read: frozenset[str]) -> plan.Operator:
    """An operator of whose rows these variables are read. One that is unknown here keeps all."""
    match operator:
        case plan.Limit(given):
            return replace(operator, input=_rows(given, read))
        case plan.Sort(given, keys, ties, typed):
            ranked = {each.variable for each in keys if isinstance(each, plan.ByRank)}
            values = (each.operand for each in keys if isinstance(each, plan.ByValue))
            by_value = variables_in(leaf for each in values for leaf in operands_in(each))
            named = {*ties, *typed}
            return replace(operator, input=_rows(given, read | ranked | by_value | named))
        case plan.Filter(given, conditions):
            kept = tuple(sorted(read))
            return replace(operator, input=_rows(given, read | _read_by(conditions)), kept=kept)
        case plan.Expand(given, target=target):
            kept_ends = {target} if operator.closes else set()
            after = read | _read_by(operator.filters) | kept_ends
            bound = {target, operator.edge_variable} - kept_ends
            before = (after | {operator.source}) - bound
            return replace(
                operator, input=_rows(given, frozenset(before)), kept=tuple(sorted(after - bound))
            )
        case plan.EachPath(given, variable, path):
            ends = {path.source.variable, path.target.variable}
            return replace(operator, input=_rows(given, (read - {variable}) | ends))
        case plan.Stage(given, carried):
            kept_nodes = tuple(each for each in carried if each.variable in read)
            return replace(operator, input=drop_unread(given), variables=kept_nodes)
        case plan.CrossJoin(left, right):
            return replace(operator, left=_rows(left, read), right=_rows(right, read))
        case plan.AntiJoin(given, on=on) | plan.SemiJoin(given, on=on):
            return replace(operator, input=_rows(given, read | set(on)))
        case plan.LeftJoin(given, on=on, binds=binds):
            return replace(operator, input=_rows(given, (read - set(binds)) | set(on)))
        case plan.Measure(given, on=on, bound=bound):
            compared = variables_in(operands_in(bound))
            return replace(operator, input=_rows(given, read | set(on) | compared))
        case _:
            return operator


def _read_by(conditions: Iterable[Condition]) -> frozenset[str]:
    return frozenset(name for each in conditions for name in variables_of(each))
