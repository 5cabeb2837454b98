"""Opening the graph that a command names, in storage or on a server.

The functions import the engine and the HTTP client when they are called: a command that only checks
a file of queries does not wait for them.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from omnigraph.cli.address import (
    ServerAddress,
    find_actor,
    find_address,
    find_storage_options,
    find_store,
)
from omnigraph.cli.config import read_config
from omnigraph.cli.credentials import find_token
from omnigraph.cli.globals import Globals
from omnigraph.cli.inputs import read_source
from omnigraph.errors import AccessError, Misaddressed, NotConfirmed, ServerAnswerInvalid

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.compiler.lint import SchemaFile, SchemaGraph
    from omnigraph.sdk.client import GraphClient
    from omnigraph.sdk.embedded.graph import LocalGraph
    from omnigraph.sdk.remote.graph import RemoteGraph


def open_graph(uri: str | None, settings: Globals, *, read_only: bool = False) -> "LocalGraph":
    """Raises Misaddressed if no graph is named, and the errors of opening it."""
    from omnigraph.sdk.embedded.graph import open as open_embedded

    return open_embedded(
        find_store(uri, settings),
        read_only=read_only,
        storage_options=find_storage_options(uri, settings),
    )


def open_client(uri: str | None, settings: Globals, *, read_only: bool = False) -> "GraphClient":
    """The graph in storage or on a server. Raises Misaddressed, and the errors of opening it."""
    address = find_address(uri, settings)
    if isinstance(address, ServerAddress):
        if settings.storage_options is not None:
            raise Misaddressed(
                "--storage-option is for graphs that this command opens; a server has the options "
                "of its graphs in server.yaml"
            )
        return connect(address)
    return open_graph(uri, settings, read_only=read_only)


def find_place(uri: str | None, settings: Globals) -> str:
    """The URI of the graph, without opening it."""
    address = find_address(uri, settings)
    if not isinstance(address, ServerAddress):
        return address.uri
    return address.url if address.graph is None else f"{address.url}/graphs/{address.graph}"


def connect(address: ServerAddress) -> "RemoteGraph":
    """A graph of a server. Without a graph id, the server must have one graph only."""
    from omnigraph.sdk.remote.graph import connect
    from omnigraph.sdk.remote.http import ServerConnection

    token = find_token(address.url, read_config())
    if address.graph is None:
        connection = ServerConnection(address.url, token=token)
        try:
            served = [each["graph_id"] for each in connection.get("/graphs")["graphs"]]
        except (AccessError, ServerAnswerInvalid):
            served = []  # this caller may not list graphs; a server of one graph still answers
        finally:
            connection.close()
        if served:
            raise Misaddressed(f"name a graph of the server: --graph {' or '.join(served)}")
    graph = connect(address.url, graph=address.graph, token=token)
    _connected.append(graph)
    return graph


_connected: "list[RemoteGraph]" = []
"""The connections of this command."""


def close_connections() -> None:
    """Called at the end of a command."""
    while _connected:
        _connected.pop().close()


def as_served(graph: "GraphClient") -> "RemoteGraph | None":
    """The graph if it is on a server, else None. Imports the HTTP client only then."""
    if not graph.uri.startswith(("http://", "https://")):
        return None
    from omnigraph.sdk.remote.graph import RemoteGraph

    assert isinstance(graph, RemoteGraph)
    return graph


def find_writer(graph: "GraphClient", settings: Globals) -> str | None:
    """The actor of a write; None on a server, where the token decides. Raises Misaddressed."""
    if as_served(graph) is None:
        return find_actor(settings)
    if settings.actor is not None:
        raise Misaddressed("--as is for direct writes; a server knows who writes by the token")
    return None


def find_schema(
    file: Path | None, uri: str | None, settings: Globals
) -> "tuple[Catalog, SchemaFile | SchemaGraph]":
    """The schema of a file, or else of a graph, and its origin. Raises what reading it raises."""
    from omnigraph.catalog.build import compile_schema
    from omnigraph.compiler.lint import SchemaFile, SchemaGraph

    if file is not None:
        return compile_schema(read_source(file)), SchemaFile(str(file))
    graph = open_graph(uri, settings, read_only=True)
    return graph.catalog, SchemaGraph(graph.uri)


def confirm_destructive(action: str, store: str, settings: Globals, *, interactive: bool) -> None:
    """Ask the user, unless the graph is on this machine or --yes was given. Raises NotConfirmed."""
    from omnigraph.storage.layout import parse_root

    is_served = store.startswith(("http://", "https://"))
    if settings.yes or (not is_served and parse_root(store).is_local):
        return
    if interactive and sys.stdin.isatty() and typer.confirm(f"{action} {store}?", err=True):
        return
    raise NotConfirmed(action, target=store)
