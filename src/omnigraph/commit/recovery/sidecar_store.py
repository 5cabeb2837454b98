"""Sidecars in the store: writing, reading, removing, and the locks that their writers hold."""

from collections.abc import Sequence
from typing import assert_never

from omnigraph.commit.compat.old_sidecar import OldSidecar, decode_old_sidecar
from omnigraph.commit.leases.lock_key import SCHEMA_LOCK_KEY, LockKey, branch_lock_key
from omnigraph.commit.manifest.document import load_document
from omnigraph.commit.recovery.sidecar import (
    VERSION_ALONE,
    VERSION_MAX,
    Sidecar,
    decode_sidecar,
)
from omnigraph.errors import ObjectNotFound, SidecarTooNew
from omnigraph.ids import OperationId
from omnigraph.storage.layout import RECOVERY, sidecar_key
from omnigraph.storage.objects import Listed, Objects

AnySidecar = Sidecar | OldSidecar


def write_sidecar(objects: Objects, sidecar: Sidecar) -> None:
    """Write or replace the sidecar, atomically."""
    objects.put_over(sidecar_key(sidecar.operation_id), sidecar.encode())


def remove_sidecar(objects: Objects, operation_id: OperationId, *, is_flushed: bool = True) -> None:
    """Remove the sidecar of an operation that has ended.

    The removal after an undo is flushed: a sidecar that came back after a power cut would undo the
    operation once more, and later writes with it. The sidecar of a published operation may come
    back: recovery finds its commit on the branch and removes the sidecar again (D31).
    """
    objects.delete(sidecar_key(operation_id), is_flushed=is_flushed)


def find_sidecars(
    objects: Objects, listed: Sequence[Listed] | None = None
) -> tuple[OperationId, ...]:
    """The operations with a sidecar, oldest first. Raises if the listing fails."""
    listed = objects.list(RECOVERY) if listed is None else listed
    names = [each.key.removeprefix(f"{RECOVERY}/") for each in listed]
    return tuple(
        OperationId(name.removesuffix(".json"))
        for name in names
        if name.endswith(".json") and "/" not in name
    )


def has_sidecar(objects: Objects, operation_id: OperationId) -> bool:
    return objects.exists(sidecar_key(operation_id))


def read_sidecar(objects: Objects, operation_id: OperationId) -> AnySidecar | None:
    """None if the operation has no sidecar. Raises SidecarCorrupt, SidecarTooNew."""
    key = sidecar_key(operation_id)
    try:
        data = objects.read(key).data
    except ObjectNotFound:
        return None
    document = load_document(data, file=key)
    version = document.take("schema_version", int)
    if version > VERSION_MAX:
        raise SidecarTooNew(key, found=version, supported=VERSION_MAX)
    is_old = version < VERSION_ALONE
    found = decode_old_sidecar(document, version) if is_old else decode_sidecar(document)
    if found.operation_id != operation_id:
        raise document.corrupt(f"it is the sidecar of operation {found.operation_id!r}")
    return found


def lock_keys_of(sidecar: AnySidecar) -> list[LockKey]:
    """The lock keys that the writer holds. A writer that moves no table locks the branch."""
    match sidecar:
        case Sidecar(writes=writes):
            lock_keys = [each.lock_key for each in writes]
        case OldSidecar(pins=pins):
            lock_keys = [LockKey(each.key, each.branch) for each in pins]
        case _:
            assert_never(sidecar)
    if isinstance(sidecar, Sidecar) and sidecar.schema is not None:
        lock_keys.append(SCHEMA_LOCK_KEY)
    return lock_keys or [branch_lock_key(sidecar.branch)]
