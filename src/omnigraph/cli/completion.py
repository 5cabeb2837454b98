"""Completions of a command line: commands, flags, their values, graphs and branches.

A script in the shell passes the words of the line; the candidates are printed one a line. Nothing
here opens a graph: branches of a local graph are read from the names of files. Where there is no
candidate, the shell offers its files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import typer
from typer.core import TyperArgument, TyperGroup

from omnigraph.cli.command import GRAPH
from omnigraph.cli.config import read_config
from omnigraph.cli.positionals import MANIFEST, GraphLikeness, find_likeness
from omnigraph.errors import OmnigraphError

BRANCH_FLAGS: Final = ("--branch", "--from", "--into")
BRANCH_WORDS: Final = ("branch delete", "branch merge", "diff")
GRAPH_FLAGS: Final = ("--store", "--uri")

VALUES: Final[Mapping[str, Sequence[str]]] = {
    "--mode": ("append", "merge", "overwrite"),
    "--engine": ("auto", "local", "spark"),
    "--detect": ("property", "row"),
    "--on-conflict": ("ours", "theirs"),
    "--kind": ("edge", "node"),
    "--op": ("delete", "insert", "update"),
    "query --format": ("csv", "json", "jsonl", "kv", "table"),
    "alias --format": ("csv", "json", "jsonl", "kv", "table"),
    "load --format": ("csv", "jsonl", "parquet"),
    "export --format": ("jsonl", "parquet"),
}
"""Flags that take one of few values."""


@dataclass(slots=True)
class TypedLine:
    """A command line up to the word that is completed."""

    command: Any
    context: Any
    name: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """Flags and their values."""
    waiting: str | None = None
    """The flag whose value comes next."""

    @property
    def graph(self) -> str | None:
        named = [word for word in self.words if find_likeness(word) is GraphLikeness.GRAPH]
        named += [self.values[flag] for flag in GRAPH_FLAGS if flag in self.values]
        return named[0] if named else None


def find_candidates(root: Any, words: Sequence[str], incomplete: str) -> list[str]:
    """What may stand in place of `incomplete`, after `words`; sorted."""
    line = _read_line(root, words)
    if line is None:
        return []
    flag, equals, value = incomplete.partition("=")
    if line.waiting is not None:
        incomplete = incomplete.removeprefix("=")
        found = _find_values(line, line.waiting, incomplete)
    elif equals and flag.startswith("--"):
        found = (f"{flag}={each}" for each in _find_values(line, flag, value))
    elif incomplete.startswith("-"):
        found = _find_flags(line)
    elif isinstance(line.command, TyperGroup):
        found = _find_commands(line)
    else:
        found = _find_words(line, incomplete)
    return sorted({each for each in found if each.startswith(incomplete)})


def _read_line(root: Any, words: Sequence[str]) -> TypedLine | None:
    """None if a command of the line does not exist."""
    line = TypedLine(root, typer.Context(root, info_name="omnigraph", resilient_parsing=True))
    for word in words:
        if line.waiting is not None and word == "=":
            continue  # bash takes --flag=value for three words
        if line.waiting is not None:
            line.values[line.waiting], line.waiting = word, None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            if equals:
                line.values[name] = value
            elif _takes_value(line, name):
                line.waiting = name
        elif isinstance(line.command, TyperGroup):
            found: Any = line.command.get_command(line.context, word)
            if found is None:
                return None
            line.context = typer.Context(
                found, info_name=word, parent=line.context, resilient_parsing=True
            )
            line.command = found
            line.name.append(word)
        else:
            line.words.append(word)
    return line


def _options(line: TypedLine) -> Iterator[Any]:
    for each in line.command.get_params(line.context):
        if not isinstance(each, TyperArgument) and not getattr(each, "hidden", False):
            yield each


def _takes_value(line: TypedLine, flag: str) -> bool:
    return any(flag in each.opts and not getattr(each, "is_flag", False) for each in _options(line))


def _find_flags(line: TypedLine) -> Iterator[str]:
    for each in _options(line):
        yield from (flag for flag in (*each.opts, *each.secondary_opts) if flag.startswith("--"))


def _find_commands(line: TypedLine) -> Iterable[str]:
    entries = getattr(line.command, "entries", {})
    for name in line.command.list_commands(line.context):
        is_hidden = (
            entries[name].is_hidden
            if name in entries  # the flag is known without importing the command
            else line.command.get_command(line.context, name).hidden
        )
        if not is_hidden:
            yield name


def _find_values(line: TypedLine, flag: str, incomplete: str) -> Iterable[str]:
    if flag in GRAPH_FLAGS:
        return _find_graphs(incomplete)
    if flag in BRANCH_FLAGS:
        return _find_branches(line.graph)
    if flag in ("--profile", "--server"):
        return _find_configured(flag)
    for each in _options(line):
        choices = (each.metavar or "").split("|")
        if flag in each.opts and len(choices) > 1 and each.metavar.islower():
            return choices
    return VALUES.get(f"{' '.join(line.name)} {flag}", VALUES.get(flag, ()))


def _find_words(line: TypedLine, incomplete: str) -> Iterable[str]:
    arguments = [each for each in line.command.params if isinstance(each, TyperArgument)]
    if line.graph is None and any(each.name == GRAPH for each in arguments):
        return _find_graphs(incomplete)
    return _find_branches(line.graph) if " ".join(line.name) in BRANCH_WORDS else ()


# --- what is on this machine ----------------------------------------------------------------


def _find_graphs(incomplete: str) -> Iterator[str]:
    """Graphs, and the folders in which there may be some."""
    above, slash, _ = incomplete.rpartition("/")
    try:
        folders = [each for each in Path(f"{above}{slash}" or ".").iterdir() if each.is_dir()]
    except OSError:
        return
    for each in folders:
        is_graph = find_likeness(str(each)) is GraphLikeness.GRAPH
        if is_graph or not each.name.startswith((".", "__")):
            yield f"{above}{slash}{each.name}{'' if is_graph else '/'}"


def _find_branches(graph: str | None) -> Iterator[str]:
    """The branches of a local graph, from the files in which Lance keeps them."""
    if graph is None:
        return
    yield "main"
    try:
        refs = sorted((Path(graph) / MANIFEST / "_refs" / "branches").glob("*.json"))
    except OSError:
        return
    yield from (unquote(each.name.removesuffix(".json")) for each in refs)


def _find_configured(flag: str) -> Iterable[str]:
    try:
        config = read_config()
    except OmnigraphError:
        return ()
    return config.profiles if flag == "--profile" else config.servers
