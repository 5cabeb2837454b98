"""`omnigraph mutate`: change a graph by a query."""

import json
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.address import find_actor
from omnigraph.cli.files import read_source
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.render import print_json, print_line, print_target
from omnigraph.errors import UsageError


def mutate(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Which query, when the file holds several.")
    ] = None,
    uri: Annotated[str | None, typer.Argument(help="The graph.")] = None,
    *,
    uri_option: Annotated[
        str | None, typer.Option("--uri", help="The graph, as an option.")
    ] = None,
    query: Annotated[Path | None, typer.Option(help="The query, a .gq file.")] = None,
    query_string: Annotated[
        str | None, typer.Option("--query-string", "-e", help="The query itself.")
    ] = None,
    params: Annotated[str | None, typer.Option(help="Its parameters, a JSON object.")] = None,
    params_file: Annotated[
        Path | None, typer.Option(help="A file that holds the parameters.")
    ] = None,
    branch: Annotated[str, typer.Option(help="The branch to change.")] = "main",
    if_commit: Annotated[
        str | None, typer.Option(help="Only if this commit is the head; exits with 4 if not.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run the inserts, updates or deletes of a query, as one commit or not at all."""
    from omnigraph.sdk.documents import mutation_document

    source = read_query(query, query_string)
    values = read_params(params, params_file)
    graph = open_graph(uri or uri_option, context.obj)
    print_target("mutate", graph.uri, context.obj)
    result = graph.mutate(
        source,
        name=name,
        params=values,
        branch=branch,
        actor=find_actor(context.obj),
        if_commit=if_commit,
    )
    if as_json:
        print_json(mutation_document(result))
        return
    counts = f"{result.affected_nodes} nodes, {result.affected_edges} edges"
    print_line(f"changed {result.branch} via {result.query_name}: {counts}")
    if result.actor is not None:
        print_line(f"actor_id: {result.actor}")


def read_query(path: Path | None, text: str | None) -> str | Path:
    if text is not None and path is None:
        return text
    if path is not None and text is None:
        return path
    raise UsageError("give the query once: --query FILE or -e TEXT")


def read_params(text: str | None, path: Path | None) -> dict[str, object] | None:
    if text is not None and path is not None:
        raise UsageError("give the parameters once: --params or --params-file")
    if path is not None:
        text = read_source(path).text
    if text is None:
        return None
    try:
        values = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the parameters are not JSON: {error}") from None
    if not isinstance(values, dict):
        raise UsageError("the parameters are a JSON object of names and values")
    return values
