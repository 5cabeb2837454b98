"""OmniGraph: a typed property graph on Lance datasets, with branches and a Spark pipeline.

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Durability",
    "LocalGraph",
    "RemoteGraph",
    "OmnigraphError",
    "Input",
    "connect",
    "init",
    "open",
]

if TYPE_CHECKING:
    from omnigraph.engine.load.inputs import Input
    from omnigraph.errors import OmnigraphError
    from omnigraph.sdk.local import LocalGraph, init, open
    from omnigraph.sdk.remote import RemoteGraph, connect
    from omnigraph.storage.durability import Durability

_HOMES = {
    "Durability": "omnigraph.storage.durability",
    "LocalGraph": "omnigraph.sdk.local",
    "OmnigraphError": "omnigraph.errors",
    "Input": "omnigraph.engine.load.inputs",
    "RemoteGraph": "omnigraph.sdk.remote",
    "connect": "omnigraph.sdk.remote",
    "init": "omnigraph.sdk.local",
    "open": "omnigraph.sdk.local",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    return getattr(import_module(home), name)
