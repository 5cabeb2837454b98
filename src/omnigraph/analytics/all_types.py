"""The whole graph as two tables: the nodes of all types, and the edges of all types.

1. Ids are unique within a type only, so here they carry it: `Person:ada`.
2. Properties of one name and one type share a column. A name that means different types, or that
   is a column already, gets its type in front: `Person_type`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.query.columns.view import View
from omnigraph.errors import UsageError
from omnigraph.sdk.moments import target_of

if TYPE_CHECKING:
    from omnigraph.sdk.embedded.graph import LocalGraph

OWN: Final = ("id", "type", "src", "dst")
"""Columns that are no properties."""

Kind = TypeVar("Kind", NodeType, EdgeType)


@dataclass(frozen=True, slots=True)
class AllTypes:
    """What is read: every type at one snapshot, and the column of each property."""

    view: View
    nodes: tuple[tuple[NodeType, dict[str, str]], ...]
    edges: tuple[tuple[EdgeType, dict[str, str]], ...]


def read_all_types(graph: "LocalGraph", branch: str | None, commit: str | None) -> AllTypes:
    """Raises UsageError for a schema without edges, BranchNotFound, CommitNotFound."""
    view = graph.engine.view(target_of(branch, commit=commit))
    if not view.catalog.edges:
        raise UsageError("the schema has no edge type, so the graph has no edges to show")
    return AllTypes(view, name_columns(view.catalog.nodes), name_columns(view.catalog.edges))


def name_columns(types: Sequence[Kind]) -> tuple[tuple[Kind, dict[str, str]], ...]:
    """(2) Each type with the columns of its properties; blobs are left out."""
    found: dict[str, set[pa.DataType]] = {}
    for type_ in types:
        for each in type_.properties:
            if not each.type.is_blob:
                found.setdefault(each.name, set()).add(arrow_type(each.type))
    return tuple(
        (
            type_,
            {
                each.name: each.name
                if len(found[each.name]) == 1 and each.spelling not in OWN
                else f"{type_.name}_{each.spelling}"
                for each in type_.properties
                if each.name in found and not each.type.is_blob
            },
        )
        for type_ in types
    )


def read_tables(everything: AllTypes) -> tuple[pa.Table, pa.Table]:
    """Nodes and edges as Arrow tables."""
    view = everything.view
    nodes = []
    for node, columns in everything.nodes:
        rows = view.table(node).read(("id", *columns))
        nodes.append(_table(node.name, {"id": node.name}, rows, columns))
    edges = []
    for edge, columns in everything.edges:
        rows = view.table(edge).read(("id", "src", "dst", *columns))
        ends = {"src": edge.source, "dst": edge.target, "id": edge.name}
        edges.append(_table(edge.name, ends, rows, columns))
    return _put_together(nodes), _put_together(edges)


def _table(
    type_name: str, ends: Mapping[str, str], rows: pa.Table, columns: Mapping[str, str]
) -> pa.Table:
    """(1) `ends` says of which type the ids of a column are."""
    join: Any = pc.binary_join_element_wise  # its types know no separator
    ids = [join(of, rows[end], ":") for end, of in ends.items()]
    cells = [*ids, pa.repeat(type_name, rows.num_rows), *(rows[name] for name in columns)]
    return pa.table(cells, names=[*ends, "type", *columns.values()])


def _put_together(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="default")
