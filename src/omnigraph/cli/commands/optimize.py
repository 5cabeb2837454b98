"""`omnigraph optimize`: put small fragments together, bring indexes up to date."""

from typing import Annotated

import typer

from omnigraph.cli.address import find_actor
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_target
from omnigraph.cli.sparks import SparkMaster, SparkRemote, find_spark


def optimize(
    context: typer.Context,
    uri: Annotated[str | None, typer.Argument(help="The graph.")] = None,
    *,
    branch: Annotated[str, typer.Option(help="The branch whose tables are tidied up.")] = "main",
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    progress: ShowProgress = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make reads and writes as cheap as they can be. Removes nothing; every commit stays."""
    from omnigraph.sdk.documents import optimize_document

    graph = open_graph(uri, context.obj)
    print_target("optimize", graph.uri, context.obj)
    spark = find_spark(spark_master, spark_remote)
    with showing(context.obj, wanted=progress):
        result = graph.optimize(branch, actor=find_actor(context.obj), spark=spark)
    if as_json:
        print_json(optimize_document(graph.uri, result))
        return
    for each in result.tables:
        state = each.skipped or ("optimized" if each.is_committed else "nothing to do")
        counts = f"-{each.fragments_removed} +{each.fragments_added} fragments"
        print_line(f"{each.key}: {state}, {counts}")
        for index in each.pending:
            print_line(f"  {index.column}: index pending, {index.reason}")
