"""Which graph a command means.

What is written on the command line wins over the profile, the profile over the defaults. Naming two
places is an error, never a guess.
"""

import os

from omnigraph.cli.config import PROFILE, Config, Scope, read_config
from omnigraph.cli.globals import Globals
from omnigraph.errors import UsageError


def find_store(uri: str | None, settings: Globals) -> str:
    """The storage a command works on directly. Raises UsageError, ConfigInvalid."""
    named = {
        "a positional URI": uri,
        "--store": settings.store,
        "--server": settings.server,
        "--cluster": settings.cluster,
    }
    given = {how: place for how, place in named.items() if place is not None}
    if len(given) > 1:
        raise UsageError(f"name the graph once: {' and '.join(given)} were given")
    if settings.graph is not None and (uri is not None or settings.store is not None):
        raise UsageError("--graph picks a graph of a server or cluster; a store is one graph")
    if given:
        ((how, place),) = given.items()
        return _check_direct(how, place)
    return _from_config(read_config(), settings)


def find_actor(settings: Globals) -> str | None:
    """Who is recorded on a direct write: `--as`, else the configured operator."""
    return settings.actor if settings.actor is not None else read_config().actor


def _check_direct(how: str, place: str) -> str:
    if how in ("--server", "--cluster"):
        raise UsageError(f"this command works on storage; use --store instead of {how}")
    if place.startswith(("http://", "https://")):
        raise UsageError(f"{place} is a server's address; this command works on storage")
    return place


def _from_config(config: Config, settings: Globals) -> str:
    name = settings.profile or os.environ.get(PROFILE)
    if name is None:
        scope, whose = config.defaults, "the defaults name"
    elif name in config.profiles:
        scope, whose = config.profiles[name], f"profile '{name}' names"
    else:
        known = ", ".join(sorted(config.profiles)) or "none"
        raise UsageError(f"there is no profile '{name}'; known: {known}")
    return _store_of(scope, whose)


def _store_of(scope: Scope, whose: str) -> str:
    if scope.store is not None:
        return scope.store
    for kind, place in (("server", scope.server), ("cluster", scope.cluster)):
        if place is not None:
            raise UsageError(f"{whose} the {kind} '{place}', and this command works on storage")
    raise UsageError("no graph addressed; give a URI, --store, or a profile")
