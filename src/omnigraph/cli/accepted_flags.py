"""Which global flags have a meaning for which command.

Other flags are refused: an ignored `--store` would let a command write to another graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.cli.globals import FLAGS, Globals
from omnigraph.errors import Misaddressed

EVERYWHERE: Final = frozenset({"yes", "quiet", "errors"})


@dataclass(frozen=True, slots=True)
class AcceptedFlags:
    """The global flags that a command takes, and the hint if another one is given."""

    takes: frozenset[str]
    hint: str


_STORAGE: Final = "it works on storage; name the graph by a URI, --store or --profile"
_EITHER: Final = "name the graph by a URI, --store, --server or --profile"
_GRAPH: Final = frozenset({"store", "server", "graph", "profile"})

READS: Final = AcceptedFlags(_GRAPH, f"it only reads; {_EITHER}")
WRITES: Final = AcceptedFlags(_GRAPH | {"actor"}, _EITHER)
DIRECT_READS: Final = AcceptedFlags(frozenset({"store", "profile"}), _STORAGE)
DIRECT_WRITES: Final = AcceptedFlags(frozenset({"store", "profile", "actor"}), _STORAGE)
MAKES: Final = AcceptedFlags(
    frozenset({"actor"}), "it makes a graph; give the place after the command"
)
SERVED: Final = AcceptedFlags(frozenset({"server", "profile"}), "it asks a server; use --server")
BOUND: Final = AcceptedFlags(
    frozenset(), "the configuration binds an alias to its server and graph"
)
SERVES: Final = AcceptedFlags(
    frozenset(), "name graphs by --graph ID=URI, or in the file of --config"
)
PROFILES: Final = AcceptedFlags(frozenset({"profile"}), "it only reads the configuration")
LOCAL: Final = AcceptedFlags(frozenset(), "it concerns no graph")

BY_COMMAND: Final[Mapping[str, AcceptedFlags]] = {
    **dict.fromkeys(("query", "entity", "snapshot", "export", "diff", "changes", "commit"), READS),
    **dict.fromkeys(("blob", "branch list", "schema show", "schema get", "schema plan"), READS),
    **dict.fromkeys(("mutate", "load", "ingest", "schema apply", "optimize", "mcp"), WRITES),
    **dict.fromkeys(("branch create", "branch delete", "branch merge"), WRITES),
    **dict.fromkeys(("lint", "explain", "doctor", "recovery", "pipeline plan"), DIRECT_READS),
    **dict.fromkeys(("repair", "cleanup", "index", "pipeline run"), DIRECT_WRITES),
    "queries list": READS,
    "queries validate": DIRECT_READS,
    "init": MAKES,
    "graphs": SERVED,
    "alias": BOUND,
    "serve": SERVES,
    "profile": PROFILES,
    **dict.fromkeys(("policy", "embed", "login", "logout", "spark", "version"), LOCAL),
}
"""By the first word of a command, or the first two."""


def check_flags(settings: Globals, words: Sequence[str]) -> None:
    """Raises Misaddressed for a flag that has no meaning for the command."""
    for name in (" ".join(words[:2]), *words[:1]):
        if name in BY_COMMAND:
            _check(settings, BY_COMMAND[name], name)
            return


def _check(settings: Globals, accepted: AcceptedFlags, name: str) -> None:
    for each in FLAGS:
        is_given = each.field not in EVERYWHERE and getattr(settings, each.field) is not None
        if is_given and each.field not in accepted.takes:
            raise Misaddressed(f"{each.flag} is not for 'omnigraph {name}': {accepted.hint}")
