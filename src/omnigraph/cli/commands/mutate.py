"""`omnigraph mutate`: change a graph by a query."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.graphs import find_writer, open_client
from omnigraph.cli.inputs import read_params, read_query
from omnigraph.cli.options import (
    GraphUri,
    IdempotencyKey,
    Json,
    Message,
    Params,
    ParamsFile,
    QueryFile,
    QueryName,
    QueryText,
)
from omnigraph.cli.render import print_json, print_line, print_target
from omnigraph.errors import UsageError
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.sdk.client import GraphClient
    from omnigraph.sdk.remote.graph import RemoteGraph


def mutate(
    context: typer.Context,
    name: QueryName = None,
    uri: GraphUri = None,
    *,
    query: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Annotated[str, typer.Option(help="The branch to change.")] = "main",
    if_commit: Annotated[
        str | None, typer.Option(help="Only if this commit is the head; else exit with 4.")
    ] = None,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> None:
    """Run the inserts, updates or deletes of a query as one commit, or none."""
    from omnigraph.sdk.documents import mutation_document

    values = read_params(params, params_file)
    is_stored = query is None and query_string is None
    source = None if is_stored else read_query(query, query_string)
    graph = open_client(uri, context.obj)
    print_target("mutate", graph.uri, context.obj)
    actor = find_writer(graph, context.obj)
    if source is None:
        served, stored = _find_stored(graph, name)
        result = served.mutate_stored(
            stored,
            params=values,
            branch=branch,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            message=message,
        )
    else:
        result = graph.mutate(
            source,
            name=name,
            params=values,
            branch=branch,
            actor=actor,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            message=message,
        )
    if as_json:
        print_json(mutation_document(result))
        return
    nodes, edges = counted(result.affected_nodes, "node"), counted(result.affected_edges, "edge")
    print_line(f"changed {result.branch} via {result.query_name}: {nodes}, {edges}")
    if result.actor is not None:
        print_line(f"actor_id: {result.actor}")


def _find_stored(graph: "GraphClient", name: str | None) -> "tuple[RemoteGraph, str]":
    """A server, and the name of its stored mutation. Raises UsageError."""
    from omnigraph.sdk.remote.graph import RemoteGraph

    if name is None or not isinstance(graph, RemoteGraph):
        raise UsageError("give the query: --query FILE or -e TEXT; or name one of a --server")
    return graph, name
