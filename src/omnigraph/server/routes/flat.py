"""Routes about the server itself: health, metrics, reload, the list of graphs."""

from contextlib import suppress

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from omnigraph.errors import AccessError, Forbidden
from omnigraph.policy.actions import Action
from omnigraph.server.request_context import CurrentRuntime, ServerRoute, find_actor
from omnigraph.server.responses.answers import answer, health_document
from omnigraph.server.responses.openapi import READING, WRITING
from omnigraph.server.telemetry import metrics
from omnigraph.wire.replies import GraphsReply, HealthReply, ReloadReply

router = APIRouter(route_class=ServerRoute)


@router.get("/healthz", operation_id="health", response_model=HealthReply)
def health() -> Response:
    """The server runs; its version."""
    return answer(health_document())


@router.get("/metrics", operation_id="metrics", response_class=PlainTextResponse)
def show_metrics(runtime: CurrentRuntime, request: Request) -> Response:
    """Metrics for Prometheus. Only callers who may list graphs see graph names."""
    state = runtime.current
    names_graphs = state.settings.metrics_name_graphs
    with suppress(AccessError):  # an unknown caller gets sums
        actor = find_actor(request, state)
        names_graphs |= state.allows_listing(actor)
    return Response(metrics.render(names_graphs=names_graphs), media_type=metrics.CONTENT_TYPE)


@router.post(
    "/admin/reload",
    operation_id="reload",
    response_model=ReloadReply,
    responses=WRITING,
)
def reload(runtime: CurrentRuntime, request: Request) -> Response:
    """Read tokens, policies, stored queries and graphs again; all workers follow."""
    state = runtime.current
    actor = find_actor(request, state)
    if not state.allows_admin(actor):
        raise Forbidden(actor, action=Action.ADMIN, branch=None)
    fresh = runtime.reload()
    return answer(
        {
            "generation": fresh.generation,
            "graphs": [*sorted(fresh.graphs)],
            "quarantined": dict(fresh.quarantined.items()),
        }
    )


@router.get("/graphs", operation_id="listGraphs", response_model=GraphsReply, responses=READING)
def list_graphs(runtime: CurrentRuntime, request: Request) -> Response:
    """The graphs that are served, and the quarantined ones. Needs a policy for the server."""
    state = runtime.current
    actor = find_actor(request, state)
    if not state.allows_listing(actor):
        raise Forbidden(actor, action=Action.GRAPH_LIST, branch=None)
    return answer(
        {
            "graphs": [
                {"graph_id": each.id, "uri": each.graph.uri}
                for each in sorted(state.graphs.values(), key=lambda graph: graph.id)
            ],
            "quarantined": dict(state.quarantined.items()),
        }
    )
