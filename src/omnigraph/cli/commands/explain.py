"""`omnigraph explain`: show how a query would run."""

from typing import Annotated

import typer

from omnigraph.cli.graphs import find_schema, open_graph
from omnigraph.cli.inputs import read_params, read_query
from omnigraph.cli.on_spark import open_on_spark
from omnigraph.cli.options import (
    GraphUri,
    Json,
    Params,
    QueryEngine,
    QueryEngineName,
    QueryFile,
    QueryName,
    QueryText,
    Schema,
    SparkMaster,
    SparkRemote,
)
from omnigraph.cli.render import print_json, print_line
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.explain import explain as explain_plan
from omnigraph.errors import UsageError
from omnigraph.lang.source import Source
from omnigraph.sdk.files import read_text


def explain(
    context: typer.Context,
    name: QueryName = None,
    uri: GraphUri = None,
    *,
    query: QueryFile = None,
    query_string: QueryText = None,
    schema: Schema = None,
    analyse: Annotated[
        bool, typer.Option("--analyze", help="Run the query, and print the work of each step.")
    ] = False,
    params: Params = None,
    branch: Annotated[str | None, typer.Option(help="The branch, with --analyze.")] = None,
    timeout: Annotated[
        float | None, typer.Option(help="The time limit in seconds, with --analyze.")
    ] = None,
    engine: QueryEngine = QueryEngineName.AUTO,
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    as_json: Json = False,
) -> None:
    """Show the plan of a query: its tables, its traversals, its filters.

    With --analyze, the query runs on the graph, and each step is printed with its rows, its time
    and its reads. With --engine spark, Spark's plan follows.
    """
    source = read_query(query, query_string)
    if engine is QueryEngineName.SPARK:
        if analyse or schema is not None or timeout is not None:
            raise UsageError("--engine spark takes a graph, and no --analyze, --schema, --timeout")
        on_spark = open_on_spark(
            open_graph(uri, context.obj, read_only=True), spark_master, spark_remote
        )
        shown = on_spark.explain(source, name=name, params=read_params(params, None), branch=branch)
        if as_json:
            print_json({"query_name": shown.query_name, "plan": shown.text.splitlines()})
        else:
            print_line(shown.text)
        return
    if analyse:
        if schema is not None:
            raise UsageError("a query is analysed on a graph, not on a schema")
        graph = open_graph(uri, context.obj, read_only=True)
        found = graph.explain(
            source,
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
    catalog, _ = find_schema(schema, uri, context.obj)
    text, file = read_text(source)
    compiled = compile_query(Source(file, text), catalog, name=name)
    plan = explain_plan(compiled.plan)
    if as_json:
        print_json({"query_name": compiled.name, "plan": plan.splitlines()})
    else:
        print_line(plan)
