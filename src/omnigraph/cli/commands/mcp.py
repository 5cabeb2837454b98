"""`omnigraph mcp`: a graph as tools for an agent, on standard input and output."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import omnigraph
from omnigraph.cli.graphs import as_served, find_writer, open_client
from omnigraph.errors import UsageError


def mcp(
    context: typer.Context,
    uri: Annotated[str | None, typer.Argument(help="The graph.")] = None,
    *,
    queries: Annotated[
        Path | None,
        typer.Option(help="A folder of .gq files: each query in it becomes a tool."),
    ] = None,
    read_only: Annotated[bool, typer.Option(help="Offer nothing that changes the graph.")] = False,
    only_stored: Annotated[
        bool, typer.Option(help="Offer the stored queries and nothing else.")
    ] = False,
) -> None:
    """Offer a graph to an agent: a server of the Model Context Protocol on stdin and stdout.

    The stored queries are tools of their own: those that a server has, or those of --queries.
    """
    from omnigraph.mcp.graph_tools import GraphToolbox
    from omnigraph.mcp.protocol import Session
    from omnigraph.mcp.stored import InFolder, OnServer, Stored

    graph = open_client(uri, context.obj, read_only=read_only)
    actor = find_writer(graph, context.obj)
    served = as_served(graph)
    if served is not None and queries is not None:
        raise UsageError(
            "a server has stored queries of its own; --queries is for graphs in storage"
        )
    stored: Stored | None = None if served is None else OnServer(served)
    if queries is not None:
        stored = InFolder(graph, queries, actor)
    if only_stored and stored is None:
        raise UsageError("--only-stored needs stored queries: --queries DIR, or a --server")
    toolbox = GraphToolbox(graph, stored, actor, read_only, only_stored)
    toolbox.tools()  # what is wrong with the queries or the server is said at once
    Session(toolbox, omnigraph.__version__).serve(
        (line.decode(errors="replace") for line in sys.stdin.buffer), _send
    )


def _send(line: str) -> None:
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.buffer.flush()
