"""The web page: its files, and the two facts that only the page asks for (ADR 44).

The page is static. It calls the same routes with the same tokens as every other client.
"""

from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from omnigraph.commit.manifest.records import JsonValue
from omnigraph.ids import MAIN, parse_branch
from omnigraph.policy.actions import ON_TARGET, Action
from omnigraph.policy.cedar import AccessRequest
from omnigraph.sdk.documents import types_document
from omnigraph.server.request_context import BranchQuery, Context, GraphRoute, ServerRoute
from omnigraph.server.responses.answers import answer
from omnigraph.server.responses.openapi import READING
from omnigraph.wire.formats import MAYBE_BRANCH
from omnigraph.wire.replies import RightsReply, TypesReply

FOLDER: Final = Path(__file__).parents[1] / "page"
"""The built files. They are part of a wheel; in a clone, `make setup` builds them."""

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}
_FRESH: Final = {"Cache-Control": "no-cache"}
_FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

_UNBUILT: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>OmniGraph</title>
<h1>The page is not built</h1>
<p>This server runs from sources whose web page was not built, because Node was missing.</p>
<p>Run <code>scripts/ui</code> in the repository, then load this page again.
All other routes of the server work.</p></html>"""

static = APIRouter(route_class=ServerRoute)
"""No token is needed: the files hold no data."""

router = APIRouter(route_class=GraphRoute)


@static.get("/ui", include_in_schema=False)
def redirect_to_page() -> Response:
    return RedirectResponse("ui/", 308)  # relative: a proxy may serve us below a prefix


@static.get("/ui/", include_in_schema=False)
def show_page(request: Request) -> Response:
    """The page, or how to build it."""
    if not (FOLDER / "index.html").exists():
        return HTMLResponse(_UNBUILT, 503, _HEADERS | _FRESH)
    return _send(request, FOLDER / "index.html", "text/html", _FRESH)


@static.get("/ui/assets/{name}", include_in_schema=False)
def show_asset(request: Request, name: str) -> Response:
    """A file whose name holds the hash of its content."""
    file = FOLDER / "assets" / name
    if "/" in name or file.suffix not in _KINDS or not file.is_file():
        raise HTTPException(404)
    return _send(request, file, _KINDS[file.suffix], _FOREVER)


def _send(request: Request, file: Path, kind: str, caching: dict[str, str]) -> Response:
    headers = _HEADERS | caching
    packed = file.with_name(f"{file.name}.gz")
    if "gzip" in request.headers.get("accept-encoding", "") and packed.exists():
        return FileResponse(packed, media_type=kind, headers=headers | {"Content-Encoding": "gzip"})
    return FileResponse(file, media_type=kind, headers=headers)


@router.get(
    "/rights",
    operation_id="cluster_listRights",
    response_model=RightsReply,
    responses=READING,
)
def list_rights(
    context: Context,
    branch: BranchQuery = None,
    target: Annotated[
        str | None,
        Query(description="For merges; the branch by default.", json_schema_extra=MAYBE_BRANCH),
    ] = None,
) -> Response:
    """The caller, and the actions that the policy allows on a branch, or from it into a target."""
    source = parse_branch(branch or MAIN)
    into = parse_branch(target or source)
    requests = (
        AccessRequest(context.actor, each, source, into if each in ON_TARGET else None)
        for each in Action
        if each is not Action.GRAPH_LIST
    )
    allows = context.served_graph.guard.allows
    actions: list[JsonValue] = [str(each.action) for each in requests if allows(each)]
    if context.state.allows_listing(context.actor):
        actions.append(str(Action.GRAPH_LIST))
    return answer(
        {"graph_id": context.served_graph.id, "actor_id": context.actor, "actions": [*actions]}
    )


@router.get(
    "/schema/types",
    operation_id="cluster_listTypes",
    response_model=TypesReply,
    responses=READING,
)
def list_types(context: Context) -> Response:
    """The node and edge types of the active schema, with their properties."""
    return answer(types_document(context.graph.catalog))
