"""Rewrites of a read. Each pass takes a query and returns an equivalent one.

A pass is a plain function; passes do not know each other. Their laws, checked against the slow
interpreter: the bag of rows stays, the order of ordered rows stays, and a second run of the same
pass changes nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.ir import Read
from omnigraph.compiler.passes.fold_constants import fold_constants
from omnigraph.compiler.passes.order_expands import order_expands
from omnigraph.compiler.passes.prune_columns import prune_columns
from omnigraph.compiler.passes.push_filters import push_filters
from omnigraph.compiler.passes.push_negations import push_negations
from omnigraph.compiler.sizes import Sizes

Pass = Callable[[Read, Catalog], Read]
Watcher = Callable[[str, Read], None]
"""Called with the name of each pass and its result."""

PASSES: tuple[Pass, ...] = (
    fold_constants,  # first: what folds away needs no place
    push_filters,  # before order_expands: the order depends on what each variable is filtered by
    order_expands,
    push_negations,  # behind order_expands, which says when a variable is bound
    prune_columns,  # last: what a step must hand on depends on what comes after it
)


def silent(name: str, query: Read) -> None:
    """Watches nothing."""
    del name, query


def optimise(
    query: Read, catalog: Catalog, watch: Watcher = silent, sizes: Sizes | None = None
) -> Read:
    for each in PASSES:
        rewrite = partial(order_expands, sizes=sizes) if each is order_expands else each
        query = _rewritten(query, rewrite, catalog)
        watch(each.__name__, query)
    return query


def _rewritten(query: Read, rewrite: Pass, catalog: Catalog) -> Read:
    """The query after one pass over all its parts."""
    others = [replace(each, read=_rewritten(each.read, rewrite, catalog)) for each in query.unions]
    whole = replace(rewrite(query, catalog), unions=tuple(others))
    stage = whole.stage
    if stage is None:
        return whole
    before = replace(stage, read=_rewritten(stage.read, rewrite, catalog))
    return replace(whole, steps=(before, *whole.steps[1:]))
