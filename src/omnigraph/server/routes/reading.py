"""Snapshots, commits and the schema of a graph."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from omnigraph.errors import RequestInvalid
from omnigraph.ids import MAIN, parse_branch
from omnigraph.policy.actions import Action
from omnigraph.sdk.describing import SAMPLES_MAX, outline_document
from omnigraph.sdk.documents import commit_document, snapshot_document
from omnigraph.server.request_context import BranchQuery, Context, GraphRoute
from omnigraph.server.responses.answers import answer, health_document
from omnigraph.server.responses.openapi import READING
from omnigraph.wire.formats import TIME, VERSION_MAX
from omnigraph.wire.replies import (
    CommitReply,
    CommitsReply,
    HealthReply,
    OutlineReply,
    SchemaReply,
    SnapshotReply,
)

router = APIRouter(route_class=GraphRoute, responses=READING)

Version = Annotated[
    int | None, Query(description="At this version of its manifest.", ge=1, le=VERSION_MAX)
]
At = Annotated[
    str | None,
    Query(
        description="As it was, e.g. 2026-06-01T00:00:00Z.",
        max_length=100,
        json_schema_extra=TIME,
    ),
]


@router.get("/healthz", operation_id="cluster_health", response_model=HealthReply)
def graph_health(context: Context) -> Response:
    """The graph is served; the version of the server."""
    context.check(Action.READ)
    return answer(health_document())


@router.get("/snapshot", operation_id="cluster_getSnapshot", response_model=SnapshotReply)
def snapshot(
    context: Context,
    branch: BranchQuery = None,
    commit: Annotated[str | None, Query(description="The state at this commit.")] = None,
    version: Version = None,
    at: At = None,
) -> Response:
    """The version and row count of every table, on a branch, at a commit or at a version."""
    if commit is not None and (branch is not None or version is not None):
        raise RequestInvalid("a commit says which branch and version it is on; name it alone")
    return answer(
        snapshot_document(context.graph.snapshot(branch, commit=commit, version=version, at=at))
    )


@router.get("/commits", operation_id="cluster_listCommits", response_model=CommitsReply)
def list_commits(
    context: Context,
    branch: BranchQuery = None,
    actor: Annotated[str | None, Query(description="Only of this actor; empty: of none.")] = None,
    since: Annotated[
        int | None, Query(description="Microseconds since the epoch.", ge=0, le=2**63 - 1)
    ] = None,
    limit: Annotated[int | None, Query(ge=0, le=2**31)] = None,
    *,
    merged: Annotated[bool, Query(description="Also the commits of merged branches.")] = False,
) -> Response:
    """The history of a branch, newest first."""
    name = parse_branch(branch or MAIN)
    found = context.graph.commits(name, actor=actor, since_us=since, limit=limit, merged=merged)
    return answer({"commits": [commit_document(each) for each in found]})


@router.get("/commits/{commit_id}", operation_id="cluster_getCommit", response_model=CommitReply)
def show_commit(context: Context, commit_id: str) -> Response:
    """One commit, whatever branch it is on."""
    return answer(commit_document(context.graph.commit(commit_id)))


@router.get("/describe", operation_id="cluster_describeSchema", response_model=OutlineReply)
def describe_schema(
    context: Context,
    types: Annotated[
        list[str] | None,
        Query(alias="type", description="Only this type. Repeatable.", max_length=1000),
    ] = None,
    question: Annotated[
        str | None, Query(description="Only what its words touch.", max_length=10_000)
    ] = None,
    budget: Annotated[int | None, Query(description="At most so many tokens.", ge=1)] = None,
    samples: Annotated[
        int, Query(description="So many values of each property.", ge=0, le=SAMPLES_MAX)
    ] = 0,
) -> Response:
    """The active schema in few tokens, for language models."""
    with context.admitted():
        outline = context.graph.describe(
            types=types or (), question=question, budget=budget, samples=samples
        )
    return answer(outline_document(outline))


@router.get("/schema", operation_id="cluster_getSchema", response_model=SchemaReply)
def show_schema(context: Context, branch: BranchQuery = None, version: Version = None) -> Response:
    """The active schema, as it was written; or that of a branch at a version."""
    if version is None:
        return answer({"schema_source": context.graph.schema_source})
    shown = context.graph.snapshot(branch, version=version)
    return answer({"schema_source": context.graph.schema_at(shown)})
