"""Long work that nobody waits for: a job, kept beside the graph as `__jobs/{id}.json` (D17).

1. A job runs in the worker that took it. The record says so, and is renewed while it does.
2. Every job has an idempotency key: the caller's, or one of its own. Should the worker die, whoever
   looks at the job next finds out by the key whether its commit is there: then it succeeded, and
   otherwise it was interrupted, and can be sent again with the same key.
3. To cancel is to ask. A job looks at every step whether it was asked, until its tables move; what
   is cancelled has changed nothing.
"""

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from threading import Event, Lock
from typing import Final

from omnigraph.commit.records import JsonObject
from omnigraph.effects import Effects
from omnigraph.engine.progress import watched
from omnigraph.errors import JobCancelled, JobNotFound, ObjectNotFound, OmnigraphError
from omnigraph.sdk.documents import commit_document
from omnigraph.sdk.local import LocalGraph
from omnigraph.server import metrics
from omnigraph.server.problems import problem_document
from omnigraph.storage.layout import JOBS, job_key
from omnigraph.storage.objects import Objects

RUNNING_MAX: Final = 2
"""How many jobs of a worker run at once; the others wait."""

RENEW_MS: Final = 3_000
SILENT_MS: Final = 20_000
"""A job that was not renewed for so long has lost its worker."""

TOO_LATE: Final = ("apply", "confirm", "publish", "disarm", "undo")
"""Steps from which on a job is not cancelled any more."""

logger = logging.getLogger(__name__)


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """Its worker died before its commit was there; send it again with the same key."""

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

    def document(self) -> JsonObject:
        return {
            "job_id": self.id,
            "kind": self.kind,
            "state": self.state.value,
            "branch": self.branch,
            "actor_id": self.actor,
            "created_at": self.created_ms * 1000,
            "updated_at": self.updated_ms * 1000,
            "phase": self.phase,
            "cancel_requested": self.is_cancelled,
            "idempotency_key": self.key,
            "result": self.result,
            "error": self.error,
        }


def decode_job(data: bytes) -> Job:
    found = json.loads(data)
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
    )


Work = Callable[[str], JsonObject]
"""Given its idempotency key; gives the document of the answer."""


@dataclass(frozen=True, slots=True)
class JobOrder:
    """What a job is, and whose."""

    kind: str
    branch: str
    actor: str | None
    key: str | None


class Jobs:
    """The jobs of this worker, and a look at those of the others."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._pool = ThreadPoolExecutor(RUNNING_MAX, thread_name_prefix="job")

    def submit(
        self, graph: LocalGraph, order: JobOrder, work: Work, done: Callable[[], None]
    ) -> Job:
        """Begin a job; `done` is called when it is over, whatever came of it.

        A job that has this key already is the answer, and nothing begins.
        """
        before = self._find_by_key(graph, order)
        if before is not None and before.state is not JobState.INTERRUPTED:
            done()
            return before
        now, job_id = self._effects.now_ms(), self._effects.new_id()
        key = order.key or f"job:{job_id}"
        job = Job(job_id, order.kind, order.branch, order.actor, key, now, now)
        run = _Run(self._effects, graph.objects, job)
        run.save()
        self._pool.submit(run.carry_out, work, done)
        return job

    def find(self, graph: LocalGraph, job_id: str) -> Job:
        """Raises JobNotFound."""
        return self._look(graph, _read(graph.objects, job_id))

    def list(self, graph: LocalGraph) -> list[Job]:
        """Newest first."""
        names = [each.key.removeprefix(f"{JOBS}/") for each in graph.objects.list(JOBS)]
        ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return [self.find(graph, each) for each in sorted(ids, reverse=True)]

    def cancel(self, graph: LocalGraph, job_id: str) -> Job:
        """(3) Ask a job to stop. Raises JobNotFound."""
        job = self.find(graph, job_id)
        if job.state.is_open and not job.is_cancelled:
            graph.objects.put_over(_cancel_key(job_id), b"{}")
            job = replace(job, is_cancelled=True)
        return job

    def close(self) -> None:
        """Wait for what runs; what waits is not begun any more."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _find_by_key(self, graph: LocalGraph, order: JobOrder) -> Job | None:
        if order.key is None:
            return None
        wanted = (order.kind, order.key, order.actor)
        found = (each for each in self.list(graph) if (each.kind, each.key, each.actor) == wanted)
        return next(found, None)

    def _look(self, graph: LocalGraph, job: Job) -> Job:
        """(2) The job, and what became of it if its worker is gone."""
        if not job.state.is_open or self._effects.now_ms() - job.updated_ms < SILENT_MS:
            return job
        commit = graph.find_write(job.key, branch=job.branch, actor=job.actor)
        if commit is None:
            ended = replace(job, state=JobState.INTERRUPTED, phase=None)
        else:
            result: JsonObject = {"commit": commit_document(commit)}
            ended = replace(job, state=JobState.SUCCEEDED, phase=None, result=result)
        graph.objects.put_over(job_key(job.id), json.dumps(ended.document()).encode())
        return ended


class _Run:
    """One job on its way."""

    def __init__(self, effects: Effects, objects: Objects, job: Job) -> None:
        self._effects = effects
        self._objects = objects
        self._job = job
        self._over = Event()
        self._lock = Lock()

    def save(self, **changes: object) -> None:
        with self._lock:
            now = self._effects.now_ms()
            self._job = replace(self._job, updated_ms=now, **changes)  # type: ignore[arg-type]
            data = json.dumps(self._job.document()).encode()
            self._objects.put_over(job_key(self._job.id), data)

    def carry_out(self, work: Work, done: Callable[[], None]) -> None:
        renewing = ThreadPoolExecutor(1, thread_name_prefix="job-renewal")
        renewing.submit(self._renew)
        try:
            self._end(work)
        finally:
            self._over.set()
            renewing.shutdown()
            done()
            metrics.JOBS.labels(self._job.kind, self._job.state.value).inc()

    def _end(self, work: Work) -> None:
        try:
            self._watch("reading")
            with watched(self._watch):
                result = work(self._job.key)
            self.save(state=JobState.SUCCEEDED, phase=None, result=result)
        except JobCancelled:
            self.save(state=JobState.CANCELLED, phase=None)
        except OmnigraphError as error:
            self.save(state=JobState.FAILED, phase=None, error=problem_document(error))
        except Exception:
            logger.exception("job %s failed", self._job.id)
            told: JsonObject = {"error": "internal error", "code": "internal"}
            self.save(state=JobState.FAILED, phase=None, error=told)

    def _watch(self, step: str) -> None:
        """Raises JobCancelled, while there is time."""
        if not step.startswith(TOO_LATE) and self._objects.exists(_cancel_key(self._job.id)):
            raise JobCancelled(self._job.id)
        if step != self._job.phase:
            self.save(state=JobState.RUNNING, phase=step)

    def _renew(self) -> None:
        while not self._over.wait(RENEW_MS / 1000):
            self.save()


def _read(objects: Objects, job_id: str) -> Job:
    if not job_id.isalnum():
        raise JobNotFound(job_id)
    try:
        return decode_job(objects.read(job_key(job_id)).data)
    except ObjectNotFound:
        raise JobNotFound(job_id) from None


def _cancel_key(job_id: str) -> str:
    return f"{JOBS}/{job_id}.cancel"
