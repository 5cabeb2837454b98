"""Whole-graph work: PageRank, connected components, shortest paths, triangles.

Each function takes an open graph and an edge type whose two ends are one node type. It reads one
snapshot and returns a `NodeValues`: a value for each node. Without `spark` it runs here, on the
adjacency of the engine and NumPy (`in_process`); with a session it runs there (`on_spark` of the
pipeline), by the same definitions and with the same answers. `write_back` sets a property.

    ranks = pagerank(graph, "Knows")
    ranks.write_back("rank")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.analytics import all_types, in_process
from omnigraph.analytics.edges import EdgeScope, read_scope
from omnigraph.extras import require

if TYPE_CHECKING:
    from omnigraph.engine.write.mutate import MutationResult
    from omnigraph.pipeline.datasource import DataFrame, SparkSession
    from omnigraph.sdk.embedded.graph import LocalGraph

__all__ = [
    "NodeValues",
    "connected_components",
    "pagerank",
    "shortest_paths",
    "tables",
    "triangles",
]

DAMPING: Final = 0.85


@dataclass(frozen=True, slots=True)
class NodeValues:
    """A value for each node, as an Arrow table with the columns `id` and `value`."""

    graph: LocalGraph
    scope: EdgeScope
    """What was read."""
    table: pa.Table

    def as_dict(self) -> dict[str, object]:
        ids, values = (self.table[name].to_pylist() for name in ("id", "value"))
        return dict(zip(map(str, ids), values, strict=True))

    def write_back(
        self, property_name: str, *, actor: str | None = None, message: str | None = None
    ) -> MutationResult:
        """Set a property of the nodes, as one commit on the branch that was read.

        Nodes without a value keep theirs. Raises HeadMoved if the branch has moved since it was
        read; UsageError; ConstraintViolation.
        """
        rows = in_process.rows_with(self.scope, property_name, self.table)
        return self.graph.upsert(
            self.scope.node.name,
            rows,
            branch=self.scope.branch,
            actor=actor,
            message=message,
            if_commit=self.scope.commit,
        )


def pagerank(
    graph: LocalGraph,
    edge: str,
    *,
    rounds: int = 10,
    damping: float = DAMPING,
    branch: str | None = None,
    commit: str | None = None,
    spark: SparkSession | None = None,
) -> NodeValues:
    """The rank of each node after so many rounds from equal ranks; ranks add up to 1.

    Parallel edges count each. A node without an edge out gives its rank to all. Raises UsageError,
    TypeUnknown.
    """
    scope = read_scope(graph, edge, branch, commit)
    if spark is None:
        return NodeValues(graph, scope, in_process.pagerank(scope, rounds, damping))
    there, nodes, edges = _on_spark(scope, spark)
    return NodeValues(graph, scope, there.pagerank(nodes, edges, rounds, damping))


def connected_components(
    graph: LocalGraph,
    edge: str,
    *,
    branch: str | None = None,
    commit: str | None = None,
    spark: SparkSession | None = None,
) -> NodeValues:
    """The component of each node, by the smallest id in it; edges count both ways."""
    scope = read_scope(graph, edge, branch, commit)
    if spark is None:
        return NodeValues(graph, scope, in_process.connected_components(scope))
    there, nodes, edges = _on_spark(scope, spark)
    return NodeValues(graph, scope, there.connected_components(nodes, edges))


def shortest_paths(
    graph: LocalGraph,
    edge: str,
    sources: Sequence[str],
    *,
    branch: str | None = None,
    commit: str | None = None,
    spark: SparkSession | None = None,
) -> NodeValues:
    """The number of edges from the nearest of these ids; nodes that none reaches are left out."""
    scope = read_scope(graph, edge, branch, commit)
    if spark is None:
        return NodeValues(graph, scope, in_process.shortest_paths(scope, sources))
    there, nodes, edges = _on_spark(scope, spark)
    return NodeValues(graph, scope, there.shortest_paths(nodes, edges, sources))


def triangles(
    graph: LocalGraph,
    edge: str,
    *,
    branch: str | None = None,
    commit: str | None = None,
    spark: SparkSession | None = None,
) -> NodeValues:
    """The number of triangles through each node, whatever the direction; loops are ignored."""
    scope = read_scope(graph, edge, branch, commit)
    if spark is None:
        return NodeValues(graph, scope, in_process.triangles(scope))
    there, nodes, edges = _on_spark(scope, spark)
    return NodeValues(graph, scope, there.triangles(nodes, edges))


def tables(
    graph: LocalGraph,
    edge: str | None = None,
    *,
    branch: str | None = None,
    commit: str | None = None,
) -> tuple[pa.Table, pa.Table]:
    """Nodes and edges as Arrow tables, with `id` and `src`, `dst`, for NetworkX and igraph.

    Without an edge type, of all types: both have the column `type`, and ids carry it: `Person:ada`.
    """
    if edge is None:
        return all_types.read_tables(all_types.read_all_types(graph, branch, commit))
    return in_process.read_tables(read_scope(graph, edge, branch, commit))


def _on_spark(scope: EdgeScope, spark: SparkSession) -> tuple[ModuleType, DataFrame, DataFrame]:
    """The functions on Spark, the nodes and the edges."""
    require("pyspark", extra="spark")
    there = import_module("omnigraph.pipeline.queries.whole_graph")
    nodes, edges = there.ends(spark, scope.view, scope.engine, scope.node, scope.edge)
    return there, nodes, edges
