"""`omnigraph repair`: drift, that is, table versions that another tool wrote."""

from typing import Annotated

import typer

from omnigraph.cli.address import find_actor
from omnigraph.cli.exits import Exit
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.options import GraphUri, Json
from omnigraph.cli.render import print_json, print_line, print_target


def repair(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Accept drift that is only maintenance.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Accept also drift that changed rows. Needs --confirm.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Discard all drift instead. Needs --confirm.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Find tables whose newest version is in no manifest, and accept or discard that version.

    Exits with 1 if a table was refused.
    """
    from omnigraph.sdk.upkeep_documents import repair_document

    graph = open_graph(uri, context.obj, read_only=not confirm)
    if confirm:
        print_target("repair", graph.uri, context.obj)
    result = graph.repair(
        confirm=confirm, force=force, discard=discard, actor=find_actor(context.obj)
    )
    if as_json:
        print_json(repair_document(graph.uri, result))
    else:
        for each in result.tables:
            versions = f"shown {each.shown}, newest {each.head}"
            outcome = f"{each.verdict.value}, {each.action.value} ({versions})"
            print_line(f"{each.key} on {each.branch}: {outcome}")
    if result.has_refusals:
        raise typer.Exit(Exit.FAILED)
