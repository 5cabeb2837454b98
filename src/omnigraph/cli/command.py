"""What all commands have in common: the graph at any position, and the global flags in their help.

`app` parses the global flags before Typer sees the command line. They are declared to Typer as
well, so that help, suggestions and completion know them.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command

from omnigraph.cli.accepted_flags import find_accepted
from omnigraph.cli.globals import FLAGS, GlobalFlag, Globals
from omnigraph.cli.positionals import GraphLikeness, Slot, find_likeness, place_words
from omnigraph.errors import UsageError

GRAPH: Final = "uri"
"""The parameter of a command that takes the graph."""
PANEL: Final = "Global flags, before or after the command"


class GraphCommand(TyperCommand):
    """A command that takes the graph at any position among its words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        arguments = [each for each in self.params if isinstance(each, TyperArgument)]
        if not ctx.resilient_parsing and any(each.name == GRAPH for each in arguments):
            _place(ctx, arguments)
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *_find_globals(ctx)]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return super(GraphCommand, self._as_shown()).collect_usage_pieces(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super(GraphCommand, self._as_shown()).format_help(ctx, formatter)

    def _as_shown(self) -> "GraphCommand":
        """The same command with the graph as its first argument, for help and usage."""
        shown = copy.copy(self)
        shown.params = sorted(self.params, key=lambda each: each.name != GRAPH)
        return shown


class CommandGroup(TyperGroup):
    """A group of commands whose help holds the global flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *_find_globals(ctx)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Raises UsageError for a name that is no command."""
        known = self.list_commands(ctx)
        if args[0] in known or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        group = _find_words(ctx)
        if find_likeness(args[0]) is GraphLikeness.GRAPH:
            raise UsageError(f"'{args[0]}' is a graph; say the command first, then the graph")
        from omnigraph.lang.syntax import close_match

        rest = f"there are: {', '.join(known)}" if group else "omnigraph --help lists them"
        hint = close_match(args[0], frozenset(known)) or rest
        raise UsageError(f"there is no command '{' '.join([*group, args[0]])}'; {hint}")


def _place(ctx: Any, arguments: Sequence[TyperArgument]) -> None:
    """Put the words of the command line into the parameters that they are meant for."""
    own = [each for each in arguments if each.name != GRAPH]
    slots = [Slot(_spell(each), each.required, is_list=each.nargs != 1) for each in own]
    settings: Globals = ctx.obj
    words = list(_flatten(ctx.params[each.name] for each in arguments))
    placement = place_words(words, slots, is_named=settings.names_graph)
    ctx.params[GRAPH] = placement.graph
    if placement.graph is None:
        ctx.obj = replace(settings, words=placement.words)
    remaining = list(placement.words)
    for each in own:
        if each.nargs != 1:
            ctx.params[each.name], remaining = remaining, []
        else:
            ctx.params[each.name] = remaining.pop(0) if remaining else None


def _spell(argument: TyperArgument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _flatten(values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        elif value is not None:
            yield value


# --- global flags ---------------------------------------------------------------------------


def _find_globals(ctx: Any) -> list[Any]:
    """The global flags that the command of a context takes."""
    accepted = find_accepted(_find_words(ctx))
    return [
        _declare(each)
        for each in FLAGS
        if each.meaning is not None and (accepted is None or each.field in accepted)
    ]


def _find_words(ctx: Any) -> list[str]:
    """The name of the command: `branch`, `create`."""
    return [] if ctx.parent is None else [*_find_words(ctx.parent), ctx.info_name]


@cache
def _declare(flag: GlobalFlag) -> Any:
    """The flag as Typer knows options. Its value never arrives: `app` has taken it."""
    option = typer.Option(
        None if flag.takes else False,
        flag.flag,
        metavar=flag.takes,
        help=flag.meaning,
        expose_value=False,
        rich_help_panel=PANEL,
        show_default=False,
    )

    def take(value: Any = option) -> None:
        """Do nothing: only the declaration of the parameter is used."""

    take.__annotations__["value"] = str | None if flag.takes else bool
    shell = typer.Typer(add_completion=False)
    shell.command()(take)
    declared = get_command(shell).params[0]
    declared.name = f"global_{flag.field}"
    return declared
