"""Small writes: mutations, and rows of one type."""

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.engine.write.steps import DeleteStep, ProgramStep, RowsStep, WriteStep
from omnigraph.errors import RequestInvalid
from omnigraph.ids import MAIN, parse_branch
from omnigraph.lang.source import Source
from omnigraph.policy.actions import Action
from omnigraph.sdk.documents import mutation_document
from omnigraph.server.request_context import IF_COMMIT, KEYED, Context, GraphRoute, RequestContext
from omnigraph.server.responses.answers import answer, deprecate
from omnigraph.server.responses.openapi import WRITING
from omnigraph.wire.replies import MutationReply
from omnigraph.wire.requests import MutateBody, RowsBody, RowsDeleteBody, Step, TransactionBody

router = APIRouter(route_class=GraphRoute, responses=WRITING, dependencies=[KEYED])

IfCommit = Annotated[
    str, Header(alias=IF_COMMIT, description="The commit that must be the head of the branch.")
]


def check_unconditional(context: RequestContext) -> None:
    """Refuse the header on routes that would ignore it. Raises RequestInvalid."""
    if context.request.headers.get(IF_COMMIT) is not None:
        raise RequestInvalid(f"{IF_COMMIT} is for the routes that end in /if-graph-commit")


@router.post("/mutate", operation_id="cluster_mutate", response_model=MutationReply)
def mutate(context: Context, body: MutateBody) -> Response:
    """Run the inserts, updates or deletes of a query as one commit, or none."""
    check_unconditional(context)
    return answer(mutation_document(run_mutation(context, body)))


@router.post(
    "/mutate/if-graph-commit",
    operation_id="cluster_mutateIfGraphCommit",
    response_model=MutationReply,
)
def mutate_if_commit(context: Context, body: MutateBody, if_commit: IfCommit) -> Response:
    """Run a mutation if the named commit is still the head of the branch."""
    return answer(mutation_document(run_mutation(context, body, if_commit)))


@router.post(
    "/change", operation_id="cluster_change", response_model=MutationReply, deprecated=True
)
def change(context: Context, body: MutateBody) -> Response:
    """Deprecated name of mutate."""
    check_unconditional(context)
    return deprecate(answer(mutation_document(run_mutation(context, body))), "/change")


def run_mutation(
    context: RequestContext, body: MutateBody, if_commit: str | None = None
) -> MutationResult:
    branch = parse_branch(body.branch or MAIN)
    context.check(Action.CHANGE, branch)
    with context.admitted():
        result = context.graph.mutate(
            body.query,
            name=body.name,
            params=body.params,
            branch=branch,
            actor=context.actor,
            if_commit=if_commit,
            idempotency_key=context.key,
            message=context.message,
        )
    context.count(result.commit)
    return result


@router.post("/rows", operation_id="cluster_writeRows", response_model=MutationReply)
def write_rows(
    context: Context,
    body: RowsBody,
    if_commit: Annotated[str | None, Header(alias=IF_COMMIT)] = None,
) -> Response:
    """Write rows of one node or edge type, all or none."""
    branch = parse_branch(body.branch or MAIN)
    context.check(Action.CHANGE, branch)
    write = context.graph.insert if body.existing == "refuse" else context.graph.upsert
    with context.admitted():
        result = write(
            body.type,
            body.rows,
            branch=branch,
            actor=context.actor,
            if_commit=if_commit,
            idempotency_key=context.key,
            message=context.message,
        )
    context.count(result.commit)
    return answer(mutation_document(result))


@router.post("/rows/delete", operation_id="cluster_deleteRows", response_model=MutationReply)
def delete_rows(
    context: Context,
    body: RowsDeleteBody,
    if_commit: Annotated[str | None, Header(alias=IF_COMMIT)] = None,
) -> Response:
    """Delete rows by id; nodes with their edges."""
    branch = parse_branch(body.branch or MAIN)
    context.check(Action.CHANGE, branch)
    with context.admitted():
        result = context.graph.delete(
            body.type,
            body.ids,
            branch=branch,
            actor=context.actor,
            if_commit=if_commit,
            idempotency_key=context.key,
            message=context.message,
        )
    context.count(result.commit)
    return answer(mutation_document(result))


@router.post("/transaction", operation_id="cluster_transaction", response_model=MutationReply)
def run_transaction(
    context: Context,
    body: TransactionBody,
    if_commit: Annotated[str | None, Header(alias=IF_COMMIT)] = None,
) -> Response:
    """Run several steps in order, as one commit or not at all."""
    branch = parse_branch(body.branch or MAIN)
    context.check(Action.CHANGE, branch)
    with context.admitted():
        result = context.graph.write(
            [_step_of(each) for each in body.steps],
            branch=branch,
            actor=context.actor,
            if_commit=if_commit,
            idempotency_key=context.key,
            message=context.message,
        )
    context.count(result.commit)
    return answer(mutation_document(result))


def _step_of(step: Step) -> WriteStep:
    match step.op:
        case "mutate":
            return ProgramStep(Source("<query>", step.query), step.name, step.params)
        case "delete":
            return DeleteStep(step.type, step.ids)
        case "insert":
            return RowsStep(step.type, step.rows, Existing.REFUSE)
        case "upsert":
            return RowsStep(step.type, step.rows, Existing.REPLACE)
