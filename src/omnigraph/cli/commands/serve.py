"""`omnigraph serve`, and `omnigraph-server`: graphs over HTTP."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.address import parse_storage_options
from omnigraph.errors import UsageError


def serve(
    context: typer.Context,
    uri: Annotated[
        str | None,
        typer.Argument(metavar="GRAPH", help="A graph to serve; its id comes from the file name."),
    ] = None,
    *,
    graph: Annotated[
        list[str] | None,
        typer.Option(help="ID=URI: a graph to serve. Repeatable."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A server.yaml.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="ID=FILE: the policy of a graph.")
    ] = None,
    queries: Annotated[
        list[str] | None, typer.Option(help="ID=DIR: the stored queries of a graph.")
    ] = None,
    bind: Annotated[
        str | None, typer.Option(help="ADDRESS:PORT; 127.0.0.1:8080 by default.")
    ] = None,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Serve every caller; only without tokens.")
    ] = False,
    cluster: Annotated[str | None, typer.Option("--cluster", hidden=True)] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many processes answer requests.")] = 1,
    require_all_graphs: Annotated[
        bool,
        typer.Option("--require-all-graphs", help="Refuse to start if a graph cannot be opened."),
    ] = False,
    metrics_name_graphs: Annotated[
        bool,
        typer.Option("--metrics-name-graphs", help="Show graph names to every caller of /metrics."),
    ] = False,
) -> None:
    """Serve graphs over HTTP until SIGTERM or SIGINT.

    OMNIGRAPH_SERVER_BEARER_TOKENS_FILE names the file of tokens. SIGHUP reads tokens, policies,
    stored queries and graphs again.
    """
    if cluster is not None:
        raise UsageError("graphs come from --graph ID=URI or --config server.yaml, not a cluster")
    from omnigraph.server.process.run import serve as run_server
    from omnigraph.server.runtime.settings import Flags, make_graph_id

    graphs = () if uri is None else (f"{make_graph_id(uri)}={uri}",)
    run_server(
        Flags(
            config=config,
            graphs=(*graphs, *(graph or ())),
            policies=tuple(policy or ()),
            queries=tuple(queries or ()),
            bind=bind,
            unauthenticated=unauthenticated,
            require_all_graphs=require_all_graphs,
            metrics_name_graphs=metrics_name_graphs,
            storage_options=parse_storage_options(context.obj),
        ),
        workers=workers,
    )


def main() -> None:
    """The command `omnigraph-server`."""
    from omnigraph.cli.app import run

    sys.exit(run(["serve", *sys.argv[1:]]))
