"""The command `omnigraph`."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import omnigraph
from omnigraph.cli.commands import (
    branch,
    changes,
    cleanup,
    commit,
    diff,
    doctor,
    embed,
    entity,
    explain,
    export,
    index,
    init,
    lint,
    load,
    login,
    mutate,
    optimize,
    pipeline,
    policy,
    query,
    recovery,
    repair,
    schema,
    serve,
    snapshot,
    spark,
)
from omnigraph.cli.exits import Exit, exit_for
from omnigraph.cli.globals import HELP, ErrorFormat, Globals, split_globals
from omnigraph.cli.graphs import close_connections
from omnigraph.cli.render import print_error, print_line, print_note
from omnigraph.errors import OmnigraphError
from omnigraph.storage.lean import LEAN

app = typer.Typer(
    name="omnigraph",
    help="A typed property graph on Lance, with Git-style branches and a Spark pipeline.",
    epilog=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("init")(init.init)
app.command("load")(load.load)
app.command("ingest", hidden=True)(load.ingest)
app.add_typer(pipeline.app, name="pipeline")
app.command("export")(export.export)
app.command("query")(query.query)
app.command("entity")(entity.entity)
app.command("mutate")(mutate.mutate)
app.command("snapshot")(snapshot.snapshot)
app.command("index")(index.index)
app.command("embed")(embed.embed)
app.add_typer(branch.app, name="branch")
app.add_typer(commit.app, name="commit")
app.command("diff")(diff.diff)
app.add_typer(changes.app, name="changes")
app.add_typer(recovery.app, name="recovery")
app.add_typer(spark.app, name="spark")
app.command("lint")(lint.lint)
app.command("explain")(explain.explain)
app.add_typer(schema.app, name="schema")
app.command("optimize")(optimize.optimize)
app.command("cleanup")(cleanup.cleanup)
app.command("repair")(repair.repair)
app.command("doctor")(doctor.doctor)
app.command("serve")(serve.serve)
app.command("alias")(query.alias)
app.command("login")(login.login)
app.command("logout")(login.logout)
app.add_typer(login.profiles, name="profile")
app.add_typer(login.graphs, name="graphs")
app.add_typer(policy.app, name="policy")

DEPRECATED: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("query", "lint"), ("lint",)),
    (("query", "check"), ("lint",)),
    (("check",), ("lint",)),
    (("change",), ("mutate",)),
    (("read",), ("query",)),
)
"""Old spellings of commands, and what they are called now."""


def _print_version(*, wanted: bool) -> None:
    if wanted:
        print_line(f"omnigraph {omnigraph.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-v", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(wanted=True)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    error_format = ErrorFormat.TEXT
    try:
        # To whoever serves graphs, --graph is another flag: it names each of them and its place.
        is_serve = list(arguments[:1]) == ["serve"]
        settings, rest = (Globals(), list(arguments)) if is_serve else split_globals(arguments)
        error_format = settings.errors
        app(_modernise(rest), prog_name="omnigraph", obj=settings)
    except OmnigraphError as error:
        print_error(error, error_format)
        return exit_for(error)
    except KeyboardInterrupt:
        print_note("interrupted")
        return Exit.INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else Exit.OK
    finally:
        close_connections()
    return Exit.OK


def _modernise(arguments: list[str]) -> list[str]:
    for old, new in DEPRECATED:
        if tuple(arguments[: len(old)]) == old:
            print_note(f"warning: '{' '.join(old)}' is now '{' '.join(new)}'")
            return [*new, *arguments[len(old) :]]
    return arguments


def main() -> None:
    os.environ.setdefault(LEAN, "1")
    sys.exit(run(sys.argv[1:]))
