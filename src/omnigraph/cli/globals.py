"""Global flags: every command takes them, at any position of the command line."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.errors import UsageError


class ErrorFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Globals:
    """The values of the global flags."""

    store: str | None = None
    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    profile: str | None = None
    actor: str | None = None
    yes: bool = False
    quiet: bool = False
    errors: ErrorFormat = ErrorFormat.TEXT


@dataclass(frozen=True, slots=True)
class GlobalFlag:
    flag: str
    field: str
    takes: str | None
    """The name of its value in the help text; None for a switch."""
    meaning: str | None
    """None for a flag that no command takes: it is parsed in order to be refused."""


FLAGS: tuple[GlobalFlag, ...] = (
    GlobalFlag("--store", "store", "URI", "open graph storage directly: a path, file:// or s3://"),
    GlobalFlag("--server", "server", "NAME|URL", "talk to a server over HTTP"),
    GlobalFlag("--cluster", "cluster", "DIR|URI|NAME", None),
    GlobalFlag("--graph", "graph", "ID", "the graph inside a server"),
    GlobalFlag("--profile", "profile", "NAME", "a named set of these, from the configuration"),
    GlobalFlag("--as", "actor", "ACTOR", "the actor of direct writes"),
    GlobalFlag("--yes", "yes", None, "answer destructive confirmations with yes"),
    GlobalFlag("--quiet", "quiet", None, "do not print the target of a write"),
    GlobalFlag("--errors", "errors", "text|json", "how errors are printed on stderr"),
)

HELP = "Flags for every command, before or after it:\n\n" + "\n\n".join(
    f"{each.flag}{f' {each.takes}' if each.takes else ''}: {each.meaning}"
    for each in FLAGS
    if each.meaning is not None
)

_BY_FLAG = {each.flag: each for each in FLAGS}


def split_globals(arguments: Sequence[str], own: Collection[str] = ()) -> tuple[Globals, list[str]]:
    """Separate the global flags from the arguments of the command.

    `own` are flags that have another meaning for the command. Raises UsageError for a flag without
    its value. Nothing after `--` is touched.
    """
    values: dict[str, Any] = {}
    rest: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            rest += [argument, *remaining]
            break
        name, equals, attached = argument.partition("=")
        flag = None if name in own else _BY_FLAG.get(name)
        if flag is None:
            rest.append(argument)
        elif flag.takes is None:
            if equals:
                raise UsageError(f"{name} takes no value")
            values[flag.field] = True
        else:
            value = attached if equals else next(remaining, None)
            if value is None:
                raise UsageError(f"{name} needs a value: {name} {flag.takes}")
            values[flag.field] = _error_format(value) if flag.field == "errors" else value
    return Globals(**values), rest


def _error_format(text: str) -> ErrorFormat:
    try:
        return ErrorFormat(text)
    except ValueError:
        raise UsageError(f"--errors is text or json, not '{text}'") from None
