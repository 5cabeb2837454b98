"""Answers that are not errors: JSON documents, streams, headers of deprecated routes."""

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

import omnigraph
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.commit.manifest.stamp import CURRENT
from omnigraph.engine.cancellation import CancelToken, cancellable, current_token
from omnigraph.errors import QueryCancelled

SUCCESSORS: Final = {"/read": "query", "/change": "mutate", "/ingest": "load"}
"""Deprecated routes, and the names that replace them."""


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
    """An answer in pieces. The first piece is made before the headers are sent, so that an error in
    it still has a status of its own.

    The iterator is closed when the answer ends: a caller that disconnects leaves it half read, and
    the files that it holds would stay open until the next garbage collection. A caller that reads
    nothing for `stall_s` is disconnected.
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
        self._rest = _iterate(pieces, self._token)
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
        self._token.cancel()  # stops the piece that is being made


def _iterate(pieces: Iterator[bytes], token: CancelToken) -> Generator[bytes, None, None]:
    """Closing this generator closes `pieces`. Each piece may be made in another thread."""
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
    """Add the headers that name the route's successor."""
    response.headers["Deprecation"] = "true"
    response.headers["Link"] = f'<{SUCCESSORS[route]}>; rel="successor-version"'
    return response


def health_document() -> JsonObject:
    return {
        "status": "ok",
        "version": omnigraph.__version__,
        "internal_schema_version": CURRENT,
    }
