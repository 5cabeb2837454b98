"""`omnigraph lint`: check a file of queries against a schema."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.exits import Exit
from omnigraph.cli.graphs import find_schema
from omnigraph.cli.inputs import read_source
from omnigraph.cli.options import Json, Schema
from omnigraph.cli.render import print_json, print_line
from omnigraph.compiler import lint as linter


def lint(
    context: typer.Context,
    uri: Annotated[
        str | None,
        typer.Argument(metavar="GRAPH", help="The graph whose schema counts, without --schema."),
    ] = None,
    *,
    query: Annotated[Path, typer.Option(help="The queries, a .gq file.")],
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Check every query of a file against a schema, without running any.

    The schema is a file, or that of a graph. Exits with 1 if there is an error among the findings.
    """
    catalog, found_in = find_schema(schema, uri, context.obj)
    report = linter.lint(read_source(query), catalog, schema_source=found_in)
    if as_json:
        print_json(report.to_json())
    else:
        for line in report.lines():
            print_line(line)
    if report.errors:
        raise typer.Exit(Exit.FAILED)
