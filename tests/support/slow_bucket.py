"""A bucket whose requests take time, and are counted: in all, and one after the other.

`SlowBucket` is a proxy in front of an S3 server. It delays every request, also those that Lance
makes by itself, and records when each began and ended. Requests that a client sends together
overlap, because each takes at least the delay. The longest chain of requests that do not overlap is
therefore the number of times that the client waited: its *serial waits* (D30).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from time import monotonic
from typing import Final, Self

DELAY_S: Final = 0.05
_HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the bucket, with the times of this process."""

    verb: str
    path: str
    began: float
    ended: float

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


def find_longest_chain(requests: Sequence[Request]) -> list[Request]:
    """The most requests of which each began after the one before it had ended."""
    chain: list[Request] = []
    for each in sorted(requests, key=lambda request: request.ended):
        if not chain or each.began >= chain[-1].ended:
            chain.append(each)
    return chain


@dataclass(frozen=True, slots=True)
class Waits:
    """What one operation asked of the bucket until it returned."""

    requests: tuple[Request, ...]

    @property
    def serial(self) -> int:
        return len(find_longest_chain(self.requests))

    def __str__(self) -> str:
        """The waits in order, with the requests that began during each."""
        lines = []
        chain = find_longest_chain(self.requests)
        for number, step in enumerate(chain):
            since = chain[number - 1].ended if number else 0.0
            lines.append(
                " + ".join(
                    str(each)
                    for each in sorted(self.requests, key=lambda request: request.began)
                    if since <= each.began < step.ended
                )
            )
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


class SlowBucket:
    """A proxy of an S3 server; `endpoint` takes its place in the storage options."""

    def __init__(self, server: str, *, delay_s: float = DELAY_S, port: int = 0) -> None:
        host, _, served = server.removeprefix("http://").partition(":")
        self.delay_s = delay_s
        self._target = (host, int(served))
        self._done: list[Request] = []
        self._lock = Lock()
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionResetError, BrokenPipeError):
                    self.close_connection = True

            def _forward(self) -> None:
                bucket._forward(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward  # noqa: N815 - the base's

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        self._proxy = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._proxy.daemon_threads = True
        self._thread = Thread(target=self._proxy.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._proxy.server_address[1]}"

    @contextmanager
    def counting(self) -> Iterator[list[Request]]:
        """The requests that ended in between, filled when the block ends."""
        begun = monotonic()
        found: list[Request] = []
        yield found
        now = monotonic()
        with self._lock:
            found += [each for each in self._done if each.began >= begun and each.ended <= now]

    def _forward(self, handler: BaseHTTPRequestHandler) -> None:
        began = monotonic()
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length) if length else None
        Event().wait(self.delay_s)
        upstream = HTTPConnection(*self._target, timeout=60)
        try:
            upstream.request(handler.command, handler.path, body, dict(handler.headers))
            answer = upstream.getresponse()
            data = answer.read()
        finally:
            upstream.close()
        with self._lock:
            self._done.append(Request(handler.command, handler.path, began, monotonic()))
        handler.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                handler.send_header(name, value)
        if handler.command == "HEAD":
            handler.send_header("Content-Length", answer.getheader("Content-Length") or "0")
        else:
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(data)
