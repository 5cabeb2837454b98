"""The lease object: which operation of which process may write a table on a branch.

`__leases/{table}@{branch}.json` is one lease. A process only ever changes it by compare-and-swap:
acquire, renew, release, take over. A released lease stays in the store with `is_free`, so its epoch
only rises.
"""

import json
from dataclasses import dataclass
from typing import Final

from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.owner import Owner
from omnigraph.errors import LeaseCorrupt
from omnigraph.ids import OperationId
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import lease_key
from omnigraph.storage.objects import Tag

SIZE_STEP_BYTES: Final = 128
"""A lease is padded to a multiple of this: the store replaces an object of equal size faster."""

FIRST_EPOCH: Final = 1
"""The epoch of a lease in the operation that created its object."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The time limits of leases, in milliseconds."""

    ttl_ms: int = 10_000
    heartbeat_ms: int = 3_000
    wait_ms_max: int = 30_000
    poll_ms: int = 2
    streak_ms: int = 250
    """How long one process may pass a lease among its own writers while other processes wait."""
    kept_ms: int = 1_000
    """How long a process keeps a lease after a write, if the store is remote."""
    surrender_poll_ms: int = 30
    """How often a process looks whether another one wants a lease that it keeps."""


DEFAULT_TIMING: Final = Timing()


@dataclass(frozen=True, slots=True)
class Lease:
    """The content of a lease object."""

    owner: Owner
    operation_id: OperationId
    epoch: int
    ttl_ms: int
    beats: int = 0
    """The number of renewals. It makes the bytes, and so the tag, of every renewal differ."""
    is_free: bool = False

    def encode(self) -> bytes:
        document = {
            "operation_id": self.operation_id,
            "owner": str(self.owner),
            "host": self.owner.host,
            "boot_id": self.owner.boot_id,
            "pid": self.owner.pid,
            "pid_start": self.owner.pid_start,
            "epoch": self.epoch,
            "ttl_ms": self.ttl_ms,
            "beats": self.beats,
            "is_free": self.is_free,
        }
        data = json.dumps(document).encode()
        return data.ljust(-len(data) // SIZE_STEP_BYTES * -SIZE_STEP_BYTES)


def decode_lease(data: bytes, *, key: str) -> Lease:
    """Raises LeaseCorrupt."""
    try:
        document = read_json(data)
        owner = Owner(
            host=document["host"],
            boot_id=document["boot_id"],
            pid=document["pid"],
            pid_start=document["pid_start"],
        )
        return Lease(
            owner=owner,
            operation_id=OperationId(document["operation_id"]),
            epoch=document["epoch"],
            ttl_ms=document["ttl_ms"],
            beats=document.get("beats", 0),
            is_free=document.get("is_free", False),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LeaseCorrupt(key, reason=str(error)) from error


@dataclass(frozen=True, slots=True)
class OwnedLease:
    """A lease of this process, and the tag its next compare-and-swap must match."""

    lease: Lease
    tag: Tag
    since_ms: int = 0
    """When this process acquired the lease. Passing it to another writer does not change this."""


class LeaseAbandoned(Exception):
    """The holder of a lease is dead, or did not renew it. Never leaves the commit layer."""

    def __init__(self, lock_key: LockKey, operation_id: OperationId) -> None:
        self.lock_key = lock_key
        self.operation_id = operation_id
        super().__init__(f"{lock_key.table} on {lock_key.branch} was abandoned by {operation_id}")


def path_of(lock_key: LockKey) -> str:
    """The key of the lease object in the store."""
    return lease_key(lock_key.table, lock_key.branch)
