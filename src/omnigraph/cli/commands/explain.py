"""`omnigraph explain`: show how a query would run."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.files import read_source
from omnigraph.cli.render import print_json, print_line
from omnigraph.cli.schemas import find_schema
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.explain import explain as explain_plan


def explain(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Which query, when the file holds several.")
    ] = None,
    *,
    query: Annotated[Path, typer.Option(help="The queries, a .gq file.")],
    schema: Annotated[
        Path | None, typer.Option(help="The schema, a .pg file; the graph's if there is none.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show the plan of a query: which tables it reads, how it walks, what it filters where."""
    catalog, _ = find_schema(schema, None, context.obj)
    compiled = compile_query(read_source(query), catalog, name=name)
    text = explain_plan(compiled.plan)
    if as_json:
        print_json({"query_name": compiled.name, "plan": text.splitlines()})
    else:
        print_line(text)
