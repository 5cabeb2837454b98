"""Schema changes, and optimize."""

from fastapi import APIRouter
from starlette.responses import Response

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.write.idempotency import hash_of
from omnigraph.ids import MAIN, parse_branch
from omnigraph.policy.actions import Action
from omnigraph.sdk.documents import schema_plan_document, schema_result_document
from omnigraph.sdk.upkeep_documents import optimize_document
from omnigraph.server.jobs.record import JobRequest
from omnigraph.server.request_context import KEYED, PREFERRED, BranchQuery, Context, GraphRoute
from omnigraph.server.responses.answers import answer
from omnigraph.server.responses.openapi import ACCEPTED, READING_BODY, WRITING
from omnigraph.server.routes.jobs import begin_job
from omnigraph.wire.replies import OptimizeReply, SchemaApplyReply, SchemaPlanReply
from omnigraph.wire.requests import SchemaApplyBody, SchemaPlanBody

router = APIRouter(route_class=GraphRoute)


@router.post(
    "/schema/plan",
    operation_id="cluster_planSchema",
    response_model=SchemaPlanReply,
    responses=READING_BODY,
)
def plan_schema(context: Context, body: SchemaPlanBody) -> Response:
    """The steps to another schema, with those that are not supported."""
    plan = context.graph.plan_schema(
        body.schema_source, allow_data_loss=body.allow_data_loss, backfill=body.backfill
    )
    return answer(schema_plan_document(context.graph.uri, plan))


@router.post(
    "/schema/apply",
    operation_id="cluster_applySchema",
    response_model=SchemaApplyReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def apply_schema(context: Context, body: SchemaApplyBody) -> Response:
    """Apply another schema: one commit, or none if it changes nothing."""
    context.check(Action.SCHEMA_APPLY, target=MAIN)
    with context.admitted():
        result = context.graph.apply_schema(
            body.schema_source,
            allow_data_loss=body.allow_data_loss,
            backfill=body.backfill,
            portable=body.portable,
            actor=context.actor,
            idempotency_key=context.key,
            message=context.message,
        )
    context.count(result.commit)
    return answer(schema_result_document(context.graph.uri, result))


@router.post(
    "/optimize",
    operation_id="cluster_optimize",
    response_model=OptimizeReply,
    responses=WRITING | ACCEPTED,
    dependencies=[KEYED, PREFERRED],
)
def optimize(
    context: Context,
    branch: BranchQuery = None,
) -> Response:
    """Compact small fragments and update the indexes."""
    name = parse_branch(branch or MAIN)
    context.check(Action.ADMIN, name)

    def work(key: str | None) -> JsonObject:
        result = context.graph.optimize(
            name, actor=context.actor, idempotency_key=key, message=context.message
        )
        return optimize_document(context.graph.uri, result)

    if context.prefers_job:
        job = JobRequest("optimize", name, context.actor, context.key, hash_of(name))
        return begin_job(context, job, work)
    with context.admitted():
        return answer(work(context.key))
