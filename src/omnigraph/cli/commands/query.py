"""`omnigraph query`: run a query that reads, and print its rows."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import ServerAddress, find_address
from omnigraph.cli.config import Alias, read_config
from omnigraph.cli.globals import Globals
from omnigraph.cli.graphs import connect, open_client
from omnigraph.cli.inputs import read_params, read_query
from omnigraph.cli.on_spark import open_on_spark, write_rows
from omnigraph.cli.options import (
    At,
    Branch,
    GraphUri,
    Json,
    Params,
    ParamsFile,
    QueryEngine,
    QueryEngineName,
    QueryFile,
    QueryName,
    QueryText,
    Snapshot,
    SparkMaster,
    SparkRemote,
    Version,
)
from omnigraph.cli.tables import RowFormat, print_result
from omnigraph.errors import Misaddressed, UsageError
from omnigraph.errors.base import counted
from omnigraph.jsontext import read_json

if TYPE_CHECKING:
    from omnigraph.engine.query.result import Result
    from omnigraph.sdk.client import GraphClient


def query(
    context: typer.Context,
    name: QueryName = None,
    uri: GraphUri = None,
    *,
    query: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Branch = None,
    snapshot: Snapshot = None,
    version: Version = None,
    at: At = None,
    timeout: Annotated[
        float | None, typer.Option(help="The time limit in seconds; a server may have a lower one.")
    ] = None,
    format_: Annotated[
        RowFormat | None,
        typer.Option(
            "--format", help="The format of the rows; by default as configured, or a table."
        ),
    ] = None,
    engine: QueryEngine = QueryEngineName.AUTO,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="With --engine spark: a new folder, .parquet, .csv or .json."
        ),
    ] = None,
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    as_json: Json = False,
) -> None:
    """Run a query on one snapshot of the graph, and print its rows.

    With --engine spark, workers run it and write the rows to --output.
    """
    values = read_params(params, params_file)
    is_stored = query is None and query_string is None
    source = None if is_stored else read_query(query, query_string)
    graph = open_client(uri, context.obj, read_only=True)
    if engine is QueryEngineName.SPARK:
        if source is None or output is None or timeout is not None:
            raise UsageError(
                "--engine spark needs the query, --query FILE or -e TEXT, and --output; "
                "it takes no --timeout"
            )
        data = open_on_spark(graph, spark_master, spark_remote).query(
            source,
            name=name,
            params=values,
            branch=branch,
            commit=snapshot,
            version=version,
            at=at,
        )
        write_rows(data, output, as_json=as_json)
        return
    if (output, spark_master, spark_remote) != (None, None, None):
        raise UsageError("--output and the Spark options go with --engine spark")
    if source is None:
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
            source,
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
) -> "Result":
    """Run a stored query of a server. Raises UsageError."""
    from omnigraph.sdk.remote.graph import RemoteGraph

    if name is None or not isinstance(graph, RemoteGraph):
        raise UsageError("give the query: --query FILE or -e TEXT; or name one of a --server")
    return graph.run_stored(
        name, params=params, branch=branch, commit=commit, version=version, at=at, timeout=timeout
    )


def alias(
    name: Annotated[str, typer.Argument(help="The alias, from the configuration.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The values of its arguments.")
    ] = None,
    *,
    params: Params = None,
    params_file: ParamsFile = None,
    format_: Annotated[
        RowFormat | None, typer.Option("--format", help="The format of the rows.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a stored query by an alias of the configuration."""
    config = read_config()
    found = config.aliases.get(name)
    if found is None:
        known = ", ".join(sorted(config.aliases)) or "none"
        raise Misaddressed(f"there is no alias '{name}'; known: {known}")
    values = {**found.params, **_read_arguments(found, arguments or [])}
    values |= read_params(params, params_file) or {}
    address = find_address(None, Globals(server=found.server, graph=found.graph), config)
    assert isinstance(address, ServerAddress), "an alias names a server"
    result = connect(address).run_stored(found.query, params=values)
    chosen = format_ or found.format or config.format or RowFormat.TABLE
    print_result(result, RowFormat.JSON if as_json else chosen, config.layout)


def _read_arguments(found: Alias, given: list[str]) -> dict[str, object]:
    """Each as JSON if it is JSON, else as text. Raises UsageError for too many."""
    if len(given) > len(found.args):
        takes = counted(len(found.args), "argument")
        raise UsageError(f"the alias takes {takes}, not {len(given)}")
    return {key: _value(text) for key, text in zip(found.args, given, strict=False)}


def _value(text: str) -> object:
    try:
        return read_json(text)
    except ValueError:
        return text
