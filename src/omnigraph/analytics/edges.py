"""What whole-graph work reads: one edge type at one snapshot, and the nodes at its ends."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.query.columns.csr import Edges, read_codes
from omnigraph.engine.query.columns.rows import ID
from omnigraph.engine.query.columns.view import View
from omnigraph.engine.tables.arrays import Array
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.sdk.moments import target_of

if TYPE_CHECKING:
    from omnigraph.engine.graph import Graph
    from omnigraph.sdk.embedded.graph import LocalGraph


@dataclass
class EdgeScope:
    """An edge type between nodes of one type. Edges whose end is missing are ignored."""

    engine: "Graph" = field(repr=False)
    view: View = field(repr=False)
    node: NodeType
    edge: EdgeType

    @property
    def branch(self) -> str:
        return str(self.view.snapshot.branch)

    @property
    def commit(self) -> str | None:
        found = self.view.snapshot.commit
        return None if found is None else str(found.id)

    @cached_property
    def ids(self) -> Array:
        nodes = self.view.table(self.node).resident
        nodes.load((ID,))
        return nodes.column(ID)

    @cached_property
    def edges(self) -> Edges:
        nodes = self.view.table(self.node).resident
        return read_codes(self.view.table(self.edge), nodes, nodes).between(nodes, nodes)


def read_scope(graph: "LocalGraph", edge: str, branch: str | None, commit: str | None) -> EdgeScope:
    """Raises TypeUnknown, UsageError, BranchNotFound, CommitNotFound."""
    view = graph.engine.view(target_of(branch, commit=commit))
    type_ = view.catalog.edge(edge)
    if type_ is None:
        raise TypeUnknown(edge)
    node = view.catalog.node(type_.source)
    if node is None or type_.source != type_.target:
        raise UsageError(
            f"'{edge}' leads from {type_.source} to {type_.target}; whole-graph work takes an edge "
            "type whose ends are one node type"
        )
    return EdgeScope(graph.engine, view, node, type_)
