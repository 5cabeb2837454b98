"""`omnigraph explain`: show how a query would run."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.graphs import find_schema, open_graph
from omnigraph.cli.inputs import read_params, read_source
from omnigraph.cli.options import Json, Params, QueryName, Schema
from omnigraph.cli.render import print_json, print_line
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.explain import explain as explain_plan
from omnigraph.errors import UsageError


def explain(
    context: typer.Context,
    name: QueryName = None,
    *,
    query: Annotated[Path, typer.Option(help="The queries, a .gq file.")],
    schema: Schema = None,
    analyse: Annotated[
        bool, typer.Option("--analyze", help="Run it, and tell what each step did.")
    ] = False,
    params: Params = None,
    branch: Annotated[str | None, typer.Option(help="The branch to run it on.")] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Stop after so many seconds; when it is run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the plan of a query: which tables it reads, how it walks, what it filters where.

    With --analyze a read is run on the graph, and every step is shown with its rows, its time and
    what it read.
    """
    if analyse:
        if schema is not None:
            raise UsageError("a query is analysed on a graph, not on a schema")
        graph = open_graph(None, context.obj, read_only=True)
        found = graph.explain(
            query,
            analyze=True,
            name=name,
            params=read_params(params, None),
            branch=branch,
            timeout=timeout,
        )
        if as_json:
            print_json(
                {
                    "query_name": found.query_name,
                    "plan": found.text.splitlines(),
                    "row_count": found.row_count,
                    "steps": list(found.steps),
                }
            )
        else:
            print_line(found.text)
        return
    if (params, branch, timeout) != (None, None, None):
        raise UsageError(
            "--params, --branch and --timeout are for running it; say --analyze, or drop them"
        )
    catalog, _ = find_schema(schema, None, context.obj)
    compiled = compile_query(read_source(query), catalog, name=name)
    text = explain_plan(compiled.plan)
    if as_json:
        print_json({"query_name": compiled.name, "plan": text.splitlines()})
    else:
        print_line(text)
