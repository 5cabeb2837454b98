"""Jobs: what became of work that nobody waited for."""

from collections.abc import Callable
from contextlib import ExitStack

from fastapi import APIRouter
from starlette.responses import Response

from omnigraph.errors import JobNotFound
from omnigraph.policy.actions import Action
from omnigraph.policy.cedar import AccessRequest
from omnigraph.server.request_context import Context, GraphRoute, RequestContext
from omnigraph.server.responses.answers import JsonResponse, answer
from omnigraph.server.responses.openapi import READING, WRITING
from omnigraph.server.runtime.jobs import Job, JobRequest, Work
from omnigraph.wire.replies import JobReply, JobsReply

router = APIRouter(route_class=GraphRoute)


@router.get("/jobs", operation_id="cluster_listJobs", response_model=JobsReply, responses=READING)
def list_jobs(asked: Context) -> Response:
    """Your jobs, newest first; everybody's, for whoever administers the graph."""
    found = [each for each in asked.host.jobs.list(asked.graph) if _may_see(asked, each)]
    if not any(_is_own(asked, each) for each in found):
        asked.check(Action.READ)
    return answer({"jobs": [each.document() for each in found]})


@router.get(
    "/jobs/{job_id}", operation_id="cluster_getJob", response_model=JobReply, responses=READING
)
def show_job(asked: Context, job_id: str) -> Response:
    """How far a job is, and its result once it is done."""
    return answer(_find(asked, job_id).document())


@router.post(
    "/jobs/{job_id}/cancel",
    operation_id="cluster_cancelJob",
    response_model=JobReply,
    responses=WRITING,
)
def cancel_job(asked: Context, job_id: str) -> Response:
    """Ask a job to stop. It does, unless its tables are moving already."""
    _find(asked, job_id)
    return answer(asked.host.jobs.cancel(asked.graph, job_id).document())


def begin_job(
    asked: RequestContext, order: JobRequest, work: Work, clean: Callable[[], None] = lambda: None
) -> Response:
    """Do it as a job, and answer with that. `clean` is called when it is over, or never begins.

    The actor has it under way from now until then, so that too much is refused here and not by
    a job that fails. Raises TooManyRequests, KeyReused.
    """
    with ExitStack() as stack:
        stack.callback(clean)
        stack.enter_context(asked.admitted())
        over = stack.pop_all().close
    return _accepted(asked, asked.host.jobs.submit(asked.graph, order, work, over))


def _accepted(asked: RequestContext, job: Job) -> Response:
    place = f"/graphs/{asked.served.id}/jobs/{job.id}"
    headers = {"Location": place, "Preference-Applied": "respond-async"}
    return JsonResponse(job.document(), status_code=202, headers=headers)


def _is_own(asked: RequestContext, job: Job) -> bool:
    """Who may begin a job on some branches need not be allowed to read everything."""
    return job.actor == asked.actor


def _may_see(asked: RequestContext, job: Job) -> bool:
    return _is_own(asked, job) or asked.served.guard.allows(
        AccessRequest(asked.actor, Action.ADMIN)
    )


def _find(asked: RequestContext, job_id: str) -> Job:
    """Raises JobNotFound; Forbidden, whether or not it is there, unless it is the asker's own."""
    try:
        job = asked.host.jobs.find(asked.graph, job_id)
    except JobNotFound:
        asked.check(Action.READ)
        raise
    if not _is_own(asked, job):
        asked.check(Action.READ)
    if not _may_see(asked, job):
        raise JobNotFound(job_id)
    return job
