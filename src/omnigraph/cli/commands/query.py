"""`omnigraph query`: run a read, and print what it finds."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.commands.mutate import read_params, read_query
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.tables import Format, print_result


def query(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Which query, when the source holds several.")
    ] = None,
    *,
    uri: Annotated[str | None, typer.Option("--uri", help="The graph.")] = None,
    query: Annotated[Path | None, typer.Option(help="The query, a .gq file.")] = None,
    query_string: Annotated[
        str | None, typer.Option("--query-string", "-e", help="The query itself.")
    ] = None,
    params: Annotated[str | None, typer.Option(help="Its parameters, a JSON object.")] = None,
    params_file: Annotated[
        Path | None, typer.Option(help="A file that holds the parameters.")
    ] = None,
    branch: Annotated[str | None, typer.Option(help="The branch to read; main if none.")] = None,
    snapshot: Annotated[
        str | None, typer.Option(help="Read the graph as this commit left it.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Read the branch at this version of its manifest.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="Read the branch as it was, e.g. 2026-06-01T00:00:00Z.")
    ] = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="How to print the rows; a table if not said.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a read on one snapshot of the graph, and print its rows."""
    source = read_query(query, query_string)
    values = read_params(params, params_file)
    graph = open_graph(uri, context.obj, read_only=True)
    result = graph.query(
        source,
        name=name,
        params=values,
        branch=branch,
        snapshot=snapshot,
        version=version,
        at=at,
    )
    print_result(result, Format.JSON if as_json else format_ or Format.TABLE)
