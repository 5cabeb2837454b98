"""`omnigraph query`: run a read, and print what it finds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import ServerAddress, find_address
from omnigraph.cli.commands.mutate import read_params, read_query
from omnigraph.cli.config import Alias, read_config
from omnigraph.cli.globals import Globals
from omnigraph.cli.graphs import connect, open_client
from omnigraph.cli.tables import RowFormat, print_result
from omnigraph.errors import Misaddressed, UsageError
from omnigraph.jsontext import read_json

if TYPE_CHECKING:
    from omnigraph.sdk.client import GraphClient, ReadResult


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
    timeout: Annotated[
        float | None, typer.Option(help="Stop after so many seconds; a server may stop earlier.")
    ] = None,
    format_: Annotated[
        RowFormat | None,
        typer.Option("--format", help="How to print the rows; as configured, or a table."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a read on one snapshot of the graph, and print its rows."""
    values = read_params(params, params_file)
    graph = open_client(uri, context.obj, read_only=True)
    if query is None and query_string is None:
        result = run_stored(
            graph,
            name,
            values,
            branch=branch,
            commit=snapshot,
            version=version,
            at=at,
            timeout=timeout,
        )
    else:
        result = graph.query(
            read_query(query, query_string),
            name=name,
            params=values,
            branch=branch,
            snapshot=snapshot,
            version=version,
            at=at,
            timeout=timeout,
        )
    config = read_config()
    chosen = format_ or config.format or RowFormat.TABLE
    print_result(result, RowFormat.JSON if as_json else chosen, config.layout)


def run_stored(
    graph: "GraphClient",
    name: str | None,
    params: dict[str, object] | None,
    *,
    branch: str | None = None,
    commit: str | None = None,
    version: int | None = None,
    at: str | None = None,
    timeout: float | None = None,
) -> "ReadResult":
    """A query that the server knows by name. Raises UsageError."""
    from omnigraph.sdk.remote import RemoteGraph

    if name is None or not isinstance(graph, RemoteGraph):
        raise UsageError("give the query: --query FILE or -e TEXT; or name one of a --server")
    return graph.run_stored(
        name, params=params, branch=branch, commit=commit, version=version, at=at, timeout=timeout
    )


def alias(
    name: Annotated[str, typer.Argument(help="The alias, from the configuration.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Values of its arguments.")] = None,
    *,
    params: Annotated[str | None, typer.Option(help="Parameters, a JSON object.")] = None,
    params_file: Annotated[
        Path | None, typer.Option(help="A file that holds the parameters.")
    ] = None,
    format_: Annotated[
        RowFormat | None, typer.Option("--format", help="How to print the rows.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a stored query under a name of your own."""
    config = read_config()
    found = config.aliases.get(name)
    if found is None:
        known = ", ".join(sorted(config.aliases)) or "none"
        raise Misaddressed(f"there is no alias '{name}'; known: {known}")
    values = {**found.params, **_read_arguments(found, arguments or [])}
    values |= read_params(params, params_file) or {}
    address = find_address(None, Globals(server=found.server, graph=found.graph), config)
    assert isinstance(address, ServerAddress), "it was given as one"
    result = connect(address).run_stored(found.query, params=values)
    chosen = format_ or found.format or config.format or RowFormat.TABLE
    print_result(result, RowFormat.JSON if as_json else chosen, config.layout)


def _read_arguments(found: Alias, given: list[str]) -> dict[str, object]:
    """Each as JSON if it is JSON, else as text. Raises UsageError for too many."""
    if len(given) > len(found.args):
        raise UsageError(f"the alias takes {len(found.args)} arguments, not {len(given)}")
    return {key: _value(text) for key, text in zip(found.args, given, strict=False)}


def _value(text: str) -> object:
    try:
        return read_json(text)
    except ValueError:
        return text
