"""`omnigraph lint`: check a file of queries against a schema."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.catalog.build import compile_schema
from omnigraph.cli.exits import Exit
from omnigraph.cli.files import read_source
from omnigraph.cli.render import print_json, print_line
from omnigraph.compiler import lint as linter


def lint(
    *,
    schema: Annotated[Path, typer.Option(help="The schema, a .pg file.")],
    query: Annotated[Path, typer.Option(help="The queries, a .gq file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check every query of a file against a schema, without running any.

    Exits with 1 when there is an error among the findings.
    """
    catalog = compile_schema(read_source(schema))
    report = linter.lint(read_source(query), catalog, schema_source=linter.SchemaFile(str(schema)))
    if as_json:
        print_json(report.to_json())
    else:
        for line in report.lines():
            print_line(line)
    if report.errors:
        raise typer.Exit(Exit.FAILED)
