"""Jobs: begin one, look at its state, cancel it."""

from collections.abc import Callable
from contextlib import ExitStack

from fastapi import APIRouter
from starlette.responses import Response

from omnigraph.errors import JobNotFound
from omnigraph.policy.actions import Action
from omnigraph.policy.cedar import AccessRequest
from omnigraph.server.jobs.record import Job, JobRequest, Work
from omnigraph.server.request_context import Context, GraphRoute, RequestContext
from omnigraph.server.responses.answers import JsonResponse, answer
from omnigraph.server.responses.openapi import READING, WRITING
from omnigraph.wire.replies import JobReply, JobsReply

router = APIRouter(route_class=GraphRoute)


@router.get("/jobs", operation_id="cluster_listJobs", response_model=JobsReply, responses=READING)
def list_jobs(context: Context) -> Response:
    """The jobs of the actor, newest first; an administrator sees all jobs."""
    found = [each for each in context.runtime.jobs.list(context.graph) if _may_see(context, each)]
    if not any(_is_own(context, each) for each in found):
        context.check(Action.READ)
    return answer({"jobs": [each.document() for each in found]})


@router.get(
    "/jobs/{job_id}", operation_id="cluster_getJob", response_model=JobReply, responses=READING
)
def show_job(context: Context, job_id: str) -> Response:
    """The state and progress of a job, and its result."""
    return answer(_find(context, job_id).document())


@router.post(
    "/jobs/{job_id}/cancel",
    operation_id="cluster_cancelJob",
    response_model=JobReply,
    responses=WRITING,
)
def cancel_job(context: Context, job_id: str) -> Response:
    """Request that a job stops. It does, unless its tables move already."""
    _find(context, job_id)
    return answer(context.runtime.jobs.cancel(context.graph, job_id).document())


def begin_job(
    context: RequestContext,
    request: JobRequest,
    work: Work,
    clean: Callable[[], None] = lambda: None,
) -> Response:
    """Queue a job and answer 202. `clean` is called when the job ends, or if it is never queued.

    The job counts against the actor's admission until it ends, so that a request over the limit
    is refused now. Raises TooManyRequests, KeyReused.
    """
    with ExitStack() as stack:
        stack.callback(clean)
        stack.enter_context(context.admitted())
        over = stack.pop_all().close
    return _accepted(context, context.runtime.jobs.submit(context.graph, request, work, over))


def _accepted(context: RequestContext, job: Job) -> Response:
    place = f"/graphs/{context.served_graph.id}/jobs/{job.id}"
    headers = {"Location": place, "Preference-Applied": "respond-async"}
    return JsonResponse(job.document(), status_code=202, headers=headers)


def _is_own(context: RequestContext, job: Job) -> bool:
    """An actor sees its own jobs, even without permission to read the whole graph."""
    return job.actor == context.actor


def _may_see(context: RequestContext, job: Job) -> bool:
    return _is_own(context, job) or context.served_graph.guard.allows(
        AccessRequest(context.actor, Action.ADMIN)
    )


def _find(context: RequestContext, job_id: str) -> Job:
    """Raises JobNotFound; Forbidden for jobs of others, whether or not they exist."""
    try:
        job = context.runtime.jobs.find(context.graph, job_id)
    except JobNotFound:
        context.check(Action.READ)
        raise
    if not _is_own(context, job):
        context.check(Action.READ)
    if not _may_see(context, job):
        raise JobNotFound(job_id)
    return job
