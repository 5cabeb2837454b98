"""Branches: list, create, delete."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from omnigraph.ids import MAIN, parse_branch
from omnigraph.policy.actions import Action
from omnigraph.server.answers import answer
from omnigraph.server.asking import KEYED, Ask, GraphRoute
from omnigraph.server.describe import READING, WRITING
from omnigraph.wire.replies import BranchCreateReply, BranchDeleteReply, BranchesReply
from omnigraph.wire.requests import BranchCreateRequest

router = APIRouter(route_class=GraphRoute)


@router.get(
    "/branches",
    operation_id="cluster_listBranches",
    response_model=BranchesReply,
    responses=READING,
)
def list_branches(asked: Ask) -> Response:
    """The branches, by name."""
    asked.check(Action.READ)
    return answer({"branches": [*sorted(asked.graph.branches.list())]})


@router.post(
    "/branches",
    operation_id="cluster_createBranch",
    response_model=BranchCreateReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def create_branch(asked: Ask, body: BranchCreateRequest) -> Response:
    """A branch that starts as another one is now, or as a commit left the graph."""
    source, name = parse_branch(body.from_ or MAIN), parse_branch(body.name)
    asked.check(Action.BRANCH_CREATE, source, target=name)
    with asked.admitted():
        asked.graph.branches.create(
            name,
            source=source,
            commit=body.commit,
            actor=asked.actor,
            idempotency_key=asked.key,
        )
    return answer(
        {
            "uri": asked.graph.uri,
            "from": body.commit or source,
            "name": name,
            "actor_id": asked.actor,
        }
    )


@router.delete(
    "/branches/{branch:path}",
    operation_id="cluster_deleteBranch",
    response_model=BranchDeleteReply,
    responses=WRITING,
    dependencies=[KEYED],
)
def delete_branch(
    asked: Ask, branch: Annotated[str, Path(description="Slashes may be spelled %2F.")]
) -> Response:
    """Delete a branch. Refuses main, and a branch that others came from or still read."""
    name = parse_branch(branch)
    asked.check(Action.BRANCH_DELETE, target=name)
    with asked.admitted():
        asked.graph.branches.delete(name, actor=asked.actor, idempotency_key=asked.key)
    return answer({"uri": asked.graph.uri, "name": name, "actor_id": asked.actor})
