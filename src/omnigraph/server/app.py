"""The application: all routes, the handlers of errors, the OpenAPI document."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Depends, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

import omnigraph
from omnigraph.errors import OmnigraphError
from omnigraph.server.responses.error_mapping import problem
from omnigraph.server.responses.openapi import find_methods
from omnigraph.server.routes import (
    agents,
    blobs,
    branches,
    flat,
    history,
    jobs,
    loading,
    proposals,
    querying,
    reading,
    stored,
    streaming,
    ui,
    upkeep,
    writing,
)
from omnigraph.server.runtime.guard import AuthMode
from omnigraph.server.runtime.state import ServerRuntime
from omnigraph.server.telemetry.access_log import OPENAPI, AccessLog

THREADS_MAX = 256
"""How many requests of a worker run in threads at once."""

ROUTERS = (
    reading.router,
    querying.router,
    blobs.router,
    writing.router,
    branches.router,
    history.router,
    proposals.router,
    loading.router,
    loading.streams,
    streaming.router,
    stored.router,
    jobs.router,
    upkeep.router,
    ui.router,
    agents.router,
)


def build_app(runtime: ServerRuntime) -> FastAPI:
    app = FastAPI(
        title="Omnigraph API",
        version=omnigraph.__version__,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=_live,
    )
    app.state.runtime = runtime
    app.include_router(flat.router)
    app.include_router(ui.static)
    for router in ROUTERS:
        app.include_router(
            router, prefix="/graphs/{graph_id}", dependencies=[Depends(_declare_graph_id)]
        )
        # A server of one graph also answers addresses without a graph id.
        app.include_router(router, include_in_schema=False)
    app.add_exception_handler(OmnigraphError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_unreadable)
    app.add_exception_handler(HTTPException, _answer_refusal)
    app.add_middleware(AccessLog, tracer=runtime.tracer)
    _describe(app, runtime)
    return app


@asynccontextmanager
async def _live(app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG001 - FastAPI's protocol
    # Writes to one table wait for each other and hold a thread; reads need threads meanwhile.
    to_thread.current_default_thread_limiter().total_tokens = THREADS_MAX
    yield


async def _declare_graph_id(
    graph_id: Annotated[str, Path(description="The graph id.", pattern="^[A-Za-z0-9-]{1,64}$")],
) -> None:
    """Declares the parameter in the OpenAPI document."""


async def _answer_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, OmnigraphError)
    return problem(error)


async def _answer_unreadable(request: Request, error: Exception) -> Response:
    """400 if the body is not JSON, 415 for another media type, 422 for wrong fields."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return PlainTextResponse("the body is not JSON", 400)
    is_empty = not getattr(request.state, "body_bytes", 0)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    about_body = any(each["loc"][:1] == ("body",) for each in found)
    if about_body and not (kind.endswith(("/json", "+json"))):
        return PlainTextResponse("the body must be application/json", 415)
    if about_body and is_empty:
        return PlainTextResponse("the body is not JSON: it is empty", 400)
    lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found]
    return PlainTextResponse("\n".join(lines), 422)


async def _answer_refusal(request: Request, error: Exception) -> Response:
    """Unknown routes and methods get no body; other refusals get one line of text."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The OpenAPI document does not list its own route.
        allowed = find_methods(request.app.openapi(), request.url.path) or ["GET"]
        return Response(status_code=error.status_code, headers={"Allow": ", ".join(allowed)})
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Response(status_code=error.status_code, headers=error.headers)
    return PlainTextResponse(error.detail, error.status_code, error.headers)


def _describe(app: FastAPI, runtime: ServerRuntime) -> None:
    """Add the security scheme to the OpenAPI document, unless the server takes no tokens."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        if runtime.current.auth_mode is AuthMode.OPEN:
            document.get("components", {}).pop("securitySchemes", None)
            document.pop("security", None)
        else:
            schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["bearer_token"] = {"type": "http", "scheme": "bearer"}
            document["security"] = [{"bearer_token": []}]
            for path in ("/healthz", "/metrics"):
                document["paths"][path]["get"]["security"] = []
        return document

    # FastAPI's own way to change the document.
    app.openapi = openapi  # type: ignore[method-assign]
