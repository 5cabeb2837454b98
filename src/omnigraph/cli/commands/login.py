"""`omnigraph login`, `logout`, `profile` and `graphs`: servers and their tokens."""

import getpass
import os
import sys
from typing import Annotated

import typer

from omnigraph.cli.address import ServerAddress, find_address
from omnigraph.cli.config import PROFILE, AddressDefaults, Config, read_config
from omnigraph.cli.credentials import find_token, remove_token, save_token
from omnigraph.cli.globals import Globals
from omnigraph.cli.options import Json
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors import Misaddressed

profiles = typer.Typer(help="Print the profiles of the configuration.", no_args_is_help=True)
graphs = typer.Typer(help="Print the graphs of a server.", no_args_is_help=True)


def login(
    name: Annotated[str, typer.Argument(help="A server of the configuration.")],
    *,
    token: Annotated[
        str | None,
        typer.Option(help="The token; by default a prompt, or one line of standard input."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Save the token of a server in a file that only you can read."""
    path = save_token(name, token if token is not None else _ask_token(name))
    declared = name in read_config().servers
    if as_json:
        print_json({"server": name, "credentials_path": str(path), "declared": declared})
        return
    print_line(f"logged in to {name}")
    if not declared:
        print_line(f"there is no server '{name}' in the configuration yet")


def _ask_token(name: str) -> str:
    """One line of standard input, not echoed on a terminal."""
    if sys.stdin.isatty():
        return getpass.getpass(f"token for {name}: ")
    return sys.stdin.readline()


def logout(
    name: Annotated[str, typer.Argument(help="A server of the configuration.")],
    *,
    as_json: Json = False,
) -> None:
    """Remove the token of a server."""
    path = remove_token(name)
    if as_json:
        print_json({"server": name, "credentials_path": str(path)})
    else:
        print_line(f"logged out of {name}")


@profiles.command("list")
def list_profiles(context: typer.Context, *, as_json: Json = False) -> None:
    """List the profiles; a star marks the active one."""
    settings: Globals = context.obj
    config = read_config()
    active = settings.profile or os.environ.get(PROFILE)
    found = [
        _profile_document(name, scope, config, is_active=name == active)
        for name, scope in sorted(config.profiles.items())
    ]
    if as_json:
        print_json(found)
        return
    for each in found:
        mark = "*" if each["active"] else " "
        print_line(f"{mark} {each['name']} {each['scope_kind']}={each['target']}")


@profiles.command("show")
def show_profile(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="The profile; the active one by default.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Show the settings of one profile."""
    settings: Globals = context.obj
    config = read_config()
    wanted = name or settings.profile or os.environ.get(PROFILE)
    if wanted is not None and wanted not in config.profiles:
        known = ", ".join(sorted(config.profiles)) or "none"
        raise Misaddressed(f"there is no profile '{wanted}'; known: {known}")
    scope = config.defaults if wanted is None else config.profiles[wanted]
    kind, target = _binding(scope)
    document = {
        "name": wanted or "(defaults)",
        "scope_kind": kind,
        "target": target,
        "endpoint": (config.clusters if kind == "cluster" else config.servers).get(
            target or "", target
        ),
        "default_graph": scope.default_graph,
        "output_format": config.format,
    }
    if as_json:
        print_json(document)
    else:
        for key, value in document.items():
            print_line(f"{key}: {'-' if value is None else value}")


def _binding(scope: AddressDefaults) -> tuple[str | None, str | None]:
    kinds = (("server", scope.server), ("cluster", scope.cluster), ("store", scope.store))
    return next(((kind, place) for kind, place in kinds if place is not None), (None, None))


def _profile_document(
    name: str, scope: AddressDefaults, config: Config, *, is_active: bool
) -> dict[str, object]:
    kind, target = _binding(scope)
    named = {"server": config.servers, "cluster": config.clusters}.get(kind or "")
    is_place = "://" in (target or "") or (kind == "cluster" and "/" in (target or ""))
    is_known = named is None or is_place or target in named
    return {
        "name": name,
        "binding": f"{kind}: {target}",
        "scope_kind": kind,
        "target": target,
        "valid": is_known,
        "error": None if is_known else f"there is no {kind} '{target}'",
        "default_graph": scope.default_graph,
        "active": is_active,
    }


@graphs.command("list")
def list_graphs(
    context: typer.Context,
    *,
    uri: Annotated[str | None, typer.Option("--uri", help="The server's address.")] = None,
    as_json: Json = False,
) -> None:
    """List the graphs of a server. The policy of the server must allow it."""
    from omnigraph.sdk.remote.http import ServerConnection

    config = read_config()
    settings: Globals = context.obj
    address = ServerAddress(uri) if uri is not None else find_address(None, settings, config)
    if not isinstance(address, ServerAddress):
        raise Misaddressed("graphs are listed by a server; use --server")
    connection = ServerConnection(address.url, token=find_token(address.url, config))
    try:
        found = connection.get("/graphs")
    finally:
        connection.close()
    if as_json:
        print_json(found)
        return
    for each in found["graphs"]:
        print_line(f"{each['graph_id']} {each['uri']}")
