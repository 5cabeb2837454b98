"""`omnigraph optimize`: compact small fragments, update indexes."""

from typing import Annotated

import typer

from omnigraph.cli.graphs import find_writer, open_client
from omnigraph.cli.options import GraphUri, Json, Message, SparkMaster, SparkRemote, find_spark
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_target
from omnigraph.errors import UsageError


def optimize(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    branch: Annotated[str, typer.Option(help="The branch whose tables are optimized.")] = "main",
    message: Message = None,
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Compact small fragments and update indexes. Removes nothing; every commit stays."""
    from omnigraph.sdk.embedded.graph import LocalGraph
    from omnigraph.sdk.upkeep_documents import optimize_document

    graph = open_client(uri, context.obj)
    actor = find_writer(graph, context.obj)
    print_target("optimize", graph.uri, context.obj)
    with showing(context.obj, wanted=progress):
        if isinstance(graph, LocalGraph):
            spark = find_spark(spark_master, spark_remote)
            result = graph.optimize(branch, actor=actor, message=message, spark=spark)
        elif spark_master or spark_remote:
            raise UsageError("a server chooses its Spark; leave out --spark-master, --spark-remote")
        else:
            result = graph.optimize(branch, actor=actor, message=message)
    if as_json:
        print_json(optimize_document(graph.uri, result))
        return
    for each in result.tables:
        state = each.skipped or ("optimized" if each.is_committed else "nothing to do")
        counts = f"-{each.fragments_removed} +{each.fragments_added} fragments"
        print_line(f"{each.key}: {state}, {counts}")
        for index in each.pending:
            print_line(f"  {index.column}: index pending, {index.reason}")
