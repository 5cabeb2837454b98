"""Stored queries: list them, run one by its name.

A caller who may not run stored queries gets the same answer as for a name that does not exist.
"""

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from omnigraph.errors import RequestInvalid, StoredQueryNotFound
from omnigraph.ids import MAIN
from omnigraph.policy.actions import Action
from omnigraph.policy.cedar import AccessRequest
from omnigraph.sdk.documents import mutation_document
from omnigraph.sdk.stored_queries import StoredQuery
from omnigraph.server.request_context import (
    IF_COMMIT,
    KEYED,
    Context,
    ReadRoute,
    RequestContext,
    parse_json,
)
from omnigraph.server.responses.answers import answer
from omnigraph.server.responses.openapi import READING, WRITING
from omnigraph.server.routes.querying import render, run_query
from omnigraph.server.routes.writing import IfCommit, check_unconditional, run_mutation
from omnigraph.wire.replies import MutationReply, ReadReply, StoredQueriesReply
from omnigraph.wire.requests import InvokeBody, MutateBody, QueryBody

router = APIRouter(route_class=ReadRoute)

_BODY = {
    "requestBody": {
        "required": False,
        "content": {"application/json": {"schema": {"type": ["object", "null"]}}},
    }
}


@router.get(
    "/queries",
    operation_id="cluster_list_queries",
    response_model=StoredQueriesReply,
    responses=READING,
)
def list_queries(context: Context) -> Response:
    """The stored queries with their parameters, and the quarantined ones with the reason."""
    context.check(Action.READ, MAIN)
    return answer(context.served_graph.queries.document())


@router.post(
    "/queries/{name}",
    operation_id="cluster_invoke_query",
    response_model=ReadReply | MutationReply,
    responses=WRITING,
    dependencies=[KEYED],
    openapi_extra=_BODY,
)
async def invoke(context: Context, name: str) -> Response:
    """Run a stored query. An empty body means no parameters."""
    check_unconditional(context)
    body = await _read_body(context)
    return await run_in_threadpool(_invoke, context, name, body, None)


@router.post(
    "/queries/{name}/if-graph-commit",
    operation_id="cluster_invokeIfGraphCommit",
    response_model=MutationReply,
    responses=WRITING,
    dependencies=[KEYED],
    openapi_extra=_BODY,
)
async def invoke_if_commit(context: Context, name: str, if_commit: IfCommit) -> Response:
    """Run a stored mutation if the named commit is still the head of the branch."""
    body = await _read_body(context)
    return await run_in_threadpool(_invoke, context, name, body, if_commit)


async def _read_body(context: RequestContext) -> InvokeBody:
    """Empty, `null` or an object, of any media type. Raises RequestInvalid."""
    content = await context.request.body()
    try:
        document = parse_json(content) if content.strip() else None
        return InvokeBody.model_validate({} if document is None else document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RequestInvalid(f"the body is not as it should be: {place}: {first['msg']}") from None
    except ValueError as error:
        raise RequestInvalid(f"the body is not JSON: {error}") from None


def _invoke(
    context: RequestContext, name: str, body: InvokeBody, if_commit: str | None
) -> Response:
    if not context.served_graph.guard.allows(AccessRequest(context.actor, Action.INVOKE_QUERY)):
        raise StoredQueryNotFound(name)
    stored = context.served_graph.queries.find(name)
    _check_kind(stored, body, if_commit)
    if stored.is_mutation:
        change = MutateBody(
            query=stored.source.text, name=name, params=body.params, branch=body.branch
        )
        return answer(mutation_document(run_mutation(context, change, if_commit)))
    read = QueryBody(
        query=stored.source.text,
        name=name,
        params=body.params,
        branch=body.branch,
        snapshot=body.snapshot,
        version=body.version,
        at=body.at,
        timeout=body.timeout,
    )
    return render(context, run_query(context, read))


def _check_kind(stored: StoredQuery, body: InvokeBody, if_commit: str | None) -> None:
    """Raises RequestInvalid."""
    expected = body.expect_mutation
    if expected is not None and expected is not stored.is_mutation:
        is_, verb = ("changes", "mutate") if stored.is_mutation else ("only reads", "query")
        raise RequestInvalid(f"'{stored.name}' {is_} the graph; run it as a {verb}")
    is_past = (body.snapshot, body.version, body.at) != (None, None, None)
    if stored.is_mutation and is_past:
        raise RequestInvalid("the past cannot be changed; name a branch")
    if if_commit is not None and not stored.is_mutation:
        raise RequestInvalid(f"'{stored.name}' only reads; {IF_COMMIT} is for changes")
