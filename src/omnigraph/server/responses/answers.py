"""Answers that are not errors: documents as JSON, and the headers of old names."""

import asyncio
import json
from collections.abc import Generator, Iterator, Mapping
from itertools import chain
from typing import Final

from anyio import CancelScope
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.cancellation import CancelToken, cancellable, current_token
from omnigraph.errors import QueryCancelled

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
    they hold, files among it, would stay for as long as nobody looks for garbage. A caller that
    stays and takes nothing for so long counts as gone.
    """

    def __init__(
        self,
        pieces: Iterator[bytes],
        status_code: int = 200,
        *,
        media_type: str,
        stall_s: float,
    ) -> None:
        self._stall_s = stall_s
        self._token = CancelToken(parent=current_token())
        self._rest = _go_through(pieces, self._token)
        first = next(self._rest, b"")
        super().__init__(chain([first], self._rest), status_code, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._stall_s):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        try:
            await super().__call__(scope, receive, send_in_time)
        except QueryCancelled:
            raise ClientDisconnect from None
        finally:
            self._token.cancel()
            with CancelScope(shield=True):
                await run_in_threadpool(self._rest.close)

    async def listen_for_disconnect(self, receive: Receive) -> None:
        await super().listen_for_disconnect(receive)
        self._token.cancel()  # the piece that is being made is not wanted, either


def _go_through(pieces: Iterator[bytes], token: CancelToken) -> Generator[bytes, None, None]:
    """Whoever closes this closes what it goes through. Every piece may come in another thread."""
    try:
        while True:
            with cancellable(token):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece
    finally:
        if isinstance(pieces, Generator):
            pieces.close()


def answer(document: JsonObject) -> Response:
    return JsonResponse(document)


def deprecate(response: Response, route: str) -> Response:
    """Say that a route is called something else now."""
    response.headers["Deprecation"] = "true"
    response.headers["Link"] = f'<{SUCCESSORS[route]}>; rel="successor-version"'
    return response
