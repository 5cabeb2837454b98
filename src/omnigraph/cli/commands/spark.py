"""`omnigraph spark`: a Spark Connect server on this machine, so that loads start fast."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.options import Json
from omnigraph.cli.render import print_json, print_line
from omnigraph.extras import require

if TYPE_CHECKING:
    from omnigraph.pipeline.spark.connect import ConnectServer

app = typer.Typer(
    help="Start, stop and inspect a Spark Connect server on this machine.", no_args_is_help=True
)


@app.callback()
def check_installed() -> None:
    """Raises ExtraMissing."""
    require("pyspark", extra="spark")


@app.command()
def up(
    *,
    port: Annotated[int, typer.Option(help="The port, on this machine only.")] = 15002,
    master: Annotated[
        str, typer.Option("--spark-master", help="The Spark master of the server.")
    ] = "local[*,3]",
    as_json: Json = False,
) -> None:
    """Start the server and wait until it answers. A running server is left alone."""
    from omnigraph.pipeline.spark.connect import start_server

    _print(start_server(port, master=master), as_json=as_json)


@app.command()
def down(*, as_json: Json = False) -> None:
    """Stop the server. Loads that use it fail and change nothing."""
    from omnigraph.pipeline.spark.connect import stop_server

    was_up = stop_server()
    if as_json:
        print_json({"state": "down", "was_up": was_up})
    else:
        print_line("stopped" if was_up else "there was none")


@app.command()
def status(*, as_json: Json = False) -> None:
    """Print whether the server runs, and its address."""
    from omnigraph.pipeline.spark.connect import find_server

    _print(find_server(), as_json=as_json)


def _print(server: "ConnectServer | None", *, as_json: bool) -> None:
    if as_json:
        facts: dict[str, object] = {"state": "down", "address": None, "pid": None, "log": None}
        if server is not None:
            facts = {
                "state": "up",
                "address": server.address,
                "pid": server.owner.pid,
                "log": str(server.log),
            }
        print_json(facts)
    elif server is None:
        print_line("down")
    else:
        print_line(f"up at {server.address}, process {server.owner.pid}, log {server.log}")
        print_line(f"use it: omnigraph load … --spark-remote {server.address}")
