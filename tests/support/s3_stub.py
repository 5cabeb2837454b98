"""A server that speaks just enough S3 to tell what a client sent, or to refuse it."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

LISTING = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


@dataclass(frozen=True)
class Seen:
    """What a request says about the caller; equal for callers that are configured alike."""

    host: str
    bucket_in_path: bool
    key_id: str | None
    region: str | None
    token: str | None


@dataclass
class Stub:
    port: int = 0
    status: int | None = None
    """The answer to everything; None lists nothing and finds nothing."""
    code: str = ""
    seen: list[Seen] = field(default_factory=list)
    requests: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self) -> set[Seen]:
        """The callers since the last call of this method."""
        found = set(self.seen)
        self.seen.clear()
        return found


@contextmanager
def run_stub() -> Iterator[Stub]:
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            stub.requests += 1
            stub.seen.append(_seen(self))
            status, body = _answer(stub, self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - named by http.server

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(stub: Stub, path: str) -> tuple[int, bytes]:
    if stub.status is not None:
        quoted = f"<Error><Code>{stub.code}</Code><Message>of {stub.code}</Message></Error>"
        return stub.status, quoted.encode()
    return (
        (200, LISTING) if "list-type=2" in path else (404, b"<Error><Code>NoSuchKey</Code></Error>")
    )


def _seen(request: BaseHTTPRequestHandler) -> Seen:
    signed = re.search(
        r"Credential=([^/]*)/\d+/([^/]*)/s3/", request.headers.get("Authorization", "")
    )
    return Seen(
        host=request.headers["Host"],
        # A proxy is asked for a whole address.
        bucket_in_path=urlsplit(request.path).path.startswith("/buck"),
        key_id=signed and signed[1],
        region=signed and signed[2],
        token=request.headers.get("x-amz-security-token"),
    )
