"""Exports, change feeds and diffs: streams and pages."""

import json
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from omnigraph.engine.cancellation import cancellable
from omnigraph.engine.settings import CHANGES_DEFAULT, COMMITS_DEFAULT
from omnigraph.errors import RequestInvalid
from omnigraph.ids import MAIN, parse_branch
from omnigraph.sdk.reviewing import (
    change_document,
    commit_changes_document,
    diff_document,
    feed_document,
)
from omnigraph.server.request_context import BranchQuery, Context, ReadRoute
from omnigraph.server.responses.answers import Stream, answer
from omnigraph.server.responses.negotiation import choose_form
from omnigraph.server.responses.openapi import GONE, READING, READING_BODY, Responses
from omnigraph.wire.formats import SIDE, START
from omnigraph.wire.media import JSON, NDJSON
from omnigraph.wire.replies import CommitChangesReply, DiffReply, FeedReply
from omnigraph.wire.requests import BaselineBody, ExportBody

router = APIRouter(route_class=ReadRoute)

_LINES: Responses = {
    **READING_BODY,
    200: {
        "description": "One JSON object a line.",
        "content": {NDJSON: {"schema": {"type": "string"}}},
    },
}

_NDJSON: Final = f"{NDJSON}; charset=utf-8"

_COUNTED: dict[str, Any] = {
    "description": "Counts by type; or every change, one JSON object a line.",
    "content": {NDJSON: {"schema": {"type": "string"}}},
}
_SIDE = "A branch, a commit, or BRANCH@VERSION."

Kinds = Annotated[list[Literal["node", "edge"]] | None, Query(alias="kind")]
Types = Annotated[list[str] | None, Query(alias="type")]
Ops = Annotated[list[Literal["insert", "update", "delete"]] | None, Query(alias="op")]
Limit = Annotated[int, Query(ge=1, le=8192)]


@router.post(
    "/export",
    operation_id="cluster_export",
    response_class=StreamingResponse,
    responses=_LINES,
)
def export(context: Context, body: ExportBody) -> Response:
    """Every node and edge of a snapshot, ordered by table and id, in the form that load reads."""
    lines = context.graph.export_lines(
        types=body.type_names or (),
        tables=body.table_keys or (),
        branch=body.branch,
        commit=body.snapshot,
        version=body.version,
    )
    with cancellable(context.token):
        return Stream(lines, media_type=_NDJSON, stall_s=context.stall_s)


@router.post(
    "/changes/baseline",
    operation_id="cluster_changesBaseline",
    response_class=StreamingResponse,
    responses=_LINES,
)
def baseline(context: Context, body: BaselineBody) -> Response:
    """An export, then one line with the cursor that its changes follow from."""
    branch = parse_branch(body.branch or MAIN)
    if body.table_keys:
        raise RequestInvalid("a baseline is restricted by type_names")
    found = context.graph.baseline(
        branch=branch, kinds=body.kinds or (), types=body.type_names or ()
    )
    with cancellable(context.token):
        return Stream(found.lines(), media_type=_NDJSON, stall_s=context.stall_s)


@router.get(
    "/changes",
    operation_id="cluster_pollChanges",
    response_model=FeedReply,
    responses=READING | GONE,
)
def changes(
    context: Context,
    *,
    branch: BranchQuery = None,
    cursor: Annotated[
        str | None, Query(description="The cursor of the last page, instead of a start.")
    ] = None,
    page_token: Annotated[str | None, Query(description="Deprecated name of the cursor.")] = None,
    start: Annotated[
        str | None,
        Query(
            description="now, beginning, or after:COMMIT; unless there is a cursor.",
            max_length=100,
            json_schema_extra=START,
        ),
    ] = None,
    commits: Annotated[int, Query(ge=1, le=512)] = COMMITS_DEFAULT,
    limit: Limit = CHANGES_DEFAULT,
    kind: Kinds = None,
    type_: Types = None,
    op: Ops = None,
) -> Response:
    """The changes of a branch, commit by commit, after a cursor or from a start."""
    name = parse_branch(branch or MAIN)
    if cursor is not None and page_token is not None:
        raise RequestInvalid("name a cursor or a page token, not both")
    with cancellable(context.token):
        page = context.graph.changes(
            cursor or page_token,
            start=start,
            branch=name,
            kinds=kind or (),
            types=type_ or (),
            ops=op or (),
            commits_max=commits,
            limit=limit,
        )
    return answer(feed_document(page))


@router.get(
    "/commits/{commit_id}/changes",
    operation_id="cluster_getCommitChanges",
    response_model=CommitChangesReply,
    responses=READING | GONE,
)
def commit_changes(
    context: Context,
    commit_id: str,
    *,
    page_token: str | None = None,
    limit: Limit = CHANGES_DEFAULT,
    kind: Kinds = None,
    type_: Types = None,
    op: Ops = None,
) -> Response:
    """The changes of one commit since its first parent, in pages."""
    with cancellable(context.token):
        page = context.graph.commit_changes(
            commit_id,
            page_token=page_token,
            limit=limit,
            kinds=kind or (),
            types=type_ or (),
            ops=op or (),
        )
    return answer(commit_changes_document(page))


@router.get(
    "/diff",
    operation_id="cluster_diff",
    response_model=DiffReply,
    responses={**READING, **GONE, 200: _COUNTED},
)
def diff(
    context: Context,
    *,
    from_: Annotated[str, Query(alias="from", description=_SIDE, json_schema_extra=SIDE)],
    to: Annotated[str, Query(description=_SIDE, json_schema_extra=SIDE)],
    kind: Kinds = None,
    type_: Types = None,
    op: Ops = None,
    skip: Annotated[int, Query(description="How many changes to skip.", ge=0)] = 0,
    since_merge_base: Annotated[
        bool, Query(description="Compare `to` with the state at which it parted from `from`.")
    ] = False,
) -> Response:
    """The differences between two states: counts by type, or each change as JSON lines."""
    with cancellable(context.token):
        found = context.graph.diff(
            from_,
            to,
            kinds=kind or (),
            types=type_ or (),
            ops=op or (),
            since_merge_base=since_merge_base,
        )
        if choose_form(context.request.headers.getlist("accept"), (JSON, NDJSON)) == JSON:
            return answer(diff_document(found))
        documents = map(change_document, found.changes(skip=skip))
        lines = (json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in documents)
        return Stream(lines, media_type=_NDJSON, stall_s=context.stall_s)
