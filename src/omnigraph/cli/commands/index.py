"""`omnigraph index`: build the indexes that the schema declares."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import find_actor
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.options import GraphUri, Json, Message
from omnigraph.cli.render import print_json, print_line, print_target

if TYPE_CHECKING:
    from omnigraph.engine.maintain.indexes import IndexReport


def index(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    branch: Annotated[str, typer.Option(help="The branch whose tables to index.")] = "main",
    queries: Annotated[
        Path | None,
        typer.Option(
            help="A .gq file: properties that it searches with `contains` get a text index."
        ),
    ] = None,
    message: Message = None,
    as_json: Json = False,
) -> None:
    """Build the indexes that are missing or do not cover all rows.

    An index that cannot be built yet, such as one over vectors of an empty column, is reported as
    pending. If there is nothing to build, there is no commit.
    """
    from omnigraph.sdk.upkeep_documents import indices_document

    graph = open_graph(uri, context.obj)
    print_target("index", graph.uri, context.obj)
    result = graph.ensure_indices(
        branch, actor=find_actor(context.obj), queries=queries, message=message
    )
    if as_json:
        print_json(indices_document(result))
        return
    for each in result.indexes:
        print_line(_line(each))
    if not result.commits:
        print_line("nothing to build")


def _line(report: "IndexReport") -> str:
    reason = "" if report.reason is None else f" ({report.reason})"
    return f"{report.state}: {report.table} {report.column} {report.kind}{reason}"
