"""Commands that are imported when they run.

Importing all commands takes longer than most commands run. Only the list of all commands, as
`--help` prints it, imports all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.main import get_group

from omnigraph.cli.command import CommandGroup, GraphCommand


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: a function or a group of commands in a module of `cli.commands`."""

    module: str
    attribute: str
    is_hidden: bool = False


class LazyCommands(CommandGroup):
    """A group that knows the names of its commands, and imports a command by name."""

    entries: ClassVar[Mapping[str, Entry]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.entries, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.entries and cmd_name not in self.commands:
            self.commands[cmd_name] = load_command(cmd_name, self.entries[cmd_name])
        return super().get_command(ctx, cmd_name)


def load_command(name: str, entry: Entry) -> Any:
    """The command as Typer would have built it from an ordinary registration."""
    found: Any = getattr(import_module(f"omnigraph.cli.commands.{entry.module}"), entry.attribute)
    shell = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        found.info.cls = CommandGroup
        for each in found.registered_commands:
            each.cls = GraphCommand
        shell.add_typer(found, name=name, hidden=entry.is_hidden)
    else:
        shell.command(name, cls=GraphCommand, hidden=entry.is_hidden)(found)
    return get_group(shell).commands[name]
