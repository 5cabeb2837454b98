"""`omnigraph doctor`: check the invariants of a graph."""

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
        bool, typer.Option("--deep", help="Read every row: both ends of each edge must exist.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the invariants of a graph, and print a remedy for each finding.

    Changes no data; only files of writes that were rolled back, and of versions that a power cut
    left incomplete, are removed, as any writer does. Exits with 1 if there are findings.
    """
    from omnigraph.sdk.upkeep_documents import findings_document

    graph = open_graph(uri, context.obj, read_only=True)
    findings = graph.doctor(deep=deep)
    if any(each.is_over for each in findings):
        # A user without write access only reports it.
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
