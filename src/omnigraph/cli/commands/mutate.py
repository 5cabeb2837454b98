"""`omnigraph mutate`: change a graph by a query."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import named_once
from omnigraph.cli.graphs import find_writer, open_client
from omnigraph.cli.inputs import read_params, read_query
from omnigraph.cli.options import (
    GraphUri,
    Json,
    Params,
    ParamsFile,
    QueryFile,
    QueryName,
    QueryText,
    UriOption,
)
from omnigraph.cli.render import print_json, print_line, print_target
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.engine.write.mutate import MutationResult
    from omnigraph.sdk.client import GraphClient


def mutate(
    context: typer.Context,
    name: QueryName = None,
    uri: GraphUri = None,
    *,
    uri_option: UriOption = None,
    query: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Annotated[str, typer.Option(help="The branch to change.")] = "main",
    if_commit: Annotated[
        str | None, typer.Option(help="Only if this commit is the head; else exit with 4.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the inserts, updates or deletes of a query as one commit, or none."""
    from omnigraph.sdk.documents import mutation_document

    values = read_params(params, params_file)
    is_stored = query is None and query_string is None
    source = None if is_stored else read_query(query, query_string)
    graph = open_client(named_once(uri, uri_option), context.obj)
    print_target("mutate", graph.uri, context.obj)
    actor = find_writer(graph, context.obj)
    if source is None:
        result = _mutate_stored(graph, name, values, branch, if_commit)
    else:
        result = graph.mutate(
            source, name=name, params=values, branch=branch, actor=actor, if_commit=if_commit
        )
    if as_json:
        print_json(mutation_document(result))
        return
    counts = f"{result.affected_nodes} nodes, {result.affected_edges} edges"
    print_line(f"changed {result.branch} via {result.query_name}: {counts}")
    if result.actor is not None:
        print_line(f"actor_id: {result.actor}")


def _mutate_stored(
    graph: "GraphClient",
    name: str | None,
    params: dict[str, object] | None,
    branch: str,
    if_commit: str | None,
) -> "MutationResult":
    """Run a stored mutation of a server. Raises UsageError."""
    from omnigraph.sdk.remote.graph import RemoteGraph

    if name is None or not isinstance(graph, RemoteGraph):
        raise UsageError("give the query: --query FILE or -e TEXT; or name one of a --server")
    return graph.mutate_stored(name, params=params, branch=branch, if_commit=if_commit)
