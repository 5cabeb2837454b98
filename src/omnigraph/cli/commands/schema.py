"""`omnigraph schema`: print a schema, plan a change of it, apply it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.migration.planning import MigrationPlan, plan_migration
from omnigraph.catalog.migration.steps import DropMode, describe_step
from omnigraph.cli.exits import Exit
from omnigraph.cli.globals import Globals
from omnigraph.cli.graphs import confirm_destructive, find_writer, open_client
from omnigraph.cli.inputs import read_source
from omnigraph.cli.options import (
    GraphUri,
    IdempotencyKey,
    Json,
    Message,
    Portable,
    SparkMaster,
    SparkRemote,
    find_spark,
)
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_note, print_target
from omnigraph.errors import UsageError
from omnigraph.errors.base import counted
from omnigraph.lang.source import Source

if TYPE_CHECKING:
    from omnigraph.engine.schema.plan import SchemaPlan

app = typer.Typer(help="Print schemas, plan and apply changes.", no_args_is_help=True)

_Schema = Annotated[Path, typer.Option(help="The new schema, a .pg file.")]
_DataLoss = Annotated[bool, typer.Option(help="Make drops hard: purge older versions too.")]
_Backfill = Annotated[
    list[str] | None,
    typer.Option(help="The value of a new property in old rows: 'Type.property=SQL'. Repeatable."),
]


@app.command()
def plan(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    schema: _Schema,
    from_: Annotated[
        Path | None,
        typer.Option("--from", help="The old schema, a .pg file, instead of a graph."),
    ] = None,
    allow_data_loss: _DataLoss = False,
    backfill: _Backfill = None,
    as_json: Json = False,
) -> None:
    """Show the steps from the active schema to another, and whether they are supported.

    For a graph, also their effect on its tables. Exits with 1 if a step is not supported.
    """
    if from_ is not None:
        if uri is not None:
            raise UsageError("name the schema you have once: a graph, or --from FILE")
        migration = _plan_files(
            from_, schema, _drop_mode(allow=allow_data_loss), _read_backfill(backfill)
        )
        if as_json:
            print_json({"uri": str(from_), **migration.to_json()})
        else:
            _print_steps(migration)
        _exit(migration)
        return
    from omnigraph.sdk.documents import schema_plan_document

    graph = open_client(uri, context.obj, read_only=True)
    found = graph.plan_schema(
        schema, allow_data_loss=allow_data_loss, backfill=_read_backfill(backfill)
    )
    if as_json:
        print_json(schema_plan_document(graph.uri, found))
    else:
        _print_steps(found.migration)
        _print_effects(found)
    _exit(found.migration)


@app.command()
def apply(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    schema: _Schema,
    allow_data_loss: _DataLoss = False,
    backfill: _Backfill = None,
    portable: Portable = False,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Apply another schema as one commit, or none."""
    from omnigraph.catalog.portability import describe_extensions, find_extensions
    from omnigraph.sdk.documents import schema_result_document
    from omnigraph.sdk.embedded.graph import LocalGraph

    settings: Globals = context.obj
    graph = open_client(uri, settings)
    if allow_data_loss:
        confirm_destructive("drop data of", graph.uri, settings, interactive=not as_json)
    desired = compile_schema(read_source(schema))
    fresh = find_extensions(desired)
    if fresh:
        before = compile_schema(Source("<schema>", graph.schema_source), in_force=True)
        fresh = () if find_extensions(before) else fresh
    print_target("schema apply", graph.uri, settings)
    actor, fill = find_writer(graph, settings), _read_backfill(backfill)
    if isinstance(graph, LocalGraph):
        with showing(settings, wanted=progress):
            result = graph.apply_schema(
                schema,
                allow_data_loss=allow_data_loss,
                backfill=fill,
                portable=portable,
                actor=actor,
                idempotency_key=idempotency_key,
                message=message,
                spark=find_spark(spark_master, spark_remote),
            )
    elif spark_master or spark_remote:
        raise UsageError("a server chooses its Spark")
    else:
        result = graph.apply_schema(
            schema,
            allow_data_loss=allow_data_loss,
            backfill=fill,
            portable=portable,
            actor=actor,
            idempotency_key=idempotency_key,
            message=message,
        )
    if as_json:
        told = {"extensions": [str(each) for each in fresh]} if fresh else {}
        print_json({**schema_result_document(graph.uri, result), **told})
        return
    _print_steps(result.plan.migration)
    _print_effects(result.plan)
    print_line(f"applied: {'yes' if result.applied else 'no'}")
    if fresh and result.applied:
        print_note(f"note: {describe_extensions(fresh)}")


@app.command()
def show(context: typer.Context, uri: GraphUri = None, *, as_json: Json = False) -> None:
    """Print the active schema, as it was written."""
    graph = open_client(uri, context.obj, read_only=True)
    source = graph.schema_source
    if as_json:
        print_json({"schema_source": source})
    else:
        print_line(source.rstrip("\n"))


app.command("get", hidden=True)(show)


def _drop_mode(*, allow: bool) -> DropMode:
    return DropMode.HARD if allow else DropMode.SOFT


def _plan_files(
    accepted: Path, desired: Path, drop_mode: DropMode, backfill: dict[str, str]
) -> MigrationPlan:
    return plan_migration(
        compile_schema(read_source(accepted), in_force=True),
        compile_schema(read_source(desired)),
        drop_mode=drop_mode,
        filled=backfill.keys(),
    )


def _read_backfill(given: list[str] | None) -> dict[str, str]:
    """Raises UsageError."""
    backfill = {}
    for each in given or ():
        entity, equals, expression = each.partition("=")
        if not equals or "." not in entity or not expression.strip():
            raise UsageError(f"a backfill is 'Type.property=expression', not '{each}'")
        backfill[entity.strip()] = expression.strip()
    return backfill


def _exit(migration: MigrationPlan) -> None:
    if not migration.supported:
        raise typer.Exit(Exit.FAILED)


def _print_steps(migration: MigrationPlan) -> None:
    print_line(f"supported: {'yes' if migration.supported else 'no'}")
    for step in migration.steps:
        print_line(f"- {describe_step(step)}")
    if not migration.steps:
        print_line("no schema changes")


def _print_effects(plan: "SchemaPlan") -> None:
    for each in plan.effects:
        print_line(f"  {each.key}: {each.effect.value}, {counted(each.row_count, 'row')}")
