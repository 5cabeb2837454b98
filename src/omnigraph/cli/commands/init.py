"""`omnigraph init`: create a graph."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.address import find_actor
from omnigraph.cli.globals import Globals
from omnigraph.cli.options import Json
from omnigraph.cli.render import print_json, print_line


def init(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(help="Where: a path, file:// or s3://.")],
    *,
    schema: Annotated[Path, typer.Option(help="The schema, a .pg file.")],
    force: Annotated[
        bool, typer.Option("--force", help="Remove the files of an init that was killed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create an empty graph.

    Refuses if a graph exists there, with or without --force.
    """
    from omnigraph.sdk.embedded.graph import init as init_graph

    settings: Globals = context.obj
    graph = init_graph(uri, schema, force=force, actor=find_actor(settings))
    if as_json:
        print_json({"uri": graph.uri})
    else:
        print_line(f"initialized {graph.uri}")
