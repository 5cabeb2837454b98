"""What must hold of a graph after every race, crash and recovery.

The rules are those of `engine.maintain.doctor`, without the exceptions that a cleanup allows.
"""

from omnigraph.engine.maintain.doctor import DoctorFinding, check_manifests, check_tables
from omnigraph.storage.stores import Stores

__all__ = ["DoctorFinding", "check_graph", "check_manifests", "check_tables"]


def check_graph(stores: Stores, *, is_strict: bool = True) -> list[DoctorFinding]:
    """Every rule that a graph breaks; an empty list for a sound graph."""
    return [*check_manifests(stores, is_strict=is_strict), *check_tables(stores)]
