"""The command `omnigraph`."""

import gc
import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

import omnigraph
from omnigraph.cli.accepted_flags import check_flags
from omnigraph.cli.command import GraphCommand
from omnigraph.cli.exits import Exit, exit_for
from omnigraph.cli.globals import ErrorFormat, Globals, split_globals
from omnigraph.cli.graphs import close_connections
from omnigraph.cli.history import mark_drawing
from omnigraph.cli.lazy import Entry, LazyCommands
from omnigraph.cli.render import print_error, print_hint, print_json, print_line, print_note
from omnigraph.cli.terminal import coloring, paging
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.pandas_guard import declare_own_process

COMMANDS: Final[Mapping[str, Entry]] = {
    "init": Entry("init", "init"),
    "load": Entry("load", "load"),
    "ingest": Entry("load", "ingest", is_hidden=True),
    "pipeline": Entry("pipeline", "app"),
    "export": Entry("export", "export"),
    "query": Entry("query", "query"),
    "entity": Entry("entity", "entity"),
    "blob": Entry("blob", "app"),
    "mutate": Entry("mutate", "mutate"),
    "snapshot": Entry("snapshot", "snapshot"),
    "index": Entry("index", "index"),
    "embed": Entry("embed", "embed"),
    "branch": Entry("branch", "app"),
    "commit": Entry("commit", "app"),
    "log": Entry("commit", "list_"),
    "diff": Entry("diff", "diff"),
    "blame": Entry("blame", "blame"),
    "revert": Entry("revert", "revert"),
    "cherry-pick": Entry("revert", "cherry_pick"),
    "tag": Entry("tag", "app"),
    "proposal": Entry("proposal", "app"),
    "changes": Entry("changes", "app"),
    "recovery": Entry("recovery", "app"),
    "spark": Entry("spark", "app"),
    "lint": Entry("lint", "lint"),
    "explain": Entry("explain", "explain"),
    "describe": Entry("describe", "describe"),
    "schema": Entry("schema", "app"),
    "optimize": Entry("optimize", "optimize"),
    "cleanup": Entry("cleanup", "cleanup"),
    "repair": Entry("repair", "repair"),
    "doctor": Entry("doctor", "doctor"),
    "clone": Entry("moving", "clone"),
    "relocate": Entry("moving", "relocate"),
    "serve": Entry("serve", "serve"),
    "ui": Entry("ui", "ui"),
    "mcp": Entry("mcp", "mcp"),
    "alias": Entry("query", "alias"),
    "login": Entry("login", "login"),
    "logout": Entry("login", "logout"),
    "profile": Entry("login", "profiles"),
    "graphs": Entry("login", "graphs"),
    "policy": Entry("policy", "app"),
    "queries": Entry("queries", "app"),
    "completion": Entry("completion", "completion"),
    "up": Entry("up", "up"),
    "down": Entry("up", "down"),
}
"""In the order in which help lists them."""

GARBAGE_EVERY: Final = 50_000
"""Imports make some hundred thousand objects that all stay. With the default threshold of Python,
the garbage collector takes a tenth of the time of a command."""

OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "serve": ("--graph", "--cluster"),
    "graphs": ("--uri",),
}
"""Flags that have another meaning for a command: `serve --graph` takes ID=URI."""


PAGED: Final = frozenset(
    {"query", "alias", "entity", "explain", "snapshot", "diff", "log", "commit", "recovery"}
) | {"branch list", "changes poll", "schema show", "schema get", "queries list"}
"""Commands whose output a person reads: a terminal shows it in a pager if it is long."""


class _Commands(LazyCommands):
    entries = COMMANDS


app = typer.Typer(
    cls=_Commands,
    name="omnigraph",
    help="A typed property graph on Lance, with Git-style branches and a Spark pipeline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

DEPRECATED: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("query", "lint"), ("lint",)),
    (("query", "check"), ("lint",)),
    (("check",), ("lint",)),
    (("change",), ("mutate",)),
    (("read",), ("query",)),
)
"""Deprecated spellings of commands, and their new names."""

GONE: Final[Mapping[str, str]] = {
    "--alias": "say `omnigraph alias NAME`; aliases are in ~/.omnigraph/config.yaml",
    "--config": "an operator's settings are in ~/.omnigraph/config.yaml, a server's in the "
    "server.yaml of `omnigraph serve`",
}
"""Removed flags, and what replaces them."""


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


@app.command(cls=GraphCommand)
def version(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False
) -> None:
    """Print the version."""
    if as_json:
        print_json({"version": omnigraph.__version__})
    else:
        _print_version(wanted=True)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return the exit code."""
    as_json = "--json" in itertools.takewhile(lambda each: each != "--", arguments)
    try:
        settings, words = _split(mark_drawing(arguments))
    except OmnigraphError as error:
        print_error(error, ErrorFormat.TEXT, as_json=as_json)
        return exit_for(error)
    with coloring(settings.color):
        return _run_line(words, settings, as_json=as_json)


def _split(arguments: Sequence[str]) -> tuple[Globals, list[str]]:
    """The global flags, and the rest. Raises UsageError."""
    settings, rest = split_globals(arguments)
    if rest[:1] and (own := OWN.get(rest[0])) is not None:
        return split_globals(arguments, own=own)
    return settings, rest


def _run_line(line: list[str], settings: Globals, *, as_json: bool) -> int:
    is_caught = as_json or settings.errors is ErrorFormat.JSON
    try:
        words = line if line[:1] == ["serve"] else _modernise(line)
        check_flags(settings, words)
        with paging(wanted=not as_json and not settings.no_pager and _is_paged(words)):
            _run_words(words, settings, is_caught=is_caught)
    except OmnigraphError as error:
        print_error(error, settings.errors, as_json=as_json)
        return exit_for(error)
    except KeyboardInterrupt:
        print_note("interrupted")
        return Exit.INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else Exit.OK
    finally:
        close_connections()
    return Exit.OK


def _is_paged(words: Sequence[str]) -> bool:
    return not PAGED.isdisjoint((" ".join(words[:2]), *words[:1]))


def _run_words(words: list[str], settings: Globals, *, is_caught: bool) -> None:
    """With `is_caught`, a wrong command line raises UsageError; else it is printed, with a hint."""
    try:
        code = app(words, prog_name="omnigraph", obj=settings, standalone_mode=False)
    except typer.TyperException as wrong:
        text = _describe(wrong)
        if is_caught:
            raise UsageError(text or "a command is missing") from wrong
        if text:  # none for a group without a command: Typer has printed its help
            print_error(UsageError(text), settings.errors)
            if (context := getattr(wrong, "ctx", None)) is not None:
                print_hint(f"{context.command_path} --help")
        raise SystemExit(Exit.USAGE) from None
    except typer.Abort:  # at a confirmation
        raise SystemExit(Exit.FAILED) from None
    if isinstance(code, int):
        raise SystemExit(code)


def _describe(wrong: typer.TyperException) -> str:
    """What is wrong with the command line, in the style of our own errors."""
    from difflib import get_close_matches

    flag = getattr(wrong, "option_name", None)
    if flag is not None and hasattr(wrong, "possibilities"):
        near = get_close_matches(flag, wrong.possibilities or (), n=1, cutoff=0)
        return f"there is no flag '{flag}'" + "".join(f"; did you mean '{each}'?" for each in near)
    said = wrong.format_message().rstrip(".").replace(": Value error, ", ": ")
    return said[:1].lower() + said[1:]


def _modernise(arguments: list[str]) -> list[str]:
    """The command in its current spelling. Raises UsageError for a removed flag."""
    for word in itertools.takewhile(lambda each: each != "--", arguments):
        name = word.partition("=")[0]
        if name in GONE:
            raise UsageError(f"there is no {name} any more: {GONE[name]}")
    for old, new in DEPRECATED:
        if tuple(arguments[: len(old)]) == old:
            print_note(f"warning: '{' '.join(old)}' is now '{' '.join(new)}'")
            return [*new, *arguments[len(old) :]]
    return arguments


def main() -> None:
    gc.set_threshold(GARBAGE_EVERY)
    declare_own_process()
    sys.exit(run(sys.argv[1:]))
