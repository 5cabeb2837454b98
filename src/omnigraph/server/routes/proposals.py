"""Proposals: open, list, show, comment, approve, check, merge, close."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.write.idempotency import hash_of
from omnigraph.ids import MAIN
from omnigraph.sdk.documents import merge_document
from omnigraph.sdk.proposals import entry_document, proposal_document
from omnigraph.server.jobs.record import JobRequest
from omnigraph.server.request_context import KEYED, PREFERRED, Context, GraphRoute
from omnigraph.server.responses.answers import answer
from omnigraph.server.responses.openapi import ACCEPTED, READING, WRITING
from omnigraph.server.routes.jobs import begin_job
from omnigraph.wire.formats import MAYBE_BRANCH
from omnigraph.wire.proposals import (
    ApprovalBody,
    CommentBody,
    ProposalMergeBody,
    ProposalOpenBody,
    ProposalReply,
    ProposalsReply,
    State,
)
from omnigraph.wire.replies import MergeReply

router = APIRouter(route_class=GraphRoute)

ProposalPath = Annotated[str, Path(alias="proposal", description="The id of a proposal.")]


@router.get(
    "/proposals",
    operation_id="cluster_listProposals",
    response_model=ProposalsReply,
    responses=READING,
)
def list_proposals(
    context: Context,
    *,
    state: State | None = None,
    author: Annotated[str | None, Query(description="The actor who opened it.")] = None,
    branch: Annotated[
        str | None,
        Query(description="The source or the target.", json_schema_extra=MAYBE_BRANCH),
    ] = None,
) -> Response:
    """The proposals, newest first."""
    with context.admitted():
        found = context.graph.proposals.list(state=state, author=author, branch=branch)
    return answer({"proposals": [entry_document(each) for each in found]})


@router.post(
    "/proposals",
    operation_id="cluster_openProposal",
    response_model=ProposalReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def open_proposal(context: Context, body: ProposalOpenBody) -> Response:
    """Propose to merge one branch into another."""
    with context.admitted():
        opened = context.graph.proposals.open(
            body.source,
            body.target or MAIN,
            title=body.title,
            text=body.text,
            actor=context.actor,
            idempotency_key=context.key,
        )
    return answer(proposal_document(opened))


@router.get(
    "/proposals/{proposal}",
    operation_id="cluster_showProposal",
    response_model=ProposalReply,
    responses=READING,
)
def show_proposal(
    context: Context,
    proposal: ProposalPath,
    *,
    conflicts: Annotated[bool, Query(description="Count the conflicts of the merge.")] = False,
) -> Response:
    """One proposal, and what it still lacks."""
    with context.admitted():
        return answer(
            proposal_document(context.graph.proposals.show(proposal, conflicts=conflicts))
        )


@router.post(
    "/proposals/{proposal}/comments",
    operation_id="cluster_commentProposal",
    response_model=ProposalReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def comment_proposal(context: Context, proposal: ProposalPath, body: CommentBody) -> Response:
    """Add a comment."""
    with context.admitted():
        shown = context.graph.proposals.comment(
            proposal, body.text, actor=context.actor, idempotency_key=context.key
        )
    return answer(proposal_document(shown))


@router.post(
    "/proposals/{proposal}/approvals",
    operation_id="cluster_approveProposal",
    response_model=ProposalReply,
    responses=WRITING,
)
def approve_proposal(context: Context, proposal: ProposalPath, body: ApprovalBody) -> Response:
    """Approve the present head of the source."""
    with context.admitted():
        shown = context.graph.proposals.approve(
            proposal, actor=context.actor, if_source=body.if_source
        )
    return answer(proposal_document(shown))


@router.post(
    "/proposals/{proposal}/checks",
    operation_id="cluster_checkProposal",
    response_model=ProposalReply,
    responses=WRITING,
)
def check_proposal(context: Context, proposal: ProposalPath) -> Response:
    """Run the checks of the target branch on the merged graph, which is not published."""
    with context.admitted():
        shown = context.graph.proposals.check(proposal, actor=context.actor)
    return answer(proposal_document(shown))


@router.post(
    "/proposals/{proposal}/merge",
    operation_id="cluster_mergeProposal",
    response_model=MergeReply,
    responses=WRITING | ACCEPTED,
    dependencies=[KEYED, PREFERRED],
)
def merge_proposal(context: Context, proposal: ProposalPath, body: ProposalMergeBody) -> Response:
    """Merge a proposal that has its approvals and passes its checks."""

    def work(key: str | None) -> JsonObject:
        result = context.graph.proposals.merge(
            proposal,
            if_source=body.if_source,
            if_target=body.if_target,
            actor=context.actor,
            message=context.message,
            detect=body.detect or "row",
            on_conflict=body.on_conflict,
            resolutions=body.resolutions,
            dry_run=body.dry_run,
            delete_branch=body.delete_branch,
            idempotency_key=key,
        )
        context.count(result.commit)
        return merge_document(result)

    if context.prefers_job and not body.dry_run:
        target = context.graph.proposals.show(proposal).proposal.target
        asked = hash_of([proposal, body.model_dump()])
        job = JobRequest("proposal merge", target, context.actor, context.key, asked)
        return begin_job(context, job, work)
    with context.admitted():
        return answer(work(context.key))


@router.post(
    "/proposals/{proposal}/close",
    operation_id="cluster_closeProposal",
    response_model=ProposalReply,
    responses=WRITING,
)
def close_proposal(context: Context, proposal: ProposalPath) -> Response:
    """Close a proposal without merging it."""
    with context.admitted():
        shown = context.graph.proposals.close(proposal, actor=context.actor)
    return answer(proposal_document(shown))
