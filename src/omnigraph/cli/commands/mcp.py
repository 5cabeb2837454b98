"""`omnigraph mcp`: a graph as tools for an agent, on standard input and output."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import omnigraph
from omnigraph.cli.graphs import as_served, find_writer, open_client
from omnigraph.cli.options import GraphUri
from omnigraph.errors import UsageError


def mcp(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    queries: Annotated[
        Path | None,
        typer.Option(help="A folder of .gq files: each query in it becomes a tool."),
    ] = None,
    read_only: Annotated[bool, typer.Option(help="Offer no tool that writes.")] = False,
    only_stored: Annotated[
        bool, typer.Option(help="Offer the stored queries and nothing else.")
    ] = False,
) -> None:
    """Serve a graph to an agent over the Model Context Protocol, on stdin and stdout.

    Each stored query is a tool of its own: the queries of a server, or of --queries.
    """
    from omnigraph.mcp.graph_tools import GraphToolbox
    from omnigraph.mcp.protocol import Session
    from omnigraph.mcp.stored_query_tools import (
        FolderQueries,
        ServerQueries,
        StoredQuerySource,
    )

    graph = open_client(uri, context.obj, read_only=read_only)
    actor = find_writer(graph, context.obj)
    served = as_served(graph)
    if served is not None and queries is not None:
        raise UsageError(
            "a server has stored queries of its own; --queries is for graphs in storage"
        )
    stored: StoredQuerySource | None = None if served is None else ServerQueries(served)
    if queries is not None:
        stored = FolderQueries(graph, queries, actor)
    if only_stored and stored is None:
        raise UsageError("--only-stored needs stored queries: --queries DIR, or a --server")
    toolbox = GraphToolbox(graph, stored, actor, read_only, only_stored)
    toolbox.tools()  # a wrong folder or server ends the command now, not at the first call
    Session(toolbox, omnigraph.__version__).serve(
        (line.decode(errors="replace") for line in sys.stdin.buffer), _send
    )


def _send(line: str) -> None:
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.buffer.flush()
