"""`omnigraph up` and `omnigraph down`: the helper process that makes commands start at once."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.options import Json
from omnigraph.cli.render import print_json, print_line

if TYPE_CHECKING:
    from omnigraph.cli.warm.control import HelperStatus


def up(
    *,
    status: Annotated[
        bool, typer.Option("--status", help="Only print whether a helper runs.")
    ] = False,
    idle: Annotated[
        float | None,
        typer.Option(help="End after so many seconds without a command; 600 by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a helper process, so that the commands of this user start at once."""
    from omnigraph.cli.warm.control import find_helper, start_helper

    _print(find_helper() if status else start_helper(idle), as_json=as_json)


def down(*, as_json: Json = False) -> None:
    """End the helper process. Commands that run go on."""
    from omnigraph.cli.warm.control import stop_helper

    was_up = stop_helper()
    if as_json:
        print_json({"state": "down", "was_up": was_up})
    else:
        print_line("stopped" if was_up else "there was none")


def _print(helper: "HelperStatus | None", *, as_json: bool) -> None:
    if as_json:
        facts: dict[str, object] = {"state": "down", "pid": None}
        if helper is not None:
            facts = {
                "state": "up",
                "pid": helper.pid,
                "commands": helper.commands,
                "running": helper.running,
                "idle_s": helper.idle_s,
                "ends_after_s": helper.ends_after_s,
            }
        print_json(facts)
    elif helper is None:
        print_line("down")
    else:
        print_line(
            f"up: process {helper.pid}, commands started: {helper.commands}, "
            f"ends after {helper.ends_after_s} idle seconds"
        )
