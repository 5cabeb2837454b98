"""Branches: list, create, merge, delete."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.write.idempotency import hash_of
from omnigraph.ids import MAIN, BranchName, parse_branch
from omnigraph.policy.actions import Action
from omnigraph.sdk.documents import merge_document, summaries_document
from omnigraph.server.jobs.record import JobRequest
from omnigraph.server.request_context import KEYED, PREFERRED, Context, GraphRoute, RequestContext
from omnigraph.server.responses.answers import answer
from omnigraph.server.responses.openapi import ACCEPTED, READING, WRITING
from omnigraph.server.routes.jobs import begin_job
from omnigraph.wire.formats import DELETABLE
from omnigraph.wire.replies import BranchCreateReply, BranchDeleteReply, BranchesReply, MergeReply
from omnigraph.wire.requests import BranchCreateBody, MergeBody


class _Rest(PathConvertor):
    """The rest of an address, with line ends: the answer, not the router, refuses such a name."""

    regex = "(?s:.*)"


register_url_convertor("rest", _Rest())

router = APIRouter(route_class=GraphRoute)


@router.get(
    "/branches",
    operation_id="cluster_listBranches",
    response_model=BranchesReply,
    responses=READING,
)
def list_branches(
    context: Context,
    *,
    details: Annotated[
        bool, Query(description="With heads, and commits ahead of and behind main.")
    ] = False,
) -> Response:
    """The branches, by name."""
    if details:
        return answer(summaries_document(context.graph.branches.summaries()))
    return answer({"branches": [*sorted(context.graph.branches.list())]})


@router.post(
    "/branches",
    operation_id="cluster_createBranch",
    response_model=BranchCreateReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def create_branch(context: Context, body: BranchCreateBody) -> Response:
    """Create a branch from the head of another branch, or from a commit."""
    source, name = parse_branch(body.from_ or MAIN), parse_branch(body.name)
    context.check(Action.BRANCH_CREATE, source, target=name)
    with context.admitted():
        context.graph.branches.create(
            name,
            source=source,
            commit=body.commit,
            actor=context.actor,
            idempotency_key=context.key,
        )
    return answer(
        {
            "uri": context.graph.uri,
            "from": body.commit or source,
            "name": name,
            "actor_id": context.actor,
        }
    )


@router.post(
    "/branches/merge",
    operation_id="cluster_mergeBranches",
    response_model=MergeReply,
    responses=WRITING | ACCEPTED,
    dependencies=[KEYED, PREFERRED],
)
def merge_branches(context: Context, body: MergeBody) -> Response:
    """Merge the changes of one branch into another."""
    source, target = parse_branch(body.source), parse_branch(body.target or MAIN)
    context.check(Action.BRANCH_MERGE, source, target=target)
    if body.delete_branch:
        context.check(Action.BRANCH_DELETE, target=source)

    def work(key: str | None) -> JsonObject:
        return _merge(context, body, source, target, key)

    if context.prefers_job and not body.dry_run:
        job = JobRequest("merge", target, context.actor, context.key, hash_of(body.model_dump()))
        return begin_job(context, job, work)
    with context.admitted():
        return answer(work(context.key))


def _merge(
    context: RequestContext,
    body: MergeBody,
    source: BranchName,
    target: BranchName,
    key: str | None,
) -> JsonObject:
    result = context.graph.merge(
        source,
        target,
        actor=context.actor,
        detect=body.detect or "row",
        on_conflict=body.on_conflict,
        resolutions=body.resolutions,
        base=body.base,
        dry_run=body.dry_run,
        delete_branch=body.delete_branch,
        idempotency_key=key,
        message=context.message,
    )
    context.count(result.commit)
    return merge_document(result)


@router.delete(
    "/branches/{branch:rest}",
    operation_id="cluster_deleteBranch",
    response_model=BranchDeleteReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def delete_branch(
    context: Context,
    branch: Annotated[
        str,
        Path(description="A slash may be written as %2F.", json_schema_extra=DELETABLE),
    ],
) -> Response:
    """Delete a branch. Refuses main, and a branch that other branches depend on."""
    name = parse_branch(branch)
    context.check(Action.BRANCH_DELETE, target=name)
    with context.admitted():
        context.graph.branches.delete(name, actor=context.actor, idempotency_key=context.key)
    return answer({"uri": context.graph.uri, "name": name, "actor_id": context.actor})
