"""The graph that a command line names.

The command line has precedence over the profile, and the profile over the defaults. Two places on
one command line are an error.
"""

import os
from dataclasses import dataclass
from typing import Final

from omnigraph.cli.config import PROFILE, AddressDefaults, Config, read_config
from omnigraph.cli.globals import Globals
from omnigraph.errors import Misaddressed, UsageError

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
        store = _store_of(scope, whose, _EITHER, settings)
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
    return _store_of(*_scope(read_config(), settings), _DIRECTLY, settings)


def find_storage_options(uri: str | None, settings: Globals) -> dict[str, str]:
    """The options of `--storage-option`, over those of the profile if it names the store.

    Raises Misaddressed, ConfigInvalid, UsageError.
    """
    given = parse_storage_options(settings)
    if _given(uri, settings) is not None:
        return given
    scope, _ = _scope(read_config(), settings)
    if not scope.storage_options:
        return given
    # Imported here, because most commands work on a disk.
    from omnigraph.storage.bucket_options import expand_variables, overlay_options

    return overlay_options(expand_variables(scope.storage_options), given)


def parse_storage_options(settings: Globals) -> dict[str, str]:
    """The values of `--storage-option`. Raises UsageError, which never shows a value."""
    options: dict[str, str] = {}
    for each in settings.storage_options or ():
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError("--storage-option takes NAME=VALUE, such as region=eu-west-1")
        if options.setdefault(name, value) != value:
            raise UsageError(f"--storage-option {name} is given twice, with two values")
    return options


def find_actor(settings: Globals) -> str | None:
    """The actor of a direct write: `--as`, else the configured operator."""
    return settings.actor if settings.actor is not None else read_config().actor


def _given(uri: str | None, settings: Globals) -> tuple[str, str] | None:
    """The flag that names the graph, and its value. Raises Misaddressed if there are two."""
    named = {
        "": uri,
        "--store": settings.store,
        "--uri": settings.uri,
        "--server": settings.server,
        "--cluster": settings.cluster,
    }
    given = [(how, place) for how, place in named.items() if place is not None]
    if len(given) > 1:
        places = " and ".join(f"{how} '{place}'".lstrip() for how, place in given)
        raise Misaddressed(f"name the graph once: {places} were given")
    if settings.graph is not None and given and given[0][0] in ("", "--store", "--uri"):
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


def _store_of(scope: AddressDefaults, whose: str, how: str, settings: Globals) -> str:
    if scope.store is not None:
        return scope.store
    for kind, place in (("server", scope.server), ("cluster", scope.cluster)):
        if place is not None:
            raise Misaddressed(f"{whose} the {kind} '{place}', and this command works on storage")
    unlike = "".join(f"; '{each}' is no graph" for each in settings.words[:1])
    raise Misaddressed(f"no graph addressed; give {how}{unlike}")
