"""One job that runs: it saves its state, renews its record, and stops when it is cancelled."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event, Lock
from typing import Final

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.effects import Effects
from omnigraph.engine.cancellation import CancelToken, watched
from omnigraph.engine.stages import watching
from omnigraph.errors import JobCancelled, OmnigraphError
from omnigraph.server.jobs.record import Job, JobState, Work, is_cancel_requested, write_record
from omnigraph.server.responses.error_mapping import problem_document
from omnigraph.server.telemetry import metrics
from omnigraph.storage.objects import Objects

LOOK_MS: Final = 500
"""How often a running job looks for its cancel marker."""

RENEW_MS: Final = 3_000

TOO_LATE: Final = ("apply", "confirm", "publish", "disarm", "undo")
"""(3) From these steps on, the tables move and the job is no longer cancelled."""

logger = logging.getLogger(__name__)


class JobRun:
    """Carries out the work of one job. Also receives the stages that the work reports."""

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
            write_record(self._objects, self._job)

    def carry_out(self, work: Work, done: Callable[[], None]) -> None:
        renewing = ThreadPoolExecutor(1, thread_name_prefix="job-renewal")
        renewing.submit(self._renew_until_over)
        try:
            self._work_and_save(work)
        finally:
            self._over.set()
            renewing.shutdown()
            done()
            metrics.JOBS.labels(self._job.kind, self._job.state.value).inc()

    def _work_and_save(self, work: Work) -> None:
        try:
            self._enter_step("reading")
            with watched(self._enter_step, self._token), watching(self):
                result = work(self._job.key)
            self.save(state=JobState.SUCCEEDED, phase=None, progress=None, result=result)
        except JobCancelled:
            self._save_cancelled()
        except OmnigraphError as error:
            if self._is_stopped:
                # (3) The cancel token ends Spark work with an error of its own kind.
                self._save_cancelled()
                return
            document = problem_document(error)
            self.save(state=JobState.FAILED, phase=None, progress=None, error=document)
        except Exception:
            logger.exception("job %s failed", self._job.id)
            unknown: JsonObject = {"error": "internal error", "code": "internal"}
            self.save(state=JobState.FAILED, phase=None, progress=None, error=unknown)

    def interrupt(self) -> None:
        """(3) Stop the job because its worker stops."""
        self._is_interrupted = True
        self._stop_if_requested()

    def renew(self) -> None:
        """(1) Save the record if it is due, or if there is progress."""
        now_ms = self._effects.monotonic_ms()
        if now_ms - self._renewed_ms >= RENEW_MS or self._progress != self._job.progress:
            self._renewed_ms = now_ms
            self.save(progress=self._progress)

    def must_stop(self) -> bool:
        is_known = self._is_stopped or self._is_interrupted
        return is_known or is_cancel_requested(self._objects, self._job.id)

    def _save_cancelled(self) -> None:
        if self._is_interrupted:
            self.save(state=JobState.INTERRUPTED, phase=None, progress=None)
        else:
            self.save(state=JobState.CANCELLED, phase=None, progress=None, is_cancelled=True)

    def _enter_step(self, step: str) -> None:
        """(3) Raises JobCancelled, unless the tables move already."""
        if not step.startswith(TOO_LATE) and self.must_stop():
            raise JobCancelled(self._job.id)
        if step != self._job.phase:
            self._progress = None
            self.save(state=JobState.RUNNING, phase=step, progress=None)

    def _renew_until_over(self) -> None:
        while not self._over.wait(LOOK_MS / 1000):
            self._stop_if_requested()
            self.renew()

    def _stop_if_requested(self) -> None:
        """(3) Called by another thread than the one that works, and repeatedly: Spark work that
        starts just after the token was cancelled misses the first call.
        """
        phase = self._job.phase
        is_early = phase is not None and not phase.startswith(TOO_LATE)
        if is_early and self.must_stop():
            self._is_stopped = True
            self._token.cancel()

    # the stages of the work (`engine.stages.Watcher`)

    def begin(self, stage: str) -> None:
        self._enter_step(stage)

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:  # noqa: ARG002
        self._progress = {"done": done, "total": total, "rows": rows}

    def count(self, stage: str, rows: int) -> None:
        """The result of the job holds the counts."""

    def end(self, stage: str, *, elapsed_ms: int) -> None:
        metrics.STAGES.labels(stage).observe(elapsed_ms / 1000)
