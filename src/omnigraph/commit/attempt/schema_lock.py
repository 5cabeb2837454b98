"""The lock of a schema change: a branch of the manifest, as the reference makes it, and its owner.

Among our processes the lease on the schema excludes other schema changes. The branch tells other
programs that a schema change runs, and lets our writers refuse at once instead of waiting.

1. A schema change holds the lease before the branch exists and until the branch is removed.
2. `__schema_lock.json` beside the branch says that the branch is ours. A process that finds both
   and acquires the lease knows that the schema change is dead, and removes both (G8).
3. A branch without that file belongs to another program. It is left alone.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.lease import LeaseAbandoned
from omnigraph.commit.leases.lock_key import SCHEMA_LOCK_KEY
from omnigraph.commit.leases.owner import this_process
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.recovery.heal import clear_abandoned
from omnigraph.errors import LeaseHeld, ObjectNotFound, SchemaLocked, StorageFailure
from omnigraph.ids import SCHEMA_LOCK, OperationId
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import MANIFEST, SCHEMA_LOCK_OWNER, branch_ref_file

logger = logging.getLogger(__name__)


@contextmanager
def locked(context: WriteContext, held: HeldLeases, base: Base) -> Iterator[None]:
    """Lock the schema for other programs. The caller holds the lease. Raises SchemaLocked."""
    stores = context.stores
    assert SCHEMA_LOCK_KEY in held.lock_keys, "(1)"
    if is_locked(context):
        if not stores.objects.exists(SCHEMA_LOCK_OWNER):
            raise _locked(context)
        _remove(context)
    document = {"operation_id": held.operation_id, "owner": str(this_process())}
    stores.objects.put_over(SCHEMA_LOCK_OWNER, json.dumps(document).encode())
    # A fork that died halfway left a folder, which would make this fork fail.
    stores.tables.clear_branch(MANIFEST, SCHEMA_LOCK)
    stores.tables.fork(base.handle, SCHEMA_LOCK)
    try:
        yield
    finally:
        try:
            _remove(context)
        except StorageFailure:
            # (2) The next writer removes it.
            logger.warning("the lock of a schema change could not be removed")


def check_unlocked(context: WriteContext) -> None:
    """Raises SchemaLocked while a live process changes the schema. Costs one request."""
    if not is_locked(context):
        return
    clear_stale(context)
    if is_locked(context):
        raise _locked(context)


def clear_stale(context: WriteContext) -> None:
    """Remove a lock of ours whose process is gone, and recover its operation.

    Costs one request if there is no lock.
    """
    if not context.stores.objects.exists(SCHEMA_LOCK_OWNER):
        return
    operation_id = OperationId(context.stores.effects.new_id())
    while True:
        if not context.queues.is_free(SCHEMA_LOCK_KEY):
            return
        try:
            with (
                context.queues.hold([SCHEMA_LOCK_KEY]),
                context.leases.hold([SCHEMA_LOCK_KEY], operation_id, wait_ms_max=0),
            ):
                _remove(context)
                return
        except LeaseHeld:
            return
        except LeaseAbandoned as abandoned:
            late = abandoned
        clear_abandoned(context, late)


def is_locked(context: WriteContext) -> bool:
    """Does the lock exist, also if its process is gone? Costs one request."""
    return context.stores.tables.find_branch(MANIFEST, SCHEMA_LOCK) is not None


def _remove(context: WriteContext) -> None:
    """The file is removed last: while the branch exists, the file says that it is ours."""
    context.stores.tables.clear_branch(MANIFEST, SCHEMA_LOCK)
    context.stores.objects.delete(SCHEMA_LOCK_OWNER)


def _locked(context: WriteContext) -> SchemaLocked:
    objects = context.stores.objects
    try:
        made_ms = objects.read(f"{MANIFEST}/{branch_ref_file(SCHEMA_LOCK)}").modified_ms
        age_ms = max(0, objects.clock_ms() - made_ms)
    except ObjectNotFound:
        age_ms = None
    try:
        owner = read_json(objects.read(SCHEMA_LOCK_OWNER).data).get("owner")
    except (ObjectNotFound, ValueError):
        owner = None
    return SchemaLocked(owner=owner, age_ms=age_ms)
