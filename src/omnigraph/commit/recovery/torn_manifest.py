"""Publishes that a power cut interrupted: the newest version of a manifest cannot be read.

A publish is flushed after it lands and before it is acknowledged. A power cut in between may leave
the name of the new version without its content, and then no version of the branch can be opened.
The publish was not acknowledged, so its version is removed, and the sidecar of the operation is
resolved as if the publish had not begun.

1. Only a branch that a sidecar names is examined. A sidecar is on the disk before a table moves,
   and is removed after the acknowledgement. An unreadable version of any other branch is damage,
   and may hide acknowledged commits: it is reported and never removed. If the branch of the sidecar
   was deleted, the recovery is published on main (`resolve`), so main is examined.
2. Processes that remove a torn version exclude each other by a lease. No publish lands meanwhile,
   because the number of the torn version is taken.
"""

import logging
from collections.abc import Iterator

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.holder import AcquireMode
from omnigraph.commit.leases.lock_key import manifest_queue_key
from omnigraph.commit.manifest.base import manifest_ref
from omnigraph.commit.recovery.inspect import clear_torn, is_orphaned
from omnigraph.commit.recovery.sidecar_store import find_sidecars, read_sidecar
from omnigraph.errors import CorruptionError
from omnigraph.ids import MAIN, BranchName, OperationId

logger = logging.getLogger(__name__)


def clear_torn_manifests(context: WriteContext) -> None:
    """Remove the torn newest version of each branch that a sidecar names.

    Costs one listing if there is no sidecar. Only for a disk: an object of a bucket is complete or
    missing.
    """
    if context.stores.is_remote:
        return
    for branch in sorted(set(_find_branches(context))):
        if _is_torn(context, branch):
            _clear(context, branch)


def _find_branches(context: WriteContext) -> Iterator[BranchName]:
    for operation_id in find_sidecars(context.stores.objects):
        try:
            sidecar = read_sidecar(context.stores.objects, operation_id)
        except CorruptionError:
            continue  # the recovery of that sidecar reports it
        if sidecar is not None:
            yield MAIN if is_orphaned(context, sidecar) else sidecar.branch


def _is_torn(context: WriteContext, branch: BranchName) -> bool:
    tables = context.stores.tables
    whole = tables.find_whole(manifest_ref(branch))
    return whole is not None and tables.find_torn(whole) is not None


def _clear(context: WriteContext, branch: BranchName) -> None:
    """(2)"""
    operation_id = OperationId(context.stores.effects.new_id())
    lock_key = manifest_queue_key(branch)
    with context.leases.hold([lock_key], operation_id, AcquireMode.TAKE_OVER):
        whole = context.stores.tables.find_whole(manifest_ref(branch))
        if whole is not None:
            clear_torn(context, whole)
