"""Long work that nobody waits for: a job, kept beside the graph as `__jobs/{id}.json` (D17).

1. A job waits and runs in the worker that took it. The record says so, and is renewed meanwhile.
2. Every job has an idempotency key: the caller's, or one of its own. Should the worker die, whoever
   looks at the job next finds out by the key whether its commit is there: then it succeeded, and
   otherwise it was interrupted, and can be sent again with the same key.
3. To cancel is to ask. A job looks at every step and stage whether it was asked, and its renewal
   looks in between and stops what runs on Spark, until its tables move; what is cancelled has
   changed nothing. A worker that stops gives its jobs some time, and then stops them likewise.
4. Records of jobs that are over are removed after some days, and so are notes of keys that left no
   commit (`engine.write.idempotency`); nobody asks about them any more.
"""

import json
import logging
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from threading import Event, Lock, Thread
from typing import Final

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.effects import Effects
from omnigraph.engine.cancellation import CancelToken, watched
from omnigraph.engine.stages import watching
from omnigraph.engine.write.idempotency import forget_promises
from omnigraph.errors import (
    JobCancelled,
    JobNotFound,
    KeyReused,
    ObjectCorrupt,
    ObjectNotFound,
    OmnigraphError,
    StorageFailure,
)
from omnigraph.jsontext import read_json
from omnigraph.sdk.documents import commit_document
from omnigraph.sdk.local import LocalGraph
from omnigraph.server.responses.error_mapping import problem_document
from omnigraph.server.telemetry import metrics
from omnigraph.storage.layout import JOBS, job_key
from omnigraph.storage.objects import Objects

RUNNING_MAX: Final = 2
"""How many jobs of a worker run at once; the others wait."""

LOOK_MS: Final = 500
"""How soon a job that is busy notices that it was cancelled."""

RENEW_MS: Final = 3_000
SILENT_MS: Final = 20_000
"""A job that was not renewed for so long has lost its worker."""

JOBS_KEPT_MS: Final = 7 * 24 * 3_600_000
KEYS_KEPT_MS: Final = 30 * 24 * 3_600_000
SWEEP_MS: Final = 3_600_000
"""How often a worker looks for what may be removed."""

_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}")

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
    body_hash: str | None = None
    """What was asked for; the same key must not ask for something else."""
    progress: JsonObject | None = None
    """How far the phase is, if that can be told: parts that are done, and all of them."""

    @property
    def may_run_again(self) -> bool:
        """Did it change nothing, and may it come out otherwise the next time?"""
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
            "updated_at": self.updated_ms * 1000,
            "phase": self.phase,
            "progress": self.progress,
            "cancel_requested": self.is_cancelled,
            "idempotency_key": self.key,
            "result": self.result,
            "error": self.error,
            "body_hash": self.body_hash,
        }


def decode_job(data: bytes) -> Job:
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


Work = Callable[[str], JsonObject]
"""Given its idempotency key; gives the document of the answer."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What a job is, and whose."""

    kind: str
    branch: str
    actor: str | None
    key: str | None
    body_hash: str | None = None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job that has not begun."""

    run: "_Run"
    future: "Future[None]"
    done: Callable[[], None]


class Jobs:
    """The jobs of this worker, and a look at those of the others."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._pool = ThreadPoolExecutor(RUNNING_MAX, thread_name_prefix="job")
        self._waiting: dict[str, _Waiting] = {}
        self._running: dict[str, tuple[_Run, Future[None]]] = {}
        self._is_renewing = False
        self._swept_ms: dict[str, int] = {}
        self._lock = Lock()

    def submit(
        self, graph: LocalGraph, order: JobRequest, work: Work, done: Callable[[], None]
    ) -> Job:
        """Begin a job; `done` is called when it is over, whatever came of it.

        A job that has this key already is the answer, and nothing begins, unless it came to nothing
        and may come to something now. Raises KeyReused.
        """
        try:
            return self._submit(graph, order, work, done)
        except BaseException:
            done()
            raise

    def _submit(
        self, graph: LocalGraph, order: JobRequest, work: Work, done: Callable[[], None]
    ) -> Job:
        self._sweep(graph)
        before = self._find_by_key(graph, order)
        if before is not None and not before.may_run_again:
            done()
            return before
        now, job_id = self._effects.now_ms(), self._effects.new_id()
        key = order.key or f"job:{job_id}"
        job = Job(
            job_id, order.kind, order.branch, order.actor, key, now, now, body_hash=order.body_hash
        )
        run = _Run(self._effects, graph.objects, job)
        run.save()
        with self._lock:
            future = self._pool.submit(self._begin, run, work, done)
            self._waiting[job_id] = _Waiting(run, future, done)
            if not self._is_renewing:
                self._is_renewing = True
                Thread(target=self._renew_waiting, name="job-waiting", daemon=True).start()
        return job

    def _begin(self, run: "_Run", work: Work, done: Callable[[], None]) -> None:
        with self._lock:
            self._running[run.id] = (run, self._waiting.pop(run.id).future)
        try:
            run.carry_out(work, done)
        finally:
            with self._lock:
                del self._running[run.id]

    def _renew_waiting(self) -> None:
        """(1) Until nothing waits. Others take a job that is not renewed for one of the dead."""
        while True:
            self._effects.sleep_ms(LOOK_MS)
            with self._lock:
                waiting = list(self._waiting.values())
                if not waiting:
                    self._is_renewing = False
                    return
            for each in waiting:
                try:
                    if each.run.is_asked_to_stop():
                        self._drop(each, JobState.CANCELLED)
                    else:
                        each.run.renew()
                except OmnigraphError as failure:
                    logger.info("job %s was not renewed: %s", each.run.id, failure)

    def _drop(self, waiting: "_Waiting", state: JobState) -> None:
        """It will not be begun; unless it just was."""
        if waiting.future.cancel():
            with self._lock:
                self._waiting.pop(waiting.run.id, None)
            try:
                waiting.run.save(state=state, is_cancelled=state is JobState.CANCELLED)
            finally:
                waiting.done()

    def find(self, graph: LocalGraph, job_id: str) -> Job:
        """Raises JobNotFound."""
        job = self._look(graph, _read(graph.objects, job_id))
        if job.state.is_open and graph.objects.exists(_cancel_key(job_id)):
            return replace(job, is_cancelled=True)
        return job

    def list(self, graph: LocalGraph) -> list[Job]:
        """Newest first. What cannot be read is left out, and logged."""
        names = [each.key.removeprefix(f"{JOBS}/") for each in graph.objects.list(JOBS)]
        ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        found = []
        for each in sorted(ids, reverse=True):
            with suppress(JobNotFound):  # removed meanwhile
                try:
                    found.append(self.find(graph, each))
                except ObjectCorrupt as corrupt:
                    logger.warning("%s", corrupt)
        return found

    def cancel(self, graph: LocalGraph, job_id: str) -> Job:
        """(3) Ask a job to stop. Raises JobNotFound."""
        job = self.find(graph, job_id)
        if job.state.is_open and not job.is_cancelled:
            graph.objects.put_over(_cancel_key(job_id), b"{}")
            job = replace(job, is_cancelled=True)
        return job

    def close(self, patience_s: float | None = None) -> None:
        """Wait for what runs, at most so long; what waits is not begun any more, and says so."""
        with self._lock:
            waiting = list(self._waiting.values())
        for each in waiting:
            self._drop(each, JobState.INTERRUPTED)
        with self._lock:
            running = list(self._running.values())
        wait([future for _, future in running], patience_s)
        for run, future in running:
            if not future.done():
                run.interrupt()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _find_by_key(self, graph: LocalGraph, order: JobRequest) -> Job | None:
        """Raises KeyReused."""
        if order.key is None:
            return None
        wanted = (order.key, order.actor, order.branch)
        for each in self.list(graph):
            if (each.key, each.actor, each.branch) == wanted:
                if (each.kind, each.body_hash) != (order.kind, order.body_hash):
                    raise KeyReused(order.key)
                return each
        return None

    def _sweep(self, graph: LocalGraph) -> None:
        """(4) Now and then."""
        now = self._effects.now_ms()
        with self._lock:
            if now - self._swept_ms.get(graph.uri, 0) < SWEEP_MS:
                return
            self._swept_ms[graph.uri] = now
        try:
            _remove_old(graph.objects, now)
        except StorageFailure as failure:
            logger.info("old records were left where they are: %s", failure)

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


def _remove_old(objects: Objects, now_ms: int) -> None:
    """Raises StorageFailure."""
    for each in objects.list(JOBS):
        if now_ms - each.modified_ms < JOBS_KEPT_MS:
            continue
        name = each.key.removeprefix(f"{JOBS}/")
        with suppress(JobNotFound, ObjectCorrupt):
            is_record = name.endswith(".json")
            if is_record and _read(objects, name.removesuffix(".json")).state.is_open:
                continue  # whoever looks at it next finds out what became of it
        objects.delete(each.key)
    forget_promises(objects, before_ms=now_ms - KEYS_KEPT_MS)


class _Run:
    """One job on its way. It is told of the stages of its work."""

    def __init__(self, effects: Effects, objects: Objects, job: Job) -> None:
        self._effects = effects
        self._objects = objects
        self._job = job
        self._over = Event()
        self._lock = Lock()
        self._token = CancelToken()
        self._is_stopped = False
        self._is_interrupted = False
        self._renewed_ms = effects.monotonic_ms()
        self._progress: JsonObject | None = None

    @property
    def id(self) -> str:
        return self._job.id

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
            with watched(self._watch, self._token), watching(self):
                result = work(self._job.key)
            self.save(state=JobState.SUCCEEDED, phase=None, progress=None, result=result)
        except JobCancelled:
            self._cancel()
        except OmnigraphError as error:
            if self._is_stopped:
                # What was stopped tells of it in its own way, and has left nothing behind.
                self._cancel()
                return
            told = problem_document(error)
            self.save(state=JobState.FAILED, phase=None, progress=None, error=told)
        except Exception:
            logger.exception("job %s failed", self._job.id)
            unknown: JsonObject = {"error": "internal error", "code": "internal"}
            self.save(state=JobState.FAILED, phase=None, progress=None, error=unknown)

    def interrupt(self) -> None:
        """(3) Nobody asked for it, but the worker stops."""
        self._is_interrupted = True
        self._stop_if_asked()

    def renew(self) -> None:
        """(1) Now and then, and if there is progress."""
        now_ms = self._effects.monotonic_ms()
        if now_ms - self._renewed_ms >= RENEW_MS or self._progress != self._job.progress:
            self._renewed_ms = now_ms
            self.save(progress=self._progress)

    def is_asked_to_stop(self) -> bool:
        is_known = self._is_stopped or self._is_interrupted
        return is_known or self._objects.exists(_cancel_key(self._job.id))

    def _cancel(self) -> None:
        if self._is_interrupted:
            self.save(state=JobState.INTERRUPTED, phase=None, progress=None)
        else:
            self.save(state=JobState.CANCELLED, phase=None, progress=None, is_cancelled=True)

    def _watch(self, step: str) -> None:
        """(3) Raises JobCancelled, while there is time."""
        if not step.startswith(TOO_LATE) and self.is_asked_to_stop():
            raise JobCancelled(self._job.id)
        if step != self._job.phase:
            self._progress = None
            self.save(state=JobState.RUNNING, phase=step, progress=None)

    def _renew(self) -> None:
        while not self._over.wait(LOOK_MS / 1000):
            self._stop_if_asked()
            self.renew()

    def _stop_if_asked(self) -> None:
        """(3) From outside the thread that does the work; and again, if it had not quite begun."""
        phase = self._job.phase
        is_early = phase is not None and not phase.startswith(TOO_LATE)
        if is_early and self.is_asked_to_stop():
            self._is_stopped = True
            self._token.cancel()

    # what the stages of the work tell

    def begin(self, stage: str) -> None:
        self._watch(stage)

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:  # noqa: ARG002
        self._progress = {"done": done, "total": total, "rows": rows}

    def count(self, stage: str, rows: int) -> None:
        """It is told with the result."""

    def end(self, stage: str, *, elapsed_ms: int) -> None:
        metrics.STAGES.labels(stage).observe(elapsed_ms / 1000)


def _read(objects: Objects, job_id: str) -> Job:
    if not _ID.fullmatch(job_id):
        raise JobNotFound(job_id)
    key = job_key(job_id)
    try:
        return decode_job(objects.read(key).data)
    except ObjectNotFound:
        raise JobNotFound(job_id) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectCorrupt(key, reason=f"it is not the record of a job: {error}") from error


def _cancel_key(job_id: str) -> str:
    return f"{JOBS}/{job_id}.cancel"
