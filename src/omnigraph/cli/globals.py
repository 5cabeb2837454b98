"""Global flags: every command takes them, at any position of the command line."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omnigraph.cli.terminal import ColorChoice
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
    color: ColorChoice = ColorChoice.AUTO
    no_pager: bool = False
    uri: str | None = None
    storage_options: tuple[str, ...] | None = field(default=None, repr=False)
    """As given, NAME=VALUE; values may be secrets."""
    words: tuple[str, ...] = ()
    """The words of the command, if none of them is a graph: an error names them."""

    @property
    def names_graph(self) -> bool:
        """Whether a flag names the graph, so that no word has to."""
        given = (self.store, self.uri, self.server, self.cluster, self.profile)
        return any(each is not None for each in given)


@dataclass(frozen=True, slots=True)
class GlobalFlag:
    flag: str
    field: str
    takes: str | None
    """The name of its value in the help text; None for a switch."""
    meaning: str | None
    """None for a flag that help does not show: an old spelling, or one that is always refused."""
    repeats: bool = False


FLAGS: tuple[GlobalFlag, ...] = (
    GlobalFlag("--store", "store", "URI", "open graph storage directly: a path, file:// or s3://"),
    GlobalFlag("--uri", "uri", "URI", None),
    GlobalFlag("--server", "server", "NAME|URL", "talk to a server over HTTP"),
    GlobalFlag("--cluster", "cluster", "DIR|URI|NAME", None),
    GlobalFlag("--graph", "graph", "ID", "the graph inside a server"),
    GlobalFlag("--profile", "profile", "NAME", "a named set of these, from the configuration"),
    GlobalFlag(
        "--storage-option",
        "storage_options",
        "NAME=VALUE",
        "how to reach a bucket, such as region=eu-west-1; repeatable",
        repeats=True,
    ),
    GlobalFlag("--as", "actor", "ACTOR", "the actor of direct writes"),
    GlobalFlag("--yes", "yes", None, "answer destructive confirmations with yes"),
    GlobalFlag("--quiet", "quiet", None, "do not print the target of a write"),
    GlobalFlag("--errors", "errors", "text|json", "how errors are printed on stderr"),
    GlobalFlag("--color", "color", "auto|always|never", "auto: on a terminal without NO_COLOR"),
    GlobalFlag("--no-pager", "no_pager", None, "print long output without $PAGER"),
)

_CHOICES: Mapping[str, type[StrEnum]] = {"errors": ErrorFormat, "color": ColorChoice}
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
            if flag.repeats:
                values[flag.field] = (*values.get(flag.field, ()), value)
                continue
            values[flag.field] = _read_value(flag, value)
    return Globals(**values), rest


def _read_value(flag: GlobalFlag, text: str) -> str:
    """Raises UsageError if the flag takes one of few values, and this is none of them."""
    choices = _CHOICES.get(flag.field)
    if choices is None:
        return text
    try:
        return choices(text)
    except ValueError:
        raise UsageError(f"{flag.flag} is {' or '.join(choices)}, not '{text}'") from None
