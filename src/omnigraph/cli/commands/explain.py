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
        bool, typer.Option("--analyze", help="Run the query, and print the work of each step.")
    ] = False,
    params: Params = None,
    branch: Annotated[str | None, typer.Option(help="The branch, with --analyze.")] = None,
    timeout: Annotated[
        float | None, typer.Option(help="The time limit in seconds, with --analyze.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the plan of a query: its tables, its traversals, its filters.

    With --analyze, the query runs on the graph, and each step is printed with its rows, its time
    and its reads.
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
