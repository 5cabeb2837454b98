"""`/mcp`: the graph as tools for agents, over the streamable HTTP of the Model Context Protocol.

The package `mcp` speaks the protocol; the tools are those of `omnigraph mcp` (ADR 46). There are no
sessions: each request is answered whole, as JSON, by whichever worker got it, under the token and
the policy of the request.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Message, Scope

import omnigraph
from omnigraph.errors import StoredQueryNotFound
from omnigraph.extras import require
from omnigraph.ids import MAIN, BranchName
from omnigraph.mcp.graph_tools import GraphToolbox
from omnigraph.mcp.protocol import ProtocolError, Session
from omnigraph.mcp.search_tool import find_commit
from omnigraph.mcp.tools import Arguments, Resource, Tool
from omnigraph.policy.actions import ON_TARGET, Action
from omnigraph.policy.cedar import AccessRequest
from omnigraph.sdk.documents import mutation_document
from omnigraph.server.request_context import Context, ReadRoute, RequestContext
from omnigraph.server.telemetry import metrics

router = APIRouter(route_class=ReadRoute)

A_TASK: Final = BranchName("task/any")
"""A branch that stands for those of tasks, when the policy is asked what to offer."""


@router.post("/mcp", include_in_schema=False)
async def serve_agent(context: Context) -> Response:
    """One message of the protocol, and its answer."""
    require("mcp", extra="mcp")
    _check_origin(context)
    body = await context.request.body()
    toolbox = _ServedToolbox(context, await run_in_threadpool(_offer, context))
    return await _exchange(toolbox, context.request.scope, body)


def _check_origin(context: RequestContext) -> None:
    """A page of another site must not speak for its visitor. Raises HTTPException."""
    origin = context.request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != context.request.headers.get("host"):
        raise HTTPException(403, "the request comes from a page of another site")


# ── what is offered ──────────────────────────────────────────────────────────────────────────────


def _offer(context: RequestContext) -> GraphToolbox:
    """The tools that the policy leaves to this caller. Calls ask the policy again."""
    may = context.served_graph.guard.allows
    actor = context.actor

    def allows(action: Action, branch: BranchName) -> bool:
        target = branch if action in ON_TARGET else None
        return may(AccessRequest(actor, action, branch, target))

    may_write = allows(Action.CHANGE, MAIN)
    may_try = allows(Action.CHANGE, A_TASK)
    return GraphToolbox(
        context.graph,
        _ServedQueries(context),
        actor,
        read_only=not (may_write or may_try),
        title=context.served_graph.id,
        may_write=may_write,
        may_propose=may_try and allows(Action.PROPOSE, MAIN),
    )


@dataclass(frozen=True, slots=True)
class _ServedToolbox:
    """Tools whose calls are admitted, limited in time and counted, as those of every route."""

    context: RequestContext
    offered: GraphToolbox

    @property
    def instructions(self) -> str:
        return self.offered.instructions

    def tools(self) -> Sequence[Tool]:
        return [replace(each, run=self._admit(each)) for each in self.offered.tools()]

    def resources(self) -> Sequence[Resource]:
        return self.offered.resources()

    def _admit(self, tool: Tool) -> Any:
        def run(arguments: Arguments) -> dict[str, Any]:
            with self.context.admitted():
                if tool.is_writing:
                    result = tool.run(arguments)
                else:
                    with self.context.reading():
                        result = tool.run(arguments)
            if tool.is_writing and result.get("commit") is not None:
                metrics.COMMITS.labels(self.context.served_graph.id).inc()
            return result

        return run


@dataclass(frozen=True, slots=True)
class _ServedQueries:
    """The stored queries of the server, for callers who may run them."""

    context: RequestContext

    def catalog(self) -> Sequence[Mapping[str, Any]]:
        queries = self.context.served_graph.queries.queries
        is_allowed = self._is_allowed()
        return [queries[name].document() for name in sorted(queries)] if is_allowed else []

    def read(self, name: str, params: Mapping[str, object], commit: str | None) -> dict[str, Any]:
        return self.context.graph.query(
            self._text(name), name=name, params=params, snapshot=commit
        ).document()

    def find_head(self, branch: str | None) -> str | None:
        return find_commit(self.context.graph, branch)

    def write(
        self, name: str, params: Mapping[str, object], branch: str | None, key: str | None
    ) -> dict[str, Any]:
        result = self.context.graph.mutate(
            self._text(name),
            name=name,
            params=params,
            branch=branch or MAIN,
            actor=self.context.actor,
            idempotency_key=key,
        )
        return mutation_document(result)

    def _is_allowed(self) -> bool:
        request = AccessRequest(self.context.actor, Action.INVOKE_QUERY)
        return self.context.served_graph.guard.allows(request)

    def _text(self, name: str) -> str:
        if not self._is_allowed():
            raise StoredQueryNotFound(name)
        return self.context.served_graph.queries.find(name).source.text


# ── the protocol ─────────────────────────────────────────────────────────────────────────────────


async def _exchange(toolbox: _ServedToolbox, scope: Scope, body: bytes) -> Response:
    """What the package answers to one request whose body is read already."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    logging.getLogger("mcp").setLevel(logging.WARNING)  # it reports every request otherwise
    collected = _Collected()
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if pending:
            return pending.pop()
        await asyncio.Event().wait()  # the route itself watches whether the caller leaves
        raise AssertionError

    manager = StreamableHTTPSessionManager(
        _build_server(toolbox),
        stateless=True,
        json_response=True,
        max_request_body_size=max(1, len(body)),
    )
    async with manager.run():
        await manager.handle_request(scope, receive, collected.send)
    return collected.response()


class _Collected:
    """An answer of an ASGI application, as one response."""

    def __init__(self) -> None:
        self._start: Message = {"status": 500, "headers": []}
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self._body += message.get("body", b"")

    def response(self) -> Response:
        response = Response(self._body, self._start["status"])
        response.raw_headers = list(self._start["headers"])
        return response


def _build_server(toolbox: _ServedToolbox) -> Any:
    """The package's server around our tools; its models read our documents."""
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    session = Session(toolbox, omnigraph.__version__)

    async def ask(method: str, params: Any) -> dict[str, Any]:
        given = {} if params is None else params.model_dump(mode="json", by_alias=True)
        try:
            return await run_in_threadpool(session.methods[method], given)
        except ProtocolError as error:
            raise MCPError(code=error.code, message=str(error)) from None

    async def list_tools(_: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate(await ask("tools/list", params))

    async def call_tool(_: Any, params: Any) -> types.CallToolResult:
        return types.CallToolResult.model_validate(await ask("tools/call", params))

    async def list_resources(_: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult.model_validate(await ask("resources/list", params))

    async def read_resource(_: Any, params: Any) -> types.ReadResourceResult:
        return types.ReadResourceResult.model_validate(await ask("resources/read", params))

    return Server(
        "omnigraph",
        version=omnigraph.__version__,
        instructions=toolbox.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )
