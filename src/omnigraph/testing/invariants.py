"""What must be true of a graph after anything: races, crashes, recoveries.

The rules are the doctor's (`engine.doctor`); here they are strict: nothing was ever cleaned up.
"""

from omnigraph.engine.doctor import Finding, check_manifests, check_tables
from omnigraph.storage.stores import Stores

__all__ = ["Finding", "check_graph", "check_manifests", "check_tables"]


def check_graph(stores: Stores) -> list[Finding]:
    """Everything wrong with a graph; nothing, it is hoped."""
    return [*check_manifests(stores), *check_tables(stores)]
