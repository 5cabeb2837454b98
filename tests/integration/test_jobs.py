"""Work that nobody waits for: it can be asked about, cancelled, and outlives its worker."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from httpx import Client

import omnigraph
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.effects import REAL
from omnigraph.engine.cancellation import stoppable, tell
from omnigraph.engine.stages import stage
from omnigraph.errors import BranchNotFound, JobFailed, JobNotFound, KeyReused
from omnigraph.sdk.documents import mutation_document
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.jobs.queue import RUNNING_MAX, SILENT_MS, JobQueue
from omnigraph.server.jobs.record import Job, JobRequest, JobState
from omnigraph.server.runtime.settings import Flags
from omnigraph.storage.layout import PROMISES, job_key
from support.serving import running

ORDER = JobRequest("load", "main", "ada", "key")


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return omnigraph.init(tmp_path / "g", "node Person { name: String @key }")


@pytest.fixture
def jobs() -> Iterator[JobQueue]:
    jobs = JobQueue(REAL)
    yield jobs
    jobs.close()


def wait_for(jobs: JobQueue, graph: LocalGraph, job: Job) -> Job:
    for _ in range(1000):
        found = jobs.find(graph, job.id)
        if not found.state.is_open:
            return found
        REAL.sleep_ms(20)
    raise AssertionError(f"it is still {found.state}")


def insert(graph: LocalGraph, key: str) -> JsonObject:
    rows = [{"name": "Ada"}]
    return mutation_document(graph.insert("Person", rows, actor="ada", idempotency_key=key))


def nothing() -> None:
    """When it is over."""


def test_a_job_ends_with_the_answer_it_would_have_given(graph: LocalGraph, jobs: JobQueue) -> None:
    done = wait_for(jobs, graph, jobs.submit(graph, ORDER, lambda k: insert(graph, k), nothing))
    assert done.state is JobState.SUCCEEDED
    assert done.result == insert(graph, "key")
    again = jobs.submit(graph, ORDER, lambda k: insert(graph, k), nothing)
    assert again.id == done.id, "the same key is the same job"
    assert len(graph.commits()) == 2


def test_a_job_that_fails_says_why(graph: LocalGraph, jobs: JobQueue) -> None:
    def fail(key: str) -> JsonObject:
        raise BranchNotFound(key)

    def break_down(key: str) -> JsonObject:
        raise ZeroDivisionError(key)

    failed = wait_for(jobs, graph, jobs.submit(graph, ORDER, fail, nothing))
    assert failed.state is JobState.FAILED
    assert failed.error is not None
    assert failed.error["code"] == "not_found"
    other = JobRequest("load", "main", "ada", None)
    broken = wait_for(jobs, graph, jobs.submit(graph, other, break_down, nothing))
    assert broken.error == {"error": "internal error", "code": "internal"}


def test_a_job_is_cancelled_while_there_is_time(graph: LocalGraph, jobs: JobQueue) -> None:
    begun, asked, over = Event(), Event(), Event()

    def work(key: str) -> JsonObject:
        begun.set()
        asked.wait(120)
        return insert(graph, key)  # its first step finds out

    job = jobs.submit(graph, ORDER, work, over.set)
    begun.wait(120)
    assert jobs.cancel(graph, job.id).is_cancelled
    asked.set()
    assert wait_for(jobs, graph, job).state is JobState.CANCELLED
    assert over.wait(120)
    assert len(graph.commits()) == 1
    assert graph.insert("Person", [{"name": "Ada"}]).affected_nodes == 1, "no lock is left"


def test_a_job_that_has_moved_tables_is_not_cancelled(graph: LocalGraph, jobs: JobQueue) -> None:
    moved, asked = Event(), Event()

    def work(key: str) -> JsonObject:
        tell("apply node:Person")
        moved.set()
        asked.wait(120)
        tell("publish")
        return {"key": key}

    job = jobs.submit(graph, ORDER, work, nothing)
    moved.wait(120)
    jobs.cancel(graph, job.id)
    found = jobs.find(graph, job.id)
    assert (found.phase, found.is_cancelled) == ("apply node:Person", True)
    asked.set()
    assert wait_for(jobs, graph, job).state is JobState.SUCCEEDED


@pytest.mark.parametrize("landed", [True, False], ids=["its commit is there", "it is not"])
def test_a_job_whose_worker_died_is_resolved_by_its_key(
    graph: LocalGraph, jobs: JobQueue, *, landed: bool
) -> None:
    long_ago = REAL.now_ms() - 2 * SILENT_MS
    job = Job("01JOB", "load", "main", "ada", "key", long_ago, long_ago, JobState.RUNNING)
    graph.objects.put_over(job_key(job.id), json.dumps(job.document()).encode())
    if landed:
        insert(graph, "key")
    found = jobs.find(graph, job.id)
    assert found.state is (JobState.SUCCEEDED if landed else JobState.INTERRUPTED)
    assert JobQueue(REAL).find(graph, job.id) == found
    again = jobs.submit(graph, ORDER, lambda k: insert(graph, k), nothing)
    assert (again.id == job.id) is landed
    wait_for(jobs, graph, again)
    assert len(graph.commits()) == 2


@pytest.mark.parametrize("job_id", ["01NONE", "../x", "", "a/b", "01NONE.json"])
def test_what_is_no_job_is_not_found(graph: LocalGraph, jobs: JobQueue, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        jobs.find(graph, job_id)


def test_a_merge_is_a_job_if_the_caller_prefers(graph: LocalGraph) -> None:
    graph.branches.create("b")
    graph.insert("Person", [{"name": "Ada"}], branch="b")
    flags = Flags(graphs=(f"g={graph.uri}",), unauthenticated=True)
    with running(flags) as server, Client(base_url=f"{server.url}/graphs/g", timeout=120) as client:
        taken = client.post(
            "/branches/merge",
            json={"source": "b"},
            headers={"Prefer": "respond-async", "Idempotency-Key": "m"},
        )
        assert taken.status_code == 202
        assert taken.headers["Preference-Applied"] == "respond-async"
        place = taken.headers["Location"]
        for _ in range(6000):
            job = client.get(f"{server.url}{place}").json()
            if job["state"] not in ("queued", "running"):
                break
            REAL.sleep_ms(20)
        assert job["state"] == "succeeded"
        assert job["result"]["outcome"] == "fast_forward"
        waited = client.post(
            "/branches/merge", json={"source": "b"}, headers={"Idempotency-Key": "m"}
        )
        assert waited.json() == job["result"]
        assert [each["job_id"] for each in client.get("/jobs").json()["jobs"]] == [job["job_id"]]
        cancelled = client.post(f"/jobs/{job['job_id']}/cancel").json()
        assert (cancelled["state"], cancelled["cancel_requested"]) == ("succeeded", False)
        assert client.get("/jobs/01NONE").status_code == 404


# ── cancelling what is busy, keys, and what is over ──────────────────────────────────────────────


def test_a_job_that_is_busy_is_stopped_from_outside(graph: LocalGraph, jobs: JobQueue) -> None:
    """As on Spark: the wait for a stage ends in an error of its own."""
    stopped, over = Event(), Event()

    def work(key: str) -> JsonObject:
        with stage("reading") as record, stoppable(stopped.set):
            assert record is not None
            record.advance(done=1, total=4)
            if stopped.wait(120):
                raise JobFailed("reading", reason="cancelled")
        return insert(graph, key)

    job = jobs.submit(graph, ORDER, work, over.set)
    while jobs.find(graph, job.id).progress is None:
        REAL.sleep_ms(20)
    assert jobs.find(graph, job.id).progress == {"done": 1, "total": 4, "rows": None}
    jobs.cancel(graph, job.id)
    ended = wait_for(jobs, graph, job)
    assert (ended.state, ended.error, ended.is_cancelled) == (JobState.CANCELLED, None, True)
    assert over.wait(120)
    assert len(graph.commits()) == 1
    again = jobs.submit(graph, ORDER, lambda k: insert(graph, k), nothing)
    assert again.id != job.id, "nothing came of it, so it may be asked for again"
    assert wait_for(jobs, graph, again).state is JobState.SUCCEEDED


def test_a_key_that_asks_for_something_else_is_refused(graph: LocalGraph, jobs: JobQueue) -> None:
    over = Event()
    first = replace(ORDER, body_hash="one")
    done = wait_for(jobs, graph, jobs.submit(graph, first, lambda k: insert(graph, k), nothing))
    assert jobs.submit(graph, first, lambda k: insert(graph, k), nothing) == done
    with pytest.raises(KeyReused):
        jobs.submit(graph, replace(ORDER, body_hash="other"), lambda _: {}, over.set)
    assert over.is_set(), "what it brought along is removed"


def test_a_job_that_was_never_begun_says_so_when_the_worker_stops(graph: LocalGraph) -> None:
    jobs, go, removed = JobQueue(REAL), Event(), Event()
    busy = [
        jobs.submit(graph, replace(ORDER, key=f"busy{at}"), lambda _: {"ok": go.wait(120)}, nothing)
        for at in range(RUNNING_MAX)
    ]
    waiting = jobs.submit(graph, replace(ORDER, key="waiting"), lambda _: {}, removed.set)
    with ThreadPoolExecutor(1) as closing:
        closed = closing.submit(jobs.close)
        removed.wait(120)
        go.set()
        closed.result(120)
    assert JobQueue(REAL).find(graph, waiting.id).state is JobState.INTERRUPTED
    assert {JobQueue(REAL).find(graph, each.id).state for each in busy} == {JobState.SUCCEEDED}


SPEED = 5
FAST = replace(
    REAL,
    now_ms=lambda: REAL.now_ms() * SPEED,
    monotonic_ms=lambda: REAL.monotonic_ms() * SPEED,
)
"""A clock by which jobs are silent sooner."""


def test_a_job_that_waits_for_others_is_not_taken_for_dead_and_can_be_cancelled(
    graph: LocalGraph,
) -> None:
    jobs, go, over = JobQueue(FAST), Event(), Event()
    for at in range(RUNNING_MAX):
        busy = replace(ORDER, key=f"busy{at}")
        jobs.submit(graph, busy, lambda _: {"ok": go.wait(120)}, nothing)
    waiting = jobs.submit(graph, replace(ORDER, key="waiting"), lambda _: {}, over.set)
    REAL.sleep_ms(SILENT_MS * 5 // 4 // SPEED)
    other = JobQueue(FAST)
    assert other.find(graph, waiting.id).state is JobState.QUEUED
    other.cancel(graph, waiting.id)
    assert over.wait(120), "it need not begin to end"
    assert other.find(graph, waiting.id).state is JobState.CANCELLED
    go.set()
    jobs.close()


def test_a_worker_that_stops_does_not_wait_for_its_jobs_for_ever(graph: LocalGraph) -> None:
    jobs, begun, stopped = JobQueue(REAL), Event(), Event()

    def work(key: str) -> JsonObject:
        with stoppable(stopped.set):
            begun.set()
            stopped.wait(120)
        return insert(graph, key)  # its first step finds out

    job = jobs.submit(graph, ORDER, work, nothing)
    begun.wait(120)
    jobs.close(0.1)
    assert stopped.is_set()
    found = JobQueue(REAL).find(graph, job.id)
    assert (found.state, found.may_run_again) == (JobState.INTERRUPTED, True)
    assert len(graph.commits()) == 1


def test_what_is_long_over_is_forgotten(graph: LocalGraph, jobs: JobQueue) -> None:
    done = wait_for(jobs, graph, jobs.submit(graph, ORDER, lambda k: insert(graph, k), nothing))
    graph.branches.create("b", idempotency_key="make")
    now = REAL.now_ms()
    open_one = Job("01OPEN", "load", "main", "ada", "k", now, now, JobState.RUNNING)
    graph.objects.put_over(job_key("01OPEN"), json.dumps(open_one.document()).encode())
    days = 24 * 3_600_000
    later = JobQueue(replace(REAL, now_ms=lambda: REAL.now_ms() + 8 * days))
    later.submit(graph, replace(ORDER, key="later"), lambda _: {}, nothing)
    later.close()
    with pytest.raises(JobNotFound):
        later.find(graph, done.id)
    assert [each.id for each in later.list(graph) if each.id == "01OPEN"] == ["01OPEN"]
    assert len(graph.objects.list(PROMISES)) == 1
    much_later = JobQueue(replace(REAL, now_ms=lambda: REAL.now_ms() + 31 * days))
    much_later.submit(graph, replace(ORDER, key="much later"), lambda _: {}, nothing)
    much_later.close()
    assert graph.objects.list(PROMISES) == []
