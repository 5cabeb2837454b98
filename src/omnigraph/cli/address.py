"""The graph that a command line names.

The command line has precedence over the profile, and the profile over the defaults. Two places on
one command line are an error.
"""

import os
from dataclasses import dataclass
from typing import Final

from omnigraph.cli.config import PROFILE, AddressDefaults, Config, read_config
from omnigraph.cli.globals import Globals
from omnigraph.errors import Misaddressed

_DIRECTLY: Final = "a URI, --store or --profile"
_EITHER: Final = "a URI, --store, --server or --profile"


@dataclass(frozen=True, slots=True)
class Store:
    """Graph storage that the command opens itself."""

    uri: str


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server and the id of one of its graphs."""

    url: str
    graph: str | None = None


def find_address(
    uri: str | None, settings: Globals, config: Config | None = None
) -> Store | ServerAddress:
    """For commands that work on storage and on servers. Raises Misaddressed, ConfigInvalid."""
    known = read_config() if config is None else config
    given = _given(uri, settings)
    if given is None:
        scope, whose = _scope(known, settings)
        if scope.server is not None:
            graph = settings.graph or scope.default_graph
            return ServerAddress(_server_url(scope.server, known), graph)
        store = _store_of(scope, whose, _EITHER)
        if settings.graph is not None:
            raise Misaddressed(f"{whose} the store '{store}', which is one graph; drop --graph")
        return Store(store)
    how, place = given
    if how == "--server":
        return ServerAddress(_server_url(place, known), settings.graph)
    return Store(_check_direct(how, place))


def find_store(uri: str | None, settings: Globals) -> str:
    """For commands that work on storage only. Raises Misaddressed, ConfigInvalid."""
    given = _given(uri, settings)
    if given is not None:
        return _check_direct(*given)
    return _store_of(*_scope(read_config(), settings), _DIRECTLY)


def named_once(uri: str | None, option: str | None) -> str | None:
    """The graph from the argument or from `--uri`. Raises Misaddressed if both are given."""
    if uri is not None and option is not None:
        raise Misaddressed(f"name the graph once: '{uri}' and --uri '{option}' were given")
    return option if uri is None else uri


def find_actor(settings: Globals) -> str | None:
    """The actor of a direct write: `--as`, else the configured operator."""
    return settings.actor if settings.actor is not None else read_config().actor


def _given(uri: str | None, settings: Globals) -> tuple[str, str] | None:
    """The flag that names the graph, and its value. Raises Misaddressed if there are two."""
    named = {
        "a positional URI": uri,
        "--store": settings.store,
        "--server": settings.server,
        "--cluster": settings.cluster,
    }
    given = [(how, place) for how, place in named.items() if place is not None]
    if len(given) > 1:
        raise Misaddressed(
            f"name the graph once: {' and '.join(how for how, _ in given)} were given"
        )
    if settings.graph is not None and (uri is not None or settings.store is not None):
        raise Misaddressed("--graph picks a graph of a server or cluster; a store is one graph")
    return given[0] if given else None


def _server_url(name: str, config: Config) -> str:
    """The URL of a configured server, or the URL itself."""
    if "://" in name:
        return name.rstrip("/")
    if name not in config.servers:
        known = ", ".join(sorted(config.servers)) or "none"
        raise Misaddressed(f"there is no server '{name}' in the configuration; known: {known}")
    return config.servers[name]


def _check_direct(how: str, place: str) -> str:
    if how in ("--server", "--cluster"):
        raise Misaddressed(f"this command works on storage; use --store instead of {how}")
    if place.startswith(("http://", "https://")):
        raise Misaddressed(f"{place} is a server's address; use --server")
    return place


def _scope(config: Config, settings: Globals) -> tuple[AddressDefaults, str]:
    name = settings.profile or os.environ.get(PROFILE)
    if name is None:
        return config.defaults, "the defaults name"
    if name in config.profiles:
        return config.profiles[name], f"profile '{name}' names"
    known = ", ".join(sorted(config.profiles)) or "none"
    raise Misaddressed(f"there is no profile '{name}'; known: {known}")


def _store_of(scope: AddressDefaults, whose: str, how: str) -> str:
    if scope.store is not None:
        return scope.store
    for kind, place in (("server", scope.server), ("cluster", scope.cluster)):
        if place is not None:
            raise Misaddressed(f"{whose} the {kind} '{place}', and this command works on storage")
    raise Misaddressed(f"no graph addressed; give {how}")
