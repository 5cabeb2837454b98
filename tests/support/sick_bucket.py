"""A bucket with trouble: it throttles, fails, drips and drops connections.

`SickBucket` is a proxy in front of an S3 server. For each request its `diagnose` names the trouble,
or none. `by_lot` draws it from a seed; a test may also name one for all requests.
"""

import random  # noqa: TID251 - a run is repeated by its seed
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from threading import Event, Lock
from typing import Final

from support.slow_bucket import SlowBucket

SLOW_DOWN: Final = (503, "SlowDown")
INTERNAL: Final = (500, "InternalError")


class Trouble(StrEnum):
    THROTTLED = "throttled"
    """503 SlowDown; the request had no effect."""
    FAILED = "failed"
    """500; the request had no effect."""
    FAILED_LATE = "failed late"
    """500; the request had its effect."""
    DROPPED = "dropped"
    """The connection is closed; the request had no effect."""
    DROPPED_LATE = "dropped late"
    """The connection is closed; the request had its effect."""
    TRUNCATED = "truncated"
    """Half of the body comes, then the connection is closed."""
    DRIPPING = "dripping"
    """The body comes slowly, in pieces."""


Diagnosis = Callable[[str, str], Trouble | None]
"""From the verb and the path of a request."""


def healthy(verb: str, path: str) -> None:
    """No trouble."""


def by_lot(seed: int, share: float) -> Diagnosis:
    chance, lock = random.Random(seed), Lock()

    def diagnose(verb: str, path: str) -> Trouble | None:  # noqa: ARG001 - a diagnosis
        with lock:
            return chance.choice(list(Trouble)) if chance.random() < share else None

    return diagnose


class SickBucket(SlowBucket):
    def __init__(self, server: str) -> None:
        super().__init__(server, delay_s=0)
        self.diagnose: Diagnosis = healthy
        self.asked: Counter[str] = Counter()
        """How often each request came, by verb and path."""
        self.troubles: Counter[Trouble] = Counter()
        self._counting = Lock()

    def _forward(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        trouble = self.diagnose(handler.command, path)
        with self._counting:
            self.asked[f"{handler.command} {handler.path}"] += 1
            self.troubles.update([] if trouble is None else [trouble])
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length) if length else None
        has_effect = trouble not in (Trouble.THROTTLED, Trouble.FAILED, Trouble.DROPPED)
        answer, data = self._ask(handler, body) if has_effect else ((0, []), b"")
        match trouble:
            case Trouble.THROTTLED:
                _refuse(handler, *SLOW_DOWN)
            case Trouble.FAILED | Trouble.FAILED_LATE:
                _refuse(handler, *INTERNAL)
            case Trouble.DROPPED | Trouble.DROPPED_LATE:
                handler.close_connection = True
            case _:
                _send(handler, answer, data, trouble)

    def _ask(
        self, handler: BaseHTTPRequestHandler, body: bytes | None
    ) -> tuple[tuple[int, list[tuple[str, str]]], bytes]:
        upstream = HTTPConnection(*self._target, timeout=60)
        try:
            upstream.request(handler.command, handler.path, body, dict(handler.headers))
            answer = upstream.getresponse()
            return (answer.status, answer.getheaders()), answer.read()
        finally:
            upstream.close()


def _refuse(handler: BaseHTTPRequestHandler, status: int, code: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>a test</Message></Error>".encode()
    handler.send_response_only(status)
    handler.send_header("Content-Type", "application/xml")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def _send(
    handler: BaseHTTPRequestHandler,
    answer: tuple[int, list[tuple[str, str]]],
    data: bytes,
    trouble: Trouble | None,
) -> None:
    status, headers = answer
    handler.send_response_only(status)
    lengths = [value for name, value in headers if name.lower() == "content-length"]
    is_head = handler.command == "HEAD"
    for name, value in headers:
        if name.lower() not in ("connection", "keep-alive", "transfer-encoding", "content-length"):
            handler.send_header(name, value)
    handler.send_header("Content-Length", (lengths or ["0"])[0] if is_head else str(len(data)))
    handler.end_headers()
    if is_head:
        return
    if trouble is Trouble.TRUNCATED and data:
        handler.wfile.write(data[: len(data) // 2])
        handler.close_connection = True
        return
    pieces = 4 if trouble is Trouble.DRIPPING else 1
    size = -(-len(data) // pieces) or 1
    for at in range(0, len(data), size):
        if pieces > 1:
            Event().wait(0.02)
        handler.wfile.write(data[at : at + size])
        handler.wfile.flush()
