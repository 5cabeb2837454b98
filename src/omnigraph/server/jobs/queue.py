"""The jobs of one worker: a queue with `RUNNING_MAX` threads, and the records of all workers."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock, Thread
from typing import Final

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.effects import Effects
from omnigraph.errors import JobNotFound, KeyReused, ObjectCorrupt, OmnigraphError, StorageFailure
from omnigraph.sdk.documents import commit_document
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.jobs.record import (
    Job,
    JobRequest,
    JobState,
    Work,
    is_cancel_requested,
    list_record_ids,
    read_record,
    remove_old_records,
    request_cancel,
    write_record,
)
from omnigraph.server.jobs.run import LOOK_MS, JobRun

RUNNING_MAX: Final = 2
"""How many jobs of a worker run at once; the others wait."""

SILENT_MS: Final = 20_000
"""(1) A record that was not renewed for so long has lost its worker."""

SWEEP_MS: Final = 3_600_000
"""(4) How often a worker removes old records of a graph."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job that has not started."""

    run: JobRun
    future: "Future[None]"
    done: Callable[[], None]


class JobQueue:
    """Runs the jobs of this worker; finds, lists and cancels the jobs of every worker."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._pool = ThreadPoolExecutor(RUNNING_MAX, thread_name_prefix="job")
        self._waiting: dict[str, _Waiting] = {}
        self._running: dict[str, tuple[JobRun, Future[None]]] = {}
        self._is_renewing = False
        self._swept_ms: dict[str, int] = {}
        self._lock = Lock()

    def submit(
        self, graph: LocalGraph, request: JobRequest, work: Work, done: Callable[[], None]
    ) -> Job:
        """Queue a job; `done` is called when the job ends, whatever its outcome.

        If a job with the same key exists, it is returned and no job is queued, unless that job may
        run again. Raises KeyReused.
        """
        try:
            return self._submit(graph, request, work, done)
        except BaseException:
            done()
            raise

    def _submit(
        self, graph: LocalGraph, request: JobRequest, work: Work, done: Callable[[], None]
    ) -> Job:
        self._sweep(graph)
        before = self._find_by_key(graph, request)
        if before is not None and not before.may_run_again:
            done()
            return before
        now, job_id = self._effects.now_ms(), self._effects.new_id()
        key = request.key or f"job:{job_id}"
        job = Job(
            job_id,
            request.kind,
            request.branch,
            request.actor,
            key,
            now,
            now,
            body_hash=request.body_hash,
        )
        run = JobRun(self._effects, graph.objects, job)
        run.save()
        with self._lock:
            future = self._pool.submit(self._run, run, work, done)
            self._waiting[job_id] = _Waiting(run, future, done)
            if not self._is_renewing:
                self._is_renewing = True
                Thread(target=self._renew_waiting, name="job-waiting", daemon=True).start()
        return job

    def _run(self, run: JobRun, work: Work, done: Callable[[], None]) -> None:
        with self._lock:
            self._running[run.id] = (run, self._waiting.pop(run.id).future)
        try:
            run.carry_out(work, done)
        finally:
            with self._lock:
                del self._running[run.id]

    def _renew_waiting(self) -> None:
        """(1) Renew the records of waiting jobs, until no job waits."""
        while True:
            self._effects.sleep_ms(LOOK_MS)
            with self._lock:
                waiting = list(self._waiting.values())
                if not waiting:
                    self._is_renewing = False
                    return
            for each in waiting:
                try:
                    if each.run.must_stop():
                        self._drop(each, JobState.CANCELLED)
                    else:
                        each.run.renew()
                except OmnigraphError as failure:
                    logger.info("job %s was not renewed: %s", each.run.id, failure)

    def _drop(self, waiting: _Waiting, state: JobState) -> None:
        """Take a job out of the queue, unless a thread has just started it."""
        if waiting.future.cancel():
            with self._lock:
                self._waiting.pop(waiting.run.id, None)
            try:
                waiting.run.save(state=state, is_cancelled=state is JobState.CANCELLED)
            finally:
                waiting.done()

    def find(self, graph: LocalGraph, job_id: str) -> Job:
        """Raises JobNotFound."""
        job = self._check_worker(graph, read_record(graph.objects, job_id))
        if job.state.is_open and is_cancel_requested(graph.objects, job_id):
            return replace(job, is_cancelled=True)
        return job

    def list(self, graph: LocalGraph) -> list[Job]:
        """Newest first. Records that cannot be read are left out and logged."""
        found = []
        for each in list_record_ids(graph.objects):
            with suppress(JobNotFound):  # removed meanwhile
                try:
                    found.append(self.find(graph, each))
                except ObjectCorrupt as corrupt:
                    logger.warning("%s", corrupt)
        return found

    def cancel(self, graph: LocalGraph, job_id: str) -> Job:
        """(3) Request that a job stops. Raises JobNotFound."""
        job = self.find(graph, job_id)
        if job.state.is_open and not job.is_cancelled:
            request_cancel(graph.objects, job_id)
            job = replace(job, is_cancelled=True)
        return job

    def close(self, patience_s: float | None = None) -> None:
        """Interrupt the jobs that wait; after `patience_s`, interrupt the jobs that run."""
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

    def _find_by_key(self, graph: LocalGraph, request: JobRequest) -> Job | None:
        """Raises KeyReused."""
        if request.key is None:
            return None
        identity = (request.key, request.actor, request.branch)
        for each in self.list(graph):
            if (each.key, each.actor, each.branch) == identity:
                if (each.kind, each.body_hash) != (request.kind, request.body_hash):
                    raise KeyReused(request.key)
                return each
        return None

    def _sweep(self, graph: LocalGraph) -> None:
        """(4) Remove old records, at most once every `SWEEP_MS`."""
        now = self._effects.now_ms()
        with self._lock:
            if now - self._swept_ms.get(graph.uri, 0) < SWEEP_MS:
                return
            self._swept_ms[graph.uri] = now
        try:
            remove_old_records(graph.objects, now)
        except StorageFailure as failure:
            logger.info("old records of jobs were not removed: %s", failure)

    def _check_worker(self, graph: LocalGraph, job: Job) -> Job:
        """(2) The job; with its outcome, if its worker is gone."""
        if not job.state.is_open or self._effects.now_ms() - job.updated_ms < SILENT_MS:
            return job
        commit = graph.find_write(job.key, branch=job.branch, actor=job.actor)
        if commit is None:
            ended = replace(job, state=JobState.INTERRUPTED, phase=None)
        else:
            result: JsonObject = {"commit": commit_document(commit)}
            ended = replace(job, state=JobState.SUCCEEDED, phase=None, result=result)
        write_record(graph.objects, ended)
        return ended
