"""One connection: limits that apply before a route is found.

uvicorn parses HTTP with httptools, which has no limit of time or size. Here the head of a request
has a maximum size and a time limit, and so has the rest of a body whose request is answered. A
request to upgrade to another protocol is read as a plain request: this server speaks only HTTP/1.
"""

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from omnigraph.effects import REAL

if TYPE_CHECKING:
    from uvicorn._types import (
        ASGI3Application,
        ASGIReceiveCallable,
        ASGISendCallable,
        ASGISendEvent,
        Scope,
    )

HEAD_BYTES_MAX: Final = 64 * 1024
"""The most bytes of the address, the headers and the trailers together."""


class HttpConnection(HttpToolsProtocol):
    _patience_s: Callable[[], float]
    """The time limit for the headers, and for the rest of a body that is answered already."""

    _in_head = True
    _unread_bytes = 0
    """Bytes since the parser last reported a head or a body: the parser buffers all of them."""
    _fault = "the request is not HTTP"
    """The text of the answer to a request that cannot be parsed."""
    _waiting: TimerHandle | None = None
    _begun: RequestResponseCycle | None = None
    """The request that is being answered; later ones may be pipelined behind it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._begun is not None and not self._begun.response_complete:
            # uvicorn notifies only the request that arrived last.
            self._begun.disconnected = True
            self._begun.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._unread_bytes += len(data)
        while data:
            try:
                self.parser.feed_data(data)
                data = b""
            except httptools.HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    self.send_400_response("this server is no proxy")
                    return
                data = self._spell_head() + data[upgrade.args[0] :]
            except httptools.HttpParserError:
                self._refuse_unreadable()
                return
        if self._unread_bytes > HEAD_BYTES_MAX:
            self._refuse_unreadable()
        elif self._waiting is None and not self._is_answering:
            self._wait()

    # callbacks of the parser

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers arrive after the headers were checked, and are not headers.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unread_bytes = len(self._spell_head())
        if self._unread_bytes > HEAD_BYTES_MAX:
            raise ValueError
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            self._fault = "the request must have one header Host"
            raise ValueError
        if not self.parser.should_upgrade():
            self._in_head = False
            self._unread_bytes = 0
            self._stop_waiting()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._in_head:
            self._unread_bytes = 0
            super().on_message_complete()

    def _spell_head(self) -> bytes:
        """The head that was parsed, without its `Upgrade` header."""
        lines = [
            name + b": " + value + b"\r\n" for name, value in self.headers if name != b"upgrade"
        ]
        version = self.parser.get_http_version().encode()
        start = [self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n"]
        return b"".join([*start, *lines, b"\r\n"])

    # the time limit

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self._patience_s(), self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self.transport.is_closing() or self._is_answering:
            return
        if self._in_head and self._unread_bytes:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
        else:
            self.transport.close()

    # answers without a route

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _refuse_unreadable(self) -> None:
        if self._unread_bytes > HEAD_BYTES_MAX:
            reason = f"the headers are larger than {HEAD_BYTES_MAX} bytes"
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason)
        else:
            self.send_400_response(self._fault)

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer and close the connection; if another answer has begun, only close it."""
        if not (self._is_answering and self.cycle.response_started):
            headers = [
                *self.server_state.default_headers,
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", b"%d" % len(reason)),
                (b"x-request-id", REAL.new_id().encode()),
                (b"connection", b"close"),
            ]
            lines = [name + b": " + value + b"\r\n" for name, value in headers]
            self.transport.write(
                b"".join([STATUS_LINE[status], *lines, b"\r\n", reason.encode("ascii")])
            )
        self.logger.warning("a connection was closed: %s", reason)
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        if cycle.scope["http_version"] != "1.1":
            app = _without_chunks(cycle, app)
        self._begun = cycle
        app = _abort_if_half_sent(cycle, app)
        super()._start_asgi_task(cycle, app)


def _abort_if_half_sent(cycle: RequestResponseCycle, app: "ASGI3Application") -> "ASGI3Application":
    """Abort the connection if the answer ends half sent: a caller that reads nothing would keep it
    open without limit.
    """

    async def answer(
        scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable"
    ) -> None:
        await app(scope, receive, send)
        if cycle.response_started and not cycle.response_complete and not cycle.disconnected:
            cycle.transport.abort()

    return answer


def _without_chunks(cycle: RequestResponseCycle, app: "ASGI3Application") -> "ASGI3Application":
    """For HTTP/1.0 callers: an answer of unknown length ends when the connection closes."""

    async def answer(
        scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable"
    ) -> None:
        async def send_unchunked(message: "ASGISendEvent") -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message.get("headers", ())}
                if b"content-length" not in names:
                    cycle.chunked_encoding = False
                    lengths.append(0)
            elif message["type"] == "http.response.body" and lengths:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        lengths: list[int] = []
        await app(scope, receive, send_unchunked)

    return answer


def connection_type(patience_s: Callable[[], float]) -> type[HttpConnection]:
    """A connection class whose time limit is read again for each wait."""

    class Patient(HttpConnection):
        _patience_s = staticmethod(patience_s)

    return Patient
