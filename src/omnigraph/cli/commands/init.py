"""`omnigraph init`: create a graph."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.address import find_actor, parse_storage_options
from omnigraph.cli.globals import Globals
from omnigraph.cli.options import Json, Message, Portable
from omnigraph.cli.render import print_json, print_line, print_note


def init(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(metavar="GRAPH", help="Where: a path, file:// or s3://.")],
    *,
    schema: Annotated[Path, typer.Option(help="The schema, a .pg file.")],
    force: Annotated[
        bool, typer.Option("--force", help="Remove the files of an init that was killed.")
    ] = False,
    portable: Portable = False,
    message: Message = None,
    as_json: Json = False,
) -> None:
    """Create an empty graph.

    Refuses if a graph exists there, with or without --force.
    """
    from omnigraph.catalog.portability import describe_extensions, find_extensions
    from omnigraph.sdk.embedded.graph import init as init_graph

    settings: Globals = context.obj
    graph = init_graph(
        uri,
        schema,
        force=force,
        portable=portable,
        actor=find_actor(settings),
        message=message,
        storage_options=parse_storage_options(settings),
    )
    extensions = find_extensions(graph.catalog)
    if as_json:
        told = {"extensions": [str(each) for each in extensions]} if extensions else {}
        print_json({"uri": graph.uri, **told})
    else:
        print_line(f"initialized {graph.uri}")
        if extensions:
            print_note(f"note: {describe_extensions(extensions)}")
