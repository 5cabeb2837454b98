"""Which global flags have a meaning for which command.

Other flags are refused: an ignored `--store` would let a command write to another graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.cli.globals import FLAGS, Globals
from omnigraph.errors import Misaddressed

EVERYWHERE: Final = frozenset({"yes", "quiet", "errors", "color", "no_pager"})


@dataclass(frozen=True, slots=True)
class AcceptedFlags:
    """The global flags that a command takes, and the hint if another one is given."""

    takes: frozenset[str]
    hint: str


_STORAGE: Final = "it works on storage; name the graph by a URI, --store or --profile"
_EITHER: Final = "name the graph by a URI, --store, --server or --profile"
_STORE: Final = frozenset({"store", "uri", "profile", "storage_options"})
_GRAPH: Final = _STORE | {"server", "graph"}

READS: Final = AcceptedFlags(_GRAPH, f"it only reads; {_EITHER}")
WRITES: Final = AcceptedFlags(_GRAPH | {"actor"}, _EITHER)
DIRECT_READS: Final = AcceptedFlags(_STORE, _STORAGE)
DIRECT_WRITES: Final = AcceptedFlags(_STORE | {"actor"}, _STORAGE)
MAKES: Final = AcceptedFlags(
    frozenset({"actor", "storage_options"}), "it makes a graph; give the place after the command"
)
COPIES: Final = AcceptedFlags(
    frozenset({"storage_options"}), "it copies storage; give both places after the command"
)
SERVED: Final = AcceptedFlags(frozenset({"server", "profile"}), "it asks a server; use --server")
BOUND: Final = AcceptedFlags(
    frozenset(), "the configuration binds an alias to its server and graph"
)
SERVES: Final = AcceptedFlags(
    frozenset({"storage_options"}), "name graphs by --graph ID=URI, or in the file of --config"
)
PROFILES: Final = AcceptedFlags(frozenset({"profile"}), "it only reads the configuration")
LOCAL: Final = AcceptedFlags(frozenset(), "it concerns no graph")

BY_COMMAND: Final[Mapping[str, AcceptedFlags]] = {
    **dict.fromkeys(("query", "entity", "snapshot", "export", "diff", "changes", "commit"), READS),
    **dict.fromkeys(("log", "blame", "tag list", "describe"), READS),
    **dict.fromkeys(("blob", "branch list", "schema show", "schema get", "schema plan"), READS),
    **dict.fromkeys(("mutate", "load", "ingest", "schema apply", "optimize", "mcp"), WRITES),
    **dict.fromkeys(("branch create", "branch delete", "branch merge"), WRITES),
    **dict.fromkeys(("revert", "cherry-pick", "tag create", "tag delete"), WRITES),
    **dict.fromkeys(("proposal list", "proposal show"), READS),
    **dict.fromkeys((f"proposal {each}" for each in ("open", "comment", "approve")), WRITES),
    **dict.fromkeys((f"proposal {each}" for each in ("check", "merge", "close")), WRITES),
    **dict.fromkeys(("lint", "explain", "doctor", "recovery", "pipeline plan"), DIRECT_READS),
    **dict.fromkeys(("repair", "cleanup", "relocate", "index", "pipeline run"), DIRECT_WRITES),
    "queries list": READS,
    "queries validate": DIRECT_READS,
    "init": MAKES,
    "clone": COPIES,
    "graphs": SERVED,
    "alias": BOUND,
    "serve": SERVES,
    "ui": DIRECT_READS,
    "profile": PROFILES,
    **dict.fromkeys(
        ("policy", "embed", "login", "logout", "spark", "completion", "version"), LOCAL
    ),
    **dict.fromkeys(("up", "down"), LOCAL),
}
"""By the first word of a command, or the first two."""


def check_flags(settings: Globals, words: Sequence[str]) -> None:
    """Raises Misaddressed for a flag that has no meaning for the command."""
    if (name := _find_name(words)) is not None:
        _check(settings, BY_COMMAND[name], name)


def find_accepted(words: Sequence[str]) -> frozenset[str] | None:
    """The fields of the flags that a command takes; None for a group of commands."""
    name = _find_name(words)
    return None if name is None else BY_COMMAND[name].takes | EVERYWHERE


def _find_name(words: Sequence[str]) -> str | None:
    return next((name for name in (" ".join(words[:2]), *words[:1]) if name in BY_COMMAND), None)


def _check(settings: Globals, accepted: AcceptedFlags, name: str) -> None:
    for each in FLAGS:
        is_given = each.field not in EVERYWHERE and getattr(settings, each.field) is not None
        if is_given and each.field not in accepted.takes:
            raise Misaddressed(f"{each.flag} is not for 'omnigraph {name}': {accepted.hint}")
