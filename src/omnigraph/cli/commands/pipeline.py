"""`omnigraph pipeline`: load the inputs of a pipeline file, or print its plan."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import find_actor
from omnigraph.cli.commands.load import print_loaded, print_rejects
from omnigraph.cli.exits import Exit
from omnigraph.cli.globals import Globals
from omnigraph.cli.graphs import confirm_destructive, open_graph
from omnigraph.cli.options import (
    GraphUri,
    IdempotencyKey,
    Json,
    LoadBase,
    LoadEngineName,
    Message,
    Rejects,
    SparkMaster,
    SparkRemote,
    find_spark,
)
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_target
from omnigraph.errors import LoadRejected
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.engine.load.recipe_plan import PlannedInput, RecipePlan

app = typer.Typer(
    help="Load the inputs of a pipeline file as one commit.",
    no_args_is_help=True,
)

_File = Annotated[
    str, typer.Argument(metavar="FILE", help="The pipeline file, such as pipeline.yaml.")
]


@app.command()
def run(
    context: typer.Context,
    file: _File,
    uri: GraphUri = None,
    *,
    branch: Annotated[
        str | None, typer.Option(help="The branch to load onto, instead of the file's.")
    ] = None,
    base: LoadBase = None,
    max_errors: Annotated[int | None, typer.Option(min=1, help="How many faults to print.")] = None,
    rejects: Rejects = None,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    full: Annotated[
        bool, typer.Option("--full", help="Load inputs with `since: last` from their beginning.")
    ] = False,
    engine: LoadEngineName = None,
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Load all inputs of a pipeline file as one commit, or none.

    Small files are loaded in this process; expressions, filters and large files need Spark.
    """
    from omnigraph.pipeline.recipes.recipe import read_recipe
    from omnigraph.sdk.documents import load_document

    settings: Globals = context.obj
    graph = open_graph(uri, settings)
    if read_recipe(file).mode == "overwrite":
        confirm_destructive("overwrite", graph.uri, settings, interactive=not as_json)
    print_target("pipeline run", graph.uri, settings)
    try:
        with showing(settings, wanted=progress):
            result = graph.run_pipeline(
                file,
                branch=branch,
                from_branch=base,
                actor=find_actor(settings),
                max_errors=max_errors,
                rejects=rejects,
                idempotency_key=idempotency_key,
                message=message,
                full=full,
                engine=engine,
                spark=find_spark(spark_master, spark_remote),
            )
    except LoadRejected as rejected:
        if rejects is not None:
            print_rejects(rejects, rejected, is_whole=True)
        raise
    if as_json:
        print_json(load_document(result))
    else:
        print_loaded(result)


@app.command()
def plan(
    context: typer.Context,
    file: _File,
    uri: GraphUri = None,
    *,
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    as_json: Json = False,
) -> None:
    """Check a pipeline file against the schema of the graph, and print its plan; load nothing.

    Exits with 1 if an input does not fit.
    """
    from omnigraph.sdk.documents import plan_document

    settings: Globals = context.obj
    graph = open_graph(uri, settings, read_only=True)
    found = graph.plan_pipeline(file, spark=find_spark(spark_master, spark_remote))
    if as_json:
        print_json(plan_document(found))
    else:
        _print_plan(found)
    if not found.is_sound:
        raise typer.Exit(Exit.FAILED)


def _print_plan(found: "RecipePlan") -> None:
    base = "" if found.from_branch is None else f" (from {found.from_branch})"
    print_line(f"{found.mode.value} onto {found.branch}{base}, as one commit")
    for each in found.inputs:
        _print_input(each)
    print_line("nothing was loaded" if found.is_sound else "this cannot be loaded as it is")


def _print_input(planned: "PlannedInput") -> None:
    rows = "" if planned.row_count is None else f", {counted(planned.row_count, 'row')}"
    print_line(f"\n{planned.name} → {planned.table_key or 'whatever the records say'}{rows}")
    if planned.since is not None:
        told = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in planned.since.items())
        print_line(f"  since last: {told}")
    for file in planned.files:
        print_line(f"  reads {file}")
    if planned.where is not None:
        print_line(f"  where {planned.where}")
    for column in planned.columns:
        print_line(
            f"  {column.target}: {column.target_type} ← {column.source} ({column.source_type})"
        )
    if planned.unused:
        print_line(f"  leaves out {', '.join(planned.unused)}")
    for problem in planned.problems:
        print_line(f"  problem: {problem}")
