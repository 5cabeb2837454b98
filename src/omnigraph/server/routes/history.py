"""Single commits and entities of the past: revert, cherry-pick, blame, revisions, tags."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.merge.sources import PickKind
from omnigraph.engine.write.idempotency import hash_of
from omnigraph.ids import MAIN, parse_branch
from omnigraph.policy.actions import Action
from omnigraph.sdk.documents import merge_document
from omnigraph.sdk.history import (
    REVISIONS_DEFAULT,
    origin_document,
    revision_document,
    tag_document,
)
from omnigraph.server.jobs.record import JobRequest
from omnigraph.server.request_context import (
    KEYED,
    PREFERRED,
    BranchQuery,
    Context,
    GraphRoute,
    RequestContext,
)
from omnigraph.server.responses.answers import answer
from omnigraph.server.responses.openapi import ACCEPTED, READING, WRITING
from omnigraph.server.routes.jobs import begin_job
from omnigraph.wire.formats import DELETABLE, TYPE
from omnigraph.wire.history import (
    BlameReply,
    PickBody,
    RevisionsReply,
    TagCreateBody,
    TagDeleteReply,
    TagReply,
    TagsReply,
)
from omnigraph.wire.replies import MergeReply

REVISIONS_MAX = 10_000

router = APIRouter(route_class=GraphRoute)

CommitPath = Annotated[str, Path(description="The id of a commit, or its tag.")]
TypeQuery = Annotated[str, Query(description="A node or edge type.", json_schema_extra=TYPE)]
IdQuery = Annotated[str, Query(description="The id of the node or edge.")]


@router.post(
    "/commits/{commit}/revert",
    operation_id="cluster_revertCommit",
    response_model=MergeReply,
    responses=WRITING | ACCEPTED,
    dependencies=[KEYED, PREFERRED],
)
def revert_commit(context: Context, commit: CommitPath, body: PickBody) -> Response:
    """Undo what a commit changed, as a new commit."""
    return _pick(context, PickKind.REVERT, commit, body)


@router.post(
    "/commits/{commit}/cherry-pick",
    operation_id="cluster_cherryPickCommit",
    response_model=MergeReply,
    responses=WRITING | ACCEPTED,
    dependencies=[KEYED, PREFERRED],
)
def cherry_pick_commit(context: Context, commit: CommitPath, body: PickBody) -> Response:
    """Apply to a branch what a commit changed, as a new commit."""
    return _pick(context, PickKind.CHERRY_PICK, commit, body)


def _pick(context: RequestContext, kind: PickKind, commit: str, body: PickBody) -> Response:
    target = parse_branch(body.branch or MAIN)
    context.check(Action.CHANGE, target)
    graph = context.graph
    pick = graph.revert if kind is PickKind.REVERT else graph.cherry_pick

    def work(key: str | None) -> JsonObject:
        result = pick(
            commit,
            into=target,
            mainline=body.mainline,
            actor=context.actor,
            message=context.message,
            detect=body.detect or "row",
            on_conflict=body.on_conflict,
            resolutions=body.resolutions,
            dry_run=body.dry_run,
            idempotency_key=key,
        )
        context.count(result.commit)
        return merge_document(result)

    if context.prefers_job and not body.dry_run:
        asked = hash_of([kind.value, commit, body.model_dump()])
        job = JobRequest(kind.value, target, context.actor, context.key, asked)
        return begin_job(context, job, work)
    with context.admitted():
        return answer(work(context.key))


@router.get(
    "/blame",
    operation_id="cluster_blameEntity",
    response_model=BlameReply,
    responses=READING,
)
def blame_entity(
    context: Context,
    type_: Annotated[TypeQuery, Query(alias="type")],
    identity: Annotated[IdQuery, Query(alias="id")],
    branch: BranchQuery = None,
) -> Response:
    """Which commit set each property of a node or edge; no property if it does not exist."""
    with context.admitted():
        origins = context.graph.blame(type_, identity, branch=branch or MAIN)
    return answer({"properties": [origin_document(each) for each in origins]})


@router.get(
    "/revisions",
    operation_id="cluster_listRevisions",
    response_model=RevisionsReply,
    responses=READING,
)
def list_revisions(
    context: Context,
    type_: Annotated[TypeQuery, Query(alias="type")],
    identity: Annotated[IdQuery, Query(alias="id")],
    branch: BranchQuery = None,
    limit: Annotated[int, Query(ge=0, le=REVISIONS_MAX)] = REVISIONS_DEFAULT,
) -> Response:
    """The commits of a branch that changed a node or edge, newest first."""
    with context.admitted():
        found = context.graph.revisions(type_, identity, branch=branch or MAIN, limit=limit)
    return answer({"revisions": [revision_document(each) for each in found]})


@router.get("/tags", operation_id="cluster_listTags", response_model=TagsReply, responses=READING)
def list_tags(context: Context) -> Response:
    """The tags, by name."""
    return answer({"tags": [tag_document(each) for each in context.graph.tags.list()]})


@router.post(
    "/tags",
    operation_id="cluster_createTag",
    response_model=TagReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def create_tag(context: Context, body: TagCreateBody) -> Response:
    """Give a commit a name. Cleanup keeps the commit while it has one."""
    with context.admitted():
        tag = context.graph.tags.create(
            body.name,
            body.commit,
            actor=context.actor,
            message=context.message,
            idempotency_key=context.key,
        )
    return answer(tag_document(tag))


@router.delete(
    "/tags/{tag:rest}",
    operation_id="cluster_deleteTag",
    response_model=TagDeleteReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def delete_tag(
    context: Context,
    tag: Annotated[
        str, Path(description="A slash may be written as %2F.", json_schema_extra=DELETABLE)
    ],
) -> Response:
    """Delete a tag. Its commit stays until a cleanup."""
    with context.admitted():
        context.graph.tags.delete(tag, actor=context.actor, idempotency_key=context.key)
    return answer({"name": tag, "actor_id": context.actor})
