"""The staging record of a bulk job: files that no manifest and no sidecar names may be in use.

A load stages files for minutes before it arms, and until then no sidecar names them. The record
`__staging/{operation}.json` protects those files: cleanup deletes no file of a table that a live
record names. The job writes the record before its first file, renews it like a lease, and removes
it after the attempt (D8). A worker of a Spark that outlives the job probes the record and stops
(`LivenessProbe`).
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from threading import Event, Thread
from typing import Final

from omnigraph.commit.leases.lease import Timing
from omnigraph.commit.leases.owner import Owner, is_dead, this_process
from omnigraph.effects import Effects
from omnigraph.errors import ObjectNotFound, StorageFailure
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey, Version
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import STAGING, staging_record_key
from omnigraph.storage.objects import Objects, StoredObject

TORN_MS: Final = 60_000
"""How long a record that cannot be read counts as one that is being written."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagingRecord:
    operation_id: OperationId
    branch: BranchName
    tables: Mapping[TableKey, Version]
    """Every table that the job may write, with the version that the job started from."""
    owner: Owner
    ttl_ms: int
    is_clone: bool = False
    """Does the job copy the whole graph? Then cleanup removes nothing."""

    def encode(self, beats: int) -> bytes:
        document = {
            "operation_id": self.operation_id,
            "branch": self.branch,
            "tables": dict(self.tables),
            **asdict(self.owner),
            "ttl_ms": self.ttl_ms,
            "is_clone": self.is_clone,
            "beats": beats,
        }
        return json.dumps(document).encode()


@contextmanager
def staging(
    objects: Objects,
    operation_id: OperationId,
    branch: BranchName,
    tables: Mapping[TableKey, Version],
    timing: Timing,
    *,
    is_clone: bool = False,
) -> Iterator[StagingRecord]:
    """Write the record, renew it in the background, and remove it at the end, also on an error.

    A record that cannot be removed fails nothing: it expires.
    """
    record = StagingRecord(operation_id, branch, tables, this_process(), timing.ttl_ms, is_clone)
    key = staging_record_key(operation_id)
    objects.put_new(key, record.encode(0))
    done = Event()
    heart = Thread(
        target=_renew, args=(objects, record, done, timing.heartbeat_ms / 1000), daemon=True
    )
    heart.start()
    try:
        yield record
    finally:
        done.set()
        heart.join()
        try:
            objects.delete(key)
        except StorageFailure:
            logger.warning("the staging record of %s could not be removed", operation_id)


def _renew(objects: Objects, record: StagingRecord, done: Event, interval_s: float) -> None:
    """Waits in real time, as the heartbeat of leases does: other processes measure real time."""
    beats = 0
    while not done.wait(interval_s):
        beats += 1
        try:
            objects.put_over(staging_record_key(record.operation_id), record.encode(beats))
        except StorageFailure:
            logger.info("the staging record of %s was not renewed", record.operation_id)


@dataclass(frozen=True, slots=True)
class StagingStatus:
    """A bulk job, as cleanup and doctor see it."""

    operation_id: OperationId
    branch: BranchName
    tables: Mapping[TableKey, Version]
    is_alive: bool
    is_clone: bool = False


def find_staging(objects: Objects) -> tuple[StagingStatus, ...]:
    """The job of every record. A record that cannot be read names no table, and is dead once it is
    older than `TORN_MS`.
    """
    records = [
        each
        for each in objects.list(STAGING)
        if each.key.endswith(".json") and "/" not in each.key.removeprefix(f"{STAGING}/")
    ]
    # Reading the clock of a bucket writes an object, so it is read only if there is a record.
    now_ms = objects.clock_ms() if records else 0
    found = []
    for listed in records:
        name = listed.key.removeprefix(f"{STAGING}/")
        try:
            found.append(_decode(objects.read(listed.key), now_ms))
        except ObjectNotFound:
            continue
        except (ValueError, KeyError, TypeError):
            operation_id = OperationId(name.removesuffix(".json"))
            is_young = now_ms - listed.modified_ms <= TORN_MS
            found.append(StagingStatus(operation_id, MAIN, {}, is_young))
    return tuple(found)


def _decode(stored: StoredObject, now_ms: int) -> StagingStatus:
    document = read_json(stored.data)
    owner = Owner(
        host=document["host"],
        boot_id=document["boot_id"],
        pid=document["pid"],
        pid_start=document["pid_start"],
    )
    is_fresh = now_ms - stored.modified_ms <= document["ttl_ms"]
    return StagingStatus(
        OperationId(document["operation_id"]),
        BranchName(document["branch"]),
        {TableKey(key): Version(version) for key, version in document["tables"].items()},
        is_alive=is_fresh and not is_dead(owner),
        is_clone=document.get("is_clone", False) is True,
    )


PROBE_MS: Final = 1_000
"""How often a worker reads the record of its job."""
SILENT_TTLS: Final = 3
"""A worker stops once the record was not renewed for this many times to live. Cleanup waits for
one. A worker waits longer, because stopping it would fail a job that is only slow."""


class LivenessProbe:
    """Tells a worker in another process whether its job still runs.

    On the machine of the job's owner, a dead process is recognised at once. On another machine the
    record must keep changing; the clocks of two machines are never compared.
    """

    def __init__(self, objects: Objects, operation_id: OperationId, effects: Effects) -> None:
        self._objects = objects
        self._effects = effects
        self._key = staging_record_key(operation_id)
        self._probed_ms: int | None = None
        self._seen = b""
        self._changed_ms = 0

    def is_job_alive(self) -> bool:
        """False if the record was removed, was not renewed in time, or names a dead process."""
        now_ms = self._effects.monotonic_ms()
        if self._probed_ms is not None and now_ms - self._probed_ms < PROBE_MS:
            return True
        self._probed_ms = now_ms
        try:
            data = self._objects.read(self._key).data
        except ObjectNotFound:
            return False
        except StorageFailure:
            return True  # a store that fails says nothing about the job
        if data != self._seen:
            self._seen, self._changed_ms = data, now_ms
        try:
            document = read_json(data)
            owner = Owner(**{each.name: document[each.name] for each in fields(Owner)})
            ttl_ms = int(document["ttl_ms"])
        except (ValueError, KeyError, TypeError):
            return True  # the record is being written
        return not is_dead(owner) and now_ms - self._changed_ms <= SILENT_TTLS * ttl_ms
