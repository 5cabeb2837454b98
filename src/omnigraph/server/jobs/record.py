"""The record of a job: the value, its JSON document, and the objects that hold it."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.write.idempotency import forget_old_keys
from omnigraph.errors import JobNotFound, ObjectCorrupt, ObjectNotFound
from omnigraph.jsontext import read_json
from omnigraph.sdk.documents import iso_time
from omnigraph.storage.layout import JOBS, job_key
from omnigraph.storage.objects import Objects

JOBS_KEPT_MS: Final = 7 * 24 * 3_600_000
KEYS_KEPT_MS: Final = 30 * 24 * 3_600_000

_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}")


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """Its worker died before the commit; send the request again with the same key."""

    @property
    def is_open(self) -> bool:
        return self in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    kind: str
    branch: str
    actor: str | None
    key: str
    created_ms: int
    updated_ms: int
    state: JobState = JobState.QUEUED
    phase: str | None = None
    is_cancelled: bool = False
    result: JsonObject | None = None
    error: JsonObject | None = None
    body_hash: str | None = None
    """Identifies the request: the same key with another hash is refused."""
    progress: JsonObject | None = None
    """Finished and total parts of the phase, if the phase counts them."""

    @property
    def may_run_again(self) -> bool:
        """Did the job change nothing, and can a second run have another outcome?"""
        if self.state is JobState.FAILED:
            return self.error is not None and self.error.get("retryable") is True
        return self.state in (JobState.INTERRUPTED, JobState.CANCELLED)

    def document(self) -> JsonObject:
        return {
            "job_id": self.id,
            "kind": self.kind,
            "state": self.state.value,
            "branch": self.branch,
            "actor_id": self.actor,
            "created_at": self.created_ms * 1000,
            "created_at_iso": iso_time(self.created_ms * 1000),
            "updated_at": self.updated_ms * 1000,
            "updated_at_iso": iso_time(self.updated_ms * 1000),
            "phase": self.phase,
            "progress": self.progress,
            "cancel_requested": self.is_cancelled,
            "idempotency_key": self.key,
            "result": self.result,
            "error": self.error,
            "body_hash": self.body_hash,
        }


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What the caller wants done, and who the caller is."""

    kind: str
    branch: str
    actor: str | None
    key: str | None
    body_hash: str | None = None


Work = Callable[[str], JsonObject]
"""Takes the idempotency key of the job; returns the document of the answer."""


def decode_job(data: bytes) -> Job:
    """Raises ValueError, KeyError, TypeError."""
    found = read_json(data)
    return Job(
        id=found["job_id"],
        kind=found["kind"],
        branch=found["branch"],
        actor=found["actor_id"],
        key=found["idempotency_key"],
        created_ms=found["created_at"] // 1000,
        updated_ms=found["updated_at"] // 1000,
        state=JobState(found["state"]),
        phase=found["phase"],
        is_cancelled=found["cancel_requested"],
        result=found["result"],
        error=found["error"],
        body_hash=found.get("body_hash"),
        progress=found.get("progress"),
    )


def write_record(objects: Objects, job: Job) -> None:
    objects.put_over(job_key(job.id), json.dumps(job.document()).encode())


def read_record(objects: Objects, job_id: str) -> Job:
    """Raises JobNotFound, ObjectCorrupt."""
    if not _ID.fullmatch(job_id):
        raise JobNotFound(job_id)
    key = job_key(job_id)
    try:
        return decode_job(objects.read(key).data)
    except ObjectNotFound:
        raise JobNotFound(job_id) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectCorrupt(key, reason=f"it is not the record of a job: {error}") from error


def list_record_ids(objects: Objects) -> list[str]:
    """Newest first."""
    names = [each.key.removeprefix(f"{JOBS}/") for each in objects.list(JOBS)]
    ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return sorted(ids, reverse=True)


def request_cancel(objects: Objects, job_id: str) -> None:
    """(3) Write the marker that the worker of the job looks for."""
    objects.put_over(_cancel_key(job_id), b"{}")


def is_cancel_requested(objects: Objects, job_id: str) -> bool:
    return objects.exists(_cancel_key(job_id))


def remove_old_records(objects: Objects, now_ms: int) -> None:
    """(4) Raises StorageFailure."""
    for each in objects.list(JOBS):
        if now_ms - each.modified_ms < JOBS_KEPT_MS:
            continue
        name = each.key.removeprefix(f"{JOBS}/")
        with suppress(JobNotFound, ObjectCorrupt):
            is_record = name.endswith(".json")
            if is_record and read_record(objects, name.removesuffix(".json")).state.is_open:
                continue  # (2) its next reader finds out its outcome
        objects.delete(each.key)
    forget_old_keys(objects, before_ms=now_ms - KEYS_KEPT_MS)


def _cancel_key(job_id: str) -> str:
    return f"{JOBS}/{job_id}.cancel"
