"""The access log: each request gets an id, a line in the log, and its counters.

The id is the caller's `X-Request-Id` if it is valid, else a new one; every answer carries it. An
unexpected error is logged with its trace; the caller gets the id and no details.
"""

import json
import logging
import re
from asyncio import CancelledError
from contextvars import ContextVar
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnigraph.effects import REAL
from omnigraph.server.telemetry import metrics
from omnigraph.server.telemetry.tracing import CALLER, Tracer, TraceSpan, untraced

REQUEST_ID: Final = "X-Request-Id"
OPENAPI: Final = "/openapi.json"
_ACCEPTED: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

logger = logging.getLogger("omnigraph.server.requests")


class AccessLog:
    """The outermost middleware of the application."""

    def __init__(self, app: ASGIApp, tracer: Tracer = untraced) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        identity = given if _ACCEPTED.fullmatch(given) else REAL.new_id()
        request_id.set(identity)
        metrics.INFLIGHT.inc()
        started_ms = REAL.monotonic_ms()
        status: list[int] = []

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
                message["headers"] = [
                    *message.get("headers", []),
                    (REQUEST_ID.lower().encode(), identity.encode()),
                ]
            await send(message)

        with self._tracer(scope["method"], _find_caller(scope)) as span:
            try:
                await self._app(scope, receive, send_with_id)
            except ClientDisconnect:
                """The caller disconnected; nothing failed here."""
            except CancelledError:
                if status:
                    raise
                await _answer_given_up(send_with_id, identity)
            except Exception:
                logger.exception("request failed", extra={"facts": {"request_id": identity}})
                if status:
                    raise  # half of an answer is sent; only closing the connection remains
                await _answer_failure(send_with_id, identity)
            finally:
                self._record(scope, status, REAL.monotonic_ms() - started_ms, identity)
                _describe(span, scope, status, identity)

    def _record(self, scope: Scope, status: list[int], took_ms: int, identity: str) -> None:
        metrics.INFLIGHT.dec()
        route = _route(scope)
        answered = str(status[0]) if status else "none"
        # All unknown addresses share one label, or a scanner would fill the memory.
        metrics.REQUESTS.labels(scope["method"], route or "unknown", answered).inc()
        metrics.LATENCY.labels(scope["method"], route or "unknown").observe(took_ms / 1000)
        facts: dict[str, Any] = {
            "request_id": identity,
            "method": scope["method"],
            "route": route,
            "status": status[0] if status else None,
            "took_ms": took_ms,
            **_find_who(scope),
        }
        logger.info("request", extra={"facts": facts})


def _route(scope: Scope) -> str | None:
    # FastAPI does not set the route in the scope for its OpenAPI document.
    if scope["path"] == OPENAPI:
        return OPENAPI
    return getattr(scope.get("route"), "path", None)


def _find_who(scope: Scope) -> dict[str, str | None]:
    """The graph and the actor, once they are known. The token is not in the context."""
    context = scope.get("state", {}).get("context")
    return {} if context is None else {"graph": context.served_graph.id, "actor": context.actor}


def _find_caller(scope: Scope) -> dict[str, str]:
    """The `traceparent` header of the caller, if there is one."""
    found = dict(scope["headers"]).get(CALLER.encode())
    return {} if found is None else {CALLER: found.decode("latin-1")}


def _describe(span: TraceSpan, scope: Scope, status: list[int], identity: str) -> None:
    route = _route(scope) or "unknown"
    span.rename(f"{scope['method']} {route}")
    span.set_attribute("http.request.method", scope["method"])
    span.set_attribute("http.route", route)
    span.set_attribute("omnigraph.request_id", identity)
    if status:
        span.set_attribute("http.response.status_code", status[0])


async def _answer_failure(send: Send, identity: str) -> None:
    body = {"error": "internal error", "code": "internal", "request_id": identity}
    await _answer(send, 500, body)


async def _answer_given_up(send: Send, identity: str) -> None:
    """The server stops, and the request took longer than the drain time. Its thread may still run,
    so the outcome of a write is not known.
    """
    error = "the server stops before this request has ended; whether it wrote is not known"
    body = {"error": error, "retryable": True, "request_id": identity}
    await _answer(send, 503, body, (b"retry-after", b"1"))


async def _answer(
    send: Send, status: int, body: dict[str, Any], *more: tuple[bytes, bytes]
) -> None:
    headers = [(b"content-type", b"application/json"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
