"""Sending requests: by a thread that waits, or in an event loop.

All methods are coroutines. Those of `BlockingTransport` never wait (`remote.blocking`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, Protocol

import httpx

from omnigraph.effects import Effects
from omnigraph.sdk.remote.blocking import iterate

TIMEOUT_S: Final = 600.0
CONNECT_TIMEOUT_S: Final = 10.0

IDLE_MAX: Final = 100
"""How many idle connections an asynchronous client keeps. Requests in flight are not limited."""

_STOP_S: Final = 0.05
"""How often a cancelled reader is told."""

_TIMEOUT: Final = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)


class Transport(Protocol):
    """One HTTP client. Its methods raise httpx.RequestError."""

    async def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        """The whole answer."""
        ...

    async def open(self, method: str, url: str, **more: Any) -> httpx.Response:
        """An answer whose body is not read yet; `close_answer` it."""
        ...

    async def read(self, answer: httpx.Response) -> bytes: ...

    def pieces(self, answer: httpx.Response) -> AsyncIterator[bytes]: ...

    async def close_answer(self, answer: httpx.Response) -> None: ...

    async def consume(
        self, items: AsyncIterator[bytes], use: Callable[[Iterator[bytes]], None]
    ) -> None:
        """Pass items to a function that blocks."""
        ...

    async def pause(self, milliseconds: int) -> None: ...

    async def close(self) -> None: ...


class BlockingTransport:
    """Blocks the thread of the caller. Safe to share among threads."""

    def __init__(self, headers: Mapping[str, str], effects: Effects) -> None:
        self._client = httpx.Client(headers=dict(headers), timeout=_TIMEOUT)
        self._effects = effects

    async def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        return self._client.request(method, url, **more)

    async def open(self, method: str, url: str, **more: Any) -> httpx.Response:
        return self._client.send(self._client.build_request(method, url, **more), stream=True)

    async def read(self, answer: httpx.Response) -> bytes:
        return answer.read()

    async def pieces(self, answer: httpx.Response) -> AsyncIterator[bytes]:
        for piece in answer.iter_bytes():
            yield piece

    async def close_answer(self, answer: httpx.Response) -> None:
        answer.close()

    async def consume(
        self, items: AsyncIterator[bytes], use: Callable[[Iterator[bytes]], None]
    ) -> None:
        use(iterate(items))

    async def pause(self, milliseconds: int) -> None:
        self._effects.sleep_ms(milliseconds)

    async def close(self) -> None:
        self._client.close()


class AsyncTransport:
    """Waits in the event loop that runs it. Cancelling a task closes its request."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE_MAX)
        self._client = httpx.AsyncClient(headers=dict(headers), timeout=_TIMEOUT, limits=limits)

    async def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        return await self._client.request(method, url, **more)

    async def open(self, method: str, url: str, **more: Any) -> httpx.Response:
        asked = self._client.build_request(method, url, **more)
        return await self._client.send(asked, stream=True)

    async def read(self, answer: httpx.Response) -> bytes:
        return await answer.aread()

    def pieces(self, answer: httpx.Response) -> AsyncIterator[bytes]:
        return answer.aiter_bytes()

    async def close_answer(self, answer: httpx.Response) -> None:
        await answer.aclose()

    async def consume(
        self, items: AsyncIterator[bytes], use: Callable[[Iterator[bytes]], None]
    ) -> None:
        await consume_in_thread(items, use)

    async def pause(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)

    async def close(self) -> None:
        await self._client.aclose()


async def consume_in_thread(
    items: AsyncIterator[bytes], use: Callable[[Iterator[bytes]], None]
) -> None:
    """Pass items of this event loop to a function in a thread.

    If the task is cancelled, the function sees the exception in its next item, so that it does not
    take half of the items for all of them. The task ends after the function has ended.
    """
    loop = asyncio.get_running_loop()
    waiting: list[Future[bytes | None]] = []

    async def find_next() -> bytes | None:
        return await anext(items, None)

    def pull() -> Iterator[bytes]:
        while True:
            waiting[:] = [asyncio.run_coroutine_threadsafe(find_next(), loop)]
            item = waiting[0].result()
            if item is None:
                return
            yield item

    done = loop.run_in_executor(None, use, pull())
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            for each in waiting:
                each.cancel()
            await asyncio.wait([done], timeout=_STOP_S)
        if not done.cancelled():
            done.exception()  # it is of the cancellation, and has no reader
        raise
