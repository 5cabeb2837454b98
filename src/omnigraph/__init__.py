"""OmniGraph: a typed property graph on Lance datasets, with branches and a Spark pipeline.

`open` and `init` give an embedded graph, `connect` a graph on a server; both have the same objects.
`aopen` gives a graph on a server whose methods are awaited.
Each public name is loaded when it is first used, so importing the package costs nothing.
"""

from importlib import import_module

TYPE_CHECKING = False  # importing it from `typing` would cost ten milliseconds

__version__ = "0.1.0"

__all__ = [
    "AsyncBranch",
    "AsyncGraph",
    "AsyncSnapshot",
    "AsyncTransaction",
    "Branch",
    "CloneResult",
    "Commit",
    "Detect",
    "Durability",
    "Explanation",
    "ExportFormat",
    "ExportResult",
    "GraphClient",
    "Input",
    "LoadMode",
    "LoadResult",
    "LocalGraph",
    "MergeResult",
    "MutationResult",
    "OmnigraphError",
    "OptimizeResult",
    "RelocateResult",
    "RemoteGraph",
    "Result",
    "SchemaPlan",
    "SchemaResult",
    "Side",
    "Snapshot",
    "Transaction",
    "aopen",
    "clone",
    "connect",
    "init",
    "open",
]

if TYPE_CHECKING:
    from omnigraph.commit.manifest.records import Commit
    from omnigraph.commit.relocation import RelocateResult
    from omnigraph.engine.load.bulk import LoadMode
    from omnigraph.engine.load.export import ExportFormat, ExportResult
    from omnigraph.engine.load.inputs import Input
    from omnigraph.engine.load.run import LoadResult
    from omnigraph.engine.maintain.clone import CloneResult
    from omnigraph.engine.maintain.optimize import OptimizeResult
    from omnigraph.engine.merge.rulings import Detect, Side
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.query.reading import Explanation
    from omnigraph.engine.query.result import Result
    from omnigraph.engine.schema.apply import SchemaResult
    from omnigraph.engine.schema.plan import SchemaPlan
    from omnigraph.engine.write.mutate import MutationResult
    from omnigraph.errors import OmnigraphError
    from omnigraph.sdk.async_handles import AsyncBranch, AsyncSnapshot, AsyncTransaction
    from omnigraph.sdk.client import GraphClient
    from omnigraph.sdk.embedded.graph import LocalGraph, init, open
    from omnigraph.sdk.embedded.moving import clone
    from omnigraph.sdk.handles import Branch, Snapshot, Transaction
    from omnigraph.sdk.remote.async_graph import AsyncGraph, aopen
    from omnigraph.sdk.remote.graph import RemoteGraph, connect
    from omnigraph.storage.durability import Durability

_HOMES = {
    "AsyncBranch": "sdk.async_handles",
    "AsyncGraph": "sdk.remote.async_graph",
    "AsyncSnapshot": "sdk.async_handles",
    "AsyncTransaction": "sdk.async_handles",
    "Branch": "sdk.handles",
    "CloneResult": "engine.maintain.clone",
    "Commit": "commit.manifest.records",
    "Detect": "engine.merge.rulings",
    "Durability": "storage.durability",
    "Explanation": "engine.query.reading",
    "ExportFormat": "engine.load.export",
    "ExportResult": "engine.load.export",
    "GraphClient": "sdk.client",
    "Input": "engine.load.inputs",
    "LoadMode": "engine.load.bulk",
    "LoadResult": "engine.load.run",
    "LocalGraph": "sdk.embedded.graph",
    "MergeResult": "engine.merge.run",
    "MutationResult": "engine.write.mutate",
    "OmnigraphError": "errors",
    "OptimizeResult": "engine.maintain.optimize",
    "RelocateResult": "commit.relocation",
    "RemoteGraph": "sdk.remote.graph",
    "Result": "engine.query.result",
    "SchemaPlan": "engine.schema.plan",
    "SchemaResult": "engine.schema.apply",
    "Side": "engine.merge.rulings",
    "Snapshot": "sdk.handles",
    "Transaction": "sdk.handles",
    "aopen": "sdk.remote.async_graph",
    "clone": "sdk.embedded.moving",
    "connect": "sdk.remote.graph",
    "init": "sdk.embedded.graph",
    "open": "sdk.embedded.graph",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    return getattr(import_module(f"omnigraph.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
