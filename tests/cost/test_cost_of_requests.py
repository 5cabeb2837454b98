"""What a request of the server costs beside its work: calls of the event loop, and threads.

All requests of a worker share one event loop and one lock of the interpreter. Never in seconds.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import anyio.to_thread
import pytest
from fastapi import FastAPI
from starlette.types import Message

import omnigraph
from omnigraph.server.app import build_app
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.state import ServerRuntime

SCHEMA = "node Person { name: String @key }"
INSERT = "query w($a: String) { insert Person { name: $a } }"
READ = "query r($a: String) { match { $p: Person { name: $a } } return { $p.name } }"
REQUESTS: dict[str, Callable[[str], dict[str, object]]] = {
    "mutate": lambda name: {"query": INSERT, "params": {"a": name}},
    "rows": lambda name: {"type": "Person", "rows": [{"name": name}]},
    "query": lambda name: {"query": READ, "params": {"a": name}},
}
CALLS_MAX = 1_200
"""On the event loop, ours and those of the libraries that find a route and check a body."""


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    omnigraph.init(tmp_path / "g", SCHEMA).close()
    flags = Flags(graphs=(f"g={tmp_path / 'g'}",), unauthenticated=True)
    return build_app(ServerRuntime(flags, {}))


@pytest.mark.parametrize("route", REQUESTS)
def test_a_request_is_handed_to_one_thread_and_no_more(
    app: FastAPI, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[object] = []
    run_sync = anyio.to_thread.run_sync

    async def watch(work: Callable[..., object], *args: object, **options: Any) -> object:
        handed.append(work)
        return await run_sync(work, *args, **options)

    monkeypatch.setattr(anyio.to_thread, "run_sync", watch)
    assert asyncio.run(ask(app, route, "ada")) == 200
    assert len(handed) == 1


def test_a_write_takes_few_calls_of_the_event_loop(app: FastAPI) -> None:
    counts: list[int] = []

    async def measure() -> None:
        assert await ask(app, "mutate", "warm") == 200
        for each in range(3):
            made: list[None] = []
            sys.setprofile(_counter(made))
            try:
                status = await ask(app, "mutate", f"p{each}")
            finally:
                sys.setprofile(None)
            assert status == 200
            counts.append(len(made))

    asyncio.run(measure())
    assert min(counts) <= CALLS_MAX, counts


def _counter(made: list[None]) -> Callable[[FrameType, str, object], None]:
    def watch(_frame: FrameType, event: str, _what: object) -> None:
        if event == "call":
            made.append(None)

    return watch


async def ask(app: FastAPI, route: str, name: str) -> int:
    """One request, as the server gives it to the application; its status."""
    body = json.dumps(REQUESTS[route](name)).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": f"/graphs/g/{route}",
        "raw_path": f"/graphs/g/{route}".encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    arriving: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    answered: list[Message] = []

    async def receive() -> Message:
        return arriving.pop() if arriving else await asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        answered.append(message)

    await app(scope, receive, send)
    status: int = answered[0]["status"]
    return status
