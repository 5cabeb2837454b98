"""`omnigraph doctor`: is everything as it must be?"""

from contextlib import suppress
from typing import Annotated

import typer

from omnigraph.cli.exits import Exit
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.options import GraphUri, Json
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors import OmnigraphError


def doctor(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every row: do edges end at nodes that exist?")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check everything that must hold of a graph, and change nothing of it.

    But for bytes of writes that were undone, and of versions a power cut tore: they are removed, as
    by everybody who may write. Exits with 1 when something is wrong, and says what to do about it.
    """
    from omnigraph.sdk.documents import findings_document

    graph = open_graph(uri, context.obj, read_only=True)
    findings = graph.doctor(deep=deep)
    if any(each.is_over for each in findings):
        # Somebody who may not write only reports it.
        with suppress(OmnigraphError):
            findings = open_graph(uri, context.obj).doctor(deep=deep)
    if as_json:
        print_json(findings_document(graph.uri, findings))
    else:
        for each in findings:
            print_line(f"{each}\n  remedy: {each.remedy}")
        if not findings:
            print_line("all is well")
    if findings:
        raise typer.Exit(Exit.FAILED)
