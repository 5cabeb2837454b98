"""`omnigraph schema`: look at schemas and at what changing them would mean."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.migration import MigrationPlan, plan_migration
from omnigraph.catalog.steps import DropMode, describe_step
from omnigraph.cli.exits import Exit
from omnigraph.cli.files import read_source
from omnigraph.cli.render import print_json, print_line

app = typer.Typer(help="Look at schemas and plan changes to them.", no_args_is_help=True)


@app.command()
def plan(
    *,
    schema: Annotated[Path, typer.Option(help="The schema you want, a .pg file.")],
    from_: Annotated[Path, typer.Option("--from", help="The schema you have, a .pg file.")],
    allow_data_loss: Annotated[
        bool, typer.Option(help="Plan drops as hard: older versions are purged too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show the steps from one schema to another, and whether they can be taken.

    Exits with 1 when a step is unsupported.
    """
    accepted = compile_schema(read_source(from_))
    desired = compile_schema(read_source(schema))
    drop_mode = DropMode.HARD if allow_data_loss else DropMode.SOFT
    migration = plan_migration(accepted, desired, drop_mode=drop_mode)
    if as_json:
        print_json({"uri": str(from_), **migration.to_json()})
    else:
        _print_plan(migration)
    if not migration.supported:
        raise typer.Exit(Exit.FAILED)


def _print_plan(migration: MigrationPlan) -> None:
    print_line(f"supported: {'yes' if migration.supported else 'no'}")
    for step in migration.steps:
        print_line(f"- {describe_step(step)}")
    if not migration.steps:
        print_line("no schema changes")
