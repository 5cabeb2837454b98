"""Answers that are not errors: documents as JSON, and the headers of old names."""

import json
from collections.abc import Generator, Iterator, Mapping
from itertools import chain
from typing import Final

from anyio import CancelScope
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from omnigraph.commit.records import JsonObject

SUCCESSORS: Final = {"/read": "query", "/change": "mutate", "/ingest": "load"}
"""Routes of old, and what they are called now."""


class JsonResponse(Response):
    media_type = "application/json"

    def __init__(
        self,
        document: JsonObject,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        super().__init__(body.encode("utf-8", "replace"), status_code, dict(headers or {}))


class Stream(StreamingResponse):
    """Pieces, the first of them made at once: what is wrong is told before headers are.

    They are closed when the answer is over. A caller that goes away leaves them half read, and what
    they hold, files among it, would stay for as long as nobody looks for garbage.
    """

    def __init__(self, pieces: Iterator[bytes], status_code: int = 200, *, media_type: str) -> None:
        self._rest = _go_through(pieces)
        first = next(self._rest, b"")
        super().__init__(chain([first], self._rest), status_code, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await run_in_threadpool(self._rest.close)


def _go_through(pieces: Iterator[bytes]) -> Generator[bytes, None, None]:
    """Whoever closes this closes what it goes through."""
    yield from pieces


def answer(document: JsonObject) -> Response:
    return JsonResponse(document)


def deprecate(response: Response, route: str) -> Response:
    """Say that a route is called something else now."""
    response.headers["Deprecation"] = "true"
    response.headers["Link"] = f'<{SUCCESSORS[route]}>; rel="successor-version"'
    return response
