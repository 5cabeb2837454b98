"""Callers that speak HTTP badly, slowly, in an old way, or want to speak something else."""

import gc
import logging
import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph
from omnigraph.effects import REAL
from omnigraph.server.process.connection import HEAD_BYTES_MAX
from omnigraph.server.runtime.settings import Flags
from support.serving import running

PATIENCE_S = 1

QUERY = b'{"query":"query q() { match { $p: Person } return { $p.name } }"}'
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
LAST = b"Connection: close\r\n\r\n"


def post(path: str, *headers: str, body: bytes = QUERY, version: str = "1.1") -> bytes:
    lines = [
        f"POST /graphs/g/{path} HTTP/{version}",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


Dial = Callable[[], socket.socket]


@pytest.fixture(scope="module")
def dial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dial]:
    """Connections to a server that waits for a second."""
    folder: Path = tmp_path_factory.mktemp("connections")
    graph = omnigraph.init(
        folder / "g", "node Person { name: String @key } node Note { t: String }"
    )
    graph.insert("Note", [{"t": f"{each}{'x' * 400}"} for each in range(30_000)])
    graph.insert("Person", [{"name": "Ada"}, {"name": "Bo"}])
    (folder / "server.yaml").write_text(
        f"version: 1\nlimits: {{ body_timeout_s: {PATIENCE_S}, body_bytes: 1000 }}"
    )
    flags = Flags(folder / "server.yaml", (f"g={folder / 'g'}",), unauthenticated=True)
    with running(flags) as server:
        port = int(server.url.rpartition(":")[2])
        yield lambda: socket.create_connection(("127.0.0.1", port), timeout=120)


def hear(caller: socket.socket) -> bytes:
    """Everything up to the end of the connection."""
    heard = b""
    with suppress(ConnectionResetError):
        while piece := caller.recv(65_536):
            heard += piece
    return heard


def wait_for(what: Callable[[], bool]) -> None:
    deadline_ms = REAL.monotonic_ms() + 120_000
    while not what():
        assert REAL.monotonic_ms() < deadline_ms, "it did not happen in time"
        REAL.sleep_ms(10)


def ask(dial: Dial, *pieces: bytes) -> bytes:
    with dial() as caller:
        for each in pieces:
            caller.sendall(each)
            REAL.sleep_ms(20)
        return hear(caller)


def statuses(heard: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d+)", heard)]


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA\x00: b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        post("query", "Content-Length: 3"),
        post("query", "Transfer-Encoding: chunked"),
        b"POST /graphs/g/query HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_request_is_refused_with_an_id_and_the_connection_ends(
    dial: Dial, request_: bytes
) -> None:
    heard = ask(dial, request_)
    assert statuses(heard) == [400]
    assert b"text/plain" in heard
    assert re.search(rb"x-request-id: [0-9A-Z]{26}", heard)


@pytest.mark.parametrize("host", [b"", b"Host: h\r\nHost: i\r\n"])
@pytest.mark.parametrize("wish", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
def test_a_request_names_one_host(dial: Dial, host: bytes, wish: bytes) -> None:
    heard = ask(dial, b"GET /healthz HTTP/1.1\r\n" + host + wish + b"\r\n")
    assert statuses(heard) == [400]
    assert heard.endswith(b"the request must have one header Host")


@pytest.mark.parametrize(
    "head",
    [
        [b"X: " + b"a" * 40_000, b"a" * 40_000],
        [b"".join(b"x-%d: y\r\n" % each for each in range(10_000))],
        [b"X: " + b"a" * HEAD_BYTES_MAX + b"\r\n" + LAST],
    ],
)
def test_headers_are_not_kept_however_many_come(dial: Dial, head: list[bytes]) -> None:
    heard = ask(dial, HEALTH, *head)
    # Whoever goes on sending may lose the answer together with the connection.
    assert statuses(heard) in ([431], [])


def test_what_follows_a_body_is_no_header_and_not_kept_either(dial: Dial) -> None:
    start = post("query", body=b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    body = b"%x\r\n%b\r\n0\r\n" % (len(QUERY), QUERY)
    assert statuses(ask(dial, start, body, b"X: y\r\n\r\n", HEALTH + LAST)) == [200, 200]
    for much in (b"X: y\r\n" * 20_000, b"X: " + b"y" * 80_000):
        assert statuses(ask(dial, start, body, much)) in ([431], [])


def test_a_caller_that_would_rather_speak_something_else_is_answered_in_http(dial: Dial) -> None:
    """Clients of Java ask for HTTP/2 with every first request, also with those that have a body."""
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    request = post("query", *wish)
    head, _, body = request.rpartition(b"\r\n\r\n")
    for pieces in ([request], [head + b"\r\n\r\n", body], [request * 2]):
        heard = ask(dial, *pieces, HEALTH + LAST)
        assert set(statuses(heard)) == {200}
        assert heard.count(b'"p.name":"Ada"') == b"".join(pieces).count(b"POST")
        assert heard.endswith(b'"internal_schema_version":4}')


def test_a_caller_of_old_gets_a_stream_without_chunks(dial: Dial) -> None:
    heard = ask(dial, post("export", body=b'{"type_names":["Person"]}', version="1.0"))
    head, _, body = heard.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert [line[:16] for line in body.splitlines()] == [b'{"type":"Person"'] * 2
    assert statuses(ask(dial, b"GET /healthz HTTP/1.0\r\n\r\n")) == [200]


def test_those_who_never_finish_their_headers_do_not_stop_others(dial: Dial) -> None:
    slow = [dial() for _ in range(100)]
    for at, each in enumerate(slow):
        each.sendall((b"", b"GET /heal", HEALTH + b"X: ")[at % 3])
    assert statuses(ask(dial, HEALTH + LAST)) == [200]
    for at, each in enumerate(slow):
        with each:
            assert statuses(hear(each)) == ([408] if at % 3 else [])


@pytest.mark.parametrize("drip", [b"\r\n", b"x"])
def test_a_connection_that_is_only_kept_busy_ends(dial: Dial, drip: bytes) -> None:
    """Between requests, or with a body that was refused already."""
    with dial() as caller:
        too_large = post("query", body=b"x" * 2000)[:-1999]
        caller.sendall(HEALTH + b"\r\n" if drip == b"\r\n" else too_large)
        assert statuses(caller.recv(65_536)) == [200 if drip == b"\r\n" else 413]
        began_ms = REAL.monotonic_ms()
        with suppress(ConnectionError):
            while REAL.monotonic_ms() - began_ms < 120_000:
                caller.sendall(drip)
                REAL.sleep_ms(50)
    assert PATIENCE_S * 500 <= REAL.monotonic_ms() - began_ms < 120_000


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


@pytest.mark.parametrize("count", [1, 3])
def test_a_caller_that_goes_away_leaves_nothing_of_its_answer_behind(
    dial: Dial,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    count: int,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gc.disable()  # what is only found by looking for garbage is found whenever it pleases
    try:
        for _ in range(5):
            with dial() as caller:
                caller.sendall(post("export", body=b"{}") * count)
                assert statuses(caller.recv(100)) == [200]
                assert not is_empty(tmp_path)
        wait_for(lambda: is_empty(tmp_path))
    finally:
        gc.enable()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("route", ["load/ndjson", "load/files", "queries/q", "query"])
def test_a_caller_that_goes_away_before_it_has_asked_is_no_failure_of_ours(
    dial: Dial,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    route: str,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    request = post(route, body=b"--b\r\n" + b"x" * 500)[:-400]
    with dial() as caller:
        caller.sendall(request.replace(b"application/json", b"multipart/form-data; boundary=b"))
        REAL.sleep_ms(50)
    wait_for(lambda: any(each.message == "request" for each in caplog.records))
    assert is_empty(tmp_path)
    facts = next(each for each in caplog.records if each.message == "request").__dict__["facts"]
    assert facts["status"] in (None, 400)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
