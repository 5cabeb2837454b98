"""Every command of the command line, as Typer knows it."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.app import app
from omnigraph.cli.globals import Globals


def all_commands() -> Iterator[tuple[str, Any, Any]]:
    """Every command, by its name, with the context of its group."""
    root: Any = get_command(app)
    top = typer.Context(root, info_name="omnigraph", obj=Globals())
    for name in root.list_commands(top):
        found = root.get_command(top, name)
        if not isinstance(found, TyperGroup):
            yield name, found, top
            continue
        inner = typer.Context(found, info_name=name, parent=top)
        for each in found.list_commands(inner):
            yield f"{name} {each}", found.get_command(inner, each), inner
