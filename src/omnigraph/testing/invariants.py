"""What must be true of a graph after anything: races, crashes, recoveries.

The rules are those of `engine.maintain.doctor`, without the exceptions that a cleanup allows.
"""

from omnigraph.engine.maintain.doctor import DoctorFinding, check_manifests, check_tables
from omnigraph.storage.stores import Stores

__all__ = ["DoctorFinding", "check_graph", "check_manifests", "check_tables"]


def check_graph(stores: Stores, *, is_strict: bool = True) -> list[DoctorFinding]:
    """Everything wrong with a graph; nothing, it is hoped."""
    return [*check_manifests(stores, is_strict=is_strict), *check_tables(stores)]
