"""Opening the graph a command means.

The libraries that hold a graph are imported here and when they are needed: a command that only
reads programs should not wait for them.
"""

from typing import TYPE_CHECKING

from omnigraph.cli.address import find_store
from omnigraph.cli.globals import Globals

if TYPE_CHECKING:
    from omnigraph.sdk.local import LocalGraph


def open_graph(uri: str | None, settings: Globals, *, read_only: bool = False) -> "LocalGraph":
    """Raises UsageError when no graph was named, and whatever opening it raises."""
    from omnigraph.sdk import local

    return local.open(find_store(uri, settings), read_only=read_only)
