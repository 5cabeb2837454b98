"""Graphs for Spark users: `write` makes one commit of several data frames, `register` makes
`format("omnigraph")` known to a session.

This module imports no pyspark until a function needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.engine.load.inputs import Input
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.extras import require
from omnigraph.ids import MAIN
from omnigraph.sdk.embedded.graph import LocalGraph, open as open_local

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.engine.load.bulk import LoadMode
    from omnigraph.engine.load.run import LoadResult
    from omnigraph.pipeline.datasource import DataFrame, SparkSession

__all__ = ["frames", "register", "write"]


def register(spark: SparkSession, *, storage_options: Mapping[str, str] | None = None) -> None:
    """Make `format("omnigraph")` known to a session, for reads, writes and streams.

    Credentials that the workers do not have by themselves are given here and nowhere else.
    """
    require("pyspark", extra="spark")
    from omnigraph.pipeline.datasource import register as make_known  # noqa: PLC0415 - imports pyspark

    make_known(spark, storage_options=storage_options)


def write(
    graph: LocalGraph | str | Path,
    frames: Mapping[str, DataFrame],
    *,
    mode: LoadMode | str = "append",
    branch: str = MAIN,
    actor: str | None = None,
    message: str | None = None,
    idempotency_key: str | None = None,
) -> LoadResult:
    """Write the rows of Spark data frames, by type, as one commit or not at all.

    It is a load: the same modes, the same checks. A name stands for a node type, else for an edge
    type; `node:NAME` and `edge:NAME` say which. Raises what `graph.load` raises.
    """
    if not frames:
        raise UsageError("there is nothing to write: name a type and its data frame")
    opened = graph if isinstance(graph, LocalGraph) else open_local(graph)
    inputs = [find_input(opened.catalog, name, frame) for name, frame in frames.items()]
    return opened.load(
        inputs,
        mode=mode,
        branch=branch,
        actor=actor,
        message=message,
        idempotency_key=idempotency_key,
    )


def frames(
    graph: LocalGraph,
    edge: str | None = None,
    *,
    spark: SparkSession | None = None,
    branch: str | None = None,
    commit: str | None = None,
) -> tuple[DataFrame, DataFrame]:
    """The vertices and edges of one edge type, or of all, as GraphFrames takes them.

    Vertices have `id` and their properties, edges `src`, `dst`, `id` and theirs; blobs are left
    out. Without an edge type, both have the column `type`, and ids carry it: `Person:ada`. Both
    show one snapshot. Raises TypeUnknown, UsageError.
    """
    require("pyspark", extra="spark")
    from omnigraph.analytics.all_types import read_all_types  # noqa: PLC0415 - few need it
    from omnigraph.analytics.edges import read_scope  # noqa: PLC0415 - few need it
    from omnigraph.pipeline.queries import whole_graph  # noqa: PLC0415 - imports pyspark
    from omnigraph.pipeline.queries.run import session_of  # noqa: PLC0415 - as above

    if edge is None:
        all_ = read_all_types(graph, branch, commit)
        return whole_graph.frames_of_all(
            session_of(spark), all_.view, graph.engine, all_.nodes, all_.edges
        )
    scope = read_scope(graph, edge, branch, commit)
    return whole_graph.frames(session_of(spark), scope.view, scope.engine, scope.node, scope.edge)


def find_input(catalog: Catalog, name: str, frame: object) -> Input:
    """The rows of one type as an input of a load. Raises TypeUnknown."""
    kind, _, plain = name.rpartition(":")
    if kind in ("", "node") and catalog.node(plain) is not None:
        return Input(frame, type=plain, name=name)
    if kind in ("", "edge") and catalog.edges_named(plain):
        return Input(frame, edge=plain, name=name)
    raise TypeUnknown(name)
