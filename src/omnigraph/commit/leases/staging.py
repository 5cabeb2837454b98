"""The note of a bulk job: while it is renewed, files that nothing refers to may still be wanted.

A load writes for minutes before it arms. Until then no sidecar speaks for its files, so this note
does, from before the first of them to after the last step of the attempt (D8). It names the job's
owner, and it is renewed as a lease is, so whoever cleans up can tell a job that is under way from
one that died. Workers of a Spark that outlives the job look at it too, and stop (`Witness`).
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from threading import Event, Thread
from typing import Final

from omnigraph.commit.leases.holder import Timing
from omnigraph.commit.leases.owner import Owner, is_dead, this_process
from omnigraph.effects import Effects
from omnigraph.errors import ObjectNotFound, StorageFailure
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey, Version
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import STAGING, staging_note_key
from omnigraph.storage.objects import Objects, StoredObject

TORN_MS: Final = 60_000
"""How long a note that cannot be read counts as one that is being written."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagingNote:
    operation_id: OperationId
    branch: BranchName
    tables: Mapping[TableKey, Version]
    """Every table the job may write, at the version it started from."""
    owner: Owner
    ttl_ms: int

    def encode(self, beats: int) -> bytes:
        document = {
            "operation_id": self.operation_id,
            "branch": self.branch,
            "tables": dict(self.tables),
            **asdict(self.owner),
            "ttl_ms": self.ttl_ms,
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
) -> Iterator[StagingNote]:
    """Leave the note, keep it fresh, and remove it at the end, however that comes.

    A note that cannot be removed is not worth failing for: it goes stale by itself.
    """
    note = StagingNote(operation_id, branch, tables, this_process(), timing.ttl_ms)
    key = staging_note_key(operation_id)
    objects.put_new(key, note.encode(0))
    done = Event()
    heart = Thread(
        target=_renew, args=(objects, note, done, timing.heartbeat_ms / 1000), daemon=True
    )
    heart.start()
    try:
        yield note
    finally:
        done.set()
        heart.join()
        try:
            objects.delete(key)
        except StorageFailure:
            logger.warning("the staging note of %s could not be removed", operation_id)


def _renew(objects: Objects, note: StagingNote, done: Event, interval_s: float) -> None:
    """It waits on real time, as leases do: the note is a promise to other processes."""
    beats = 0
    while not done.wait(interval_s):
        beats += 1
        try:
            objects.put_over(staging_note_key(note.operation_id), note.encode(beats))
        except StorageFailure:
            logger.info("the staging note of %s was not renewed", note.operation_id)


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A note as whoever cleans up sees it."""

    operation_id: OperationId
    branch: BranchName
    tables: Mapping[TableKey, Version]
    is_alive: bool


def find_notes(objects: Objects) -> tuple[FoundNote, ...]:
    """Every note there is. One that cannot be read says nothing, and is dead once it is old."""
    notes = [
        each
        for each in objects.list(STAGING)
        if each.key.endswith(".json") and "/" not in each.key.removeprefix(f"{STAGING}/")
    ]
    # Asking a bucket for the time writes to it, which somebody who only looks should not.
    now_ms = objects.clock_ms() if notes else 0
    found = []
    for listed in notes:
        name = listed.key.removeprefix(f"{STAGING}/")
        try:
            found.append(_decode(objects.read(listed.key), now_ms))
        except ObjectNotFound:
            continue
        except (ValueError, KeyError, TypeError):
            operation_id = OperationId(name.removesuffix(".json"))
            is_young = now_ms - listed.modified_ms <= TORN_MS
            found.append(FoundNote(operation_id, MAIN, {}, is_young))
    return tuple(found)


def _decode(stored: StoredObject, now_ms: int) -> FoundNote:
    document = read_json(stored.data)
    owner = Owner(
        host=document["host"],
        boot_id=document["boot_id"],
        pid=document["pid"],
        pid_start=document["pid_start"],
    )
    is_fresh = now_ms - stored.modified_ms <= document["ttl_ms"]
    return FoundNote(
        OperationId(document["operation_id"]),
        BranchName(document["branch"]),
        {TableKey(key): Version(version) for key, version in document["tables"].items()},
        is_alive=is_fresh and not is_dead(owner),
    )


LOOK_MS: Final = 1_000
"""How often a worker looks whether its job goes on."""
SILENT_TTLS: Final = 3
"""For how many lifetimes of a note a worker waits for it to be renewed. Longer than who cleans up:
a job that was only slow would fail by it."""


class Witness:
    """Sees from another process whether the job of a note goes on.

    On the machine of its owner that is known at once. Elsewhere the note tells by changing; clocks
    of different machines are not compared.
    """

    def __init__(self, objects: Objects, operation_id: OperationId, effects: Effects) -> None:
        self._objects = objects
        self._effects = effects
        self._key = staging_note_key(operation_id)
        self._looked_ms: int | None = None
        self._seen = b""
        self._changed_ms = 0

    def is_wanted(self) -> bool:
        """False if the note was removed, its owner died, or it was not renewed for long."""
        now_ms = self._effects.monotonic_ms()
        if self._looked_ms is not None and now_ms - self._looked_ms < LOOK_MS:
            return True
        self._looked_ms = now_ms
        try:
            data = self._objects.read(self._key).data
        except ObjectNotFound:
            return False
        except StorageFailure:
            return True  # which says nothing about the job
        if data != self._seen:
            self._seen, self._changed_ms = data, now_ms
        try:
            document = read_json(data)
            owner = Owner(**{each.name: document[each.name] for each in fields(Owner)})
            ttl_ms = int(document["ttl_ms"])
        except (ValueError, KeyError, TypeError):
            return True  # it is being written
        return not is_dead(owner) and now_ms - self._changed_ms <= SILENT_TTLS * ttl_ms
