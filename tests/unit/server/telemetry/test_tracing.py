"""Spans: nothing by default, OpenTelemetry if it is asked for, and a refusal of anything else."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from omnigraph.errors import ConfigInvalid
from omnigraph.server.telemetry.access_log import AccessLog
from omnigraph.server.telemetry.tracing import TRACING, TraceSpan, find_tracer, untraced


class Recorded:
    def __init__(self, name: str, caller: Mapping[str, str]) -> None:
        self.name = name
        self.caller = caller
        self.facts: dict[str, str | int] = {}
        self.is_over = False

    def set_attribute(self, name: str, value: str | int) -> None:
        self.facts[name] = value

    def rename(self, name: str) -> None:
        self.name = name


def ask(headers: list[tuple[bytes, bytes]], *, is_broken: bool = False) -> Recorded:
    """One request through an observer that is traced."""
    spans: list[Recorded] = []

    @contextmanager
    def recorded(name: str, caller: Mapping[str, str]) -> Iterator[TraceSpan]:
        spans.append(Recorded(name, caller))
        yield spans[-1]
        spans[-1].is_over = True

    def trace(name: str, caller: Mapping[str, str]) -> AbstractContextManager[TraceSpan]:
        return recorded(name, caller)

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 - the protocol's
        if is_broken:
            raise ZeroDivisionError
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def send(message: Any) -> None: ...

    async def receive() -> Any: ...

    scope = {"type": "http", "method": "POST", "path": "/secret/path", "headers": headers}
    asyncio.run(AccessLog(app, trace)(scope, receive, send))
    (span,) = spans
    return span


def test_a_request_is_a_span_inside_that_of_its_caller() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    span = ask([(b"traceparent", parent.encode()), (b"authorization", b"Bearer secret")])
    assert span.caller == {"traceparent": parent}
    assert (span.name, span.is_over) == ("POST unknown", True)
    assert span.facts["http.response.status_code"] == 204
    assert "secret" not in str(vars(span)), "neither tokens nor what was asked"


def test_a_request_that_broke_is_a_span_too() -> None:
    assert ask([], is_broken=True).facts["http.response.status_code"] == 500


def test_nothing_is_traced_unless_somebody_asks_for_it() -> None:
    for off in ({}, {TRACING: "off"}, {TRACING: ""}):
        assert find_tracer(off) is untraced
    with pytest.raises(ConfigInvalid, match="zipkin"):
        find_tracer({TRACING: "zipkin"})


def test_open_telemetry_is_used_as_the_process_has_it() -> None:
    with find_tracer({TRACING: "otel"})("GET", {}) as span:
        span.rename("GET /x")
        span.set_attribute("http.route", "/x")
