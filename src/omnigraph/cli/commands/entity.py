"""`omnigraph entity`: one node or edge, now or in the past."""

from typing import Annotated

import typer

from omnigraph.cli.exits import Exit
from omnigraph.cli.graphs import open_client
from omnigraph.cli.options import At, Branch, GraphUri, Json, Snapshot, Version
from omnigraph.cli.render import print_json, print_line
from omnigraph.cli.tables import print_entity


def entity(
    context: typer.Context,
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="Its node or edge type.")],
    identity: Annotated[str, typer.Argument(metavar="ID", help="Its id.")],
    uri: GraphUri = None,
    *,
    branch: Branch = None,
    snapshot: Snapshot = None,
    version: Version = None,
    at: At = None,
    as_json: Json = False,
) -> None:
    """Show one node or edge by its id. Exits with 1 if there is none."""
    graph = open_client(uri, context.obj, read_only=True)
    found = graph.look_up(
        type_name, identity, branch=branch, snapshot=snapshot, version=version, at=at
    )
    rows = found.json_rows()
    if as_json:
        print_json({"type": type_name, "id": identity, "entity": rows[0] if rows else None})
    elif rows:
        print_entity(rows[0])
    else:
        print_line(f"no {type_name} with id {identity}")
    if not rows:
        raise typer.Exit(Exit.FAILED)
