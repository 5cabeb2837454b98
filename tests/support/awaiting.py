"""An asynchronous graph as the suites of blocking clients see it.

A loop of its own runs in a thread. Whatever is awaited there is waited for here: coroutines become
their results, asynchronous iterators become iterators, asynchronous objects become adapters.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, cast

import omnigraph
from omnigraph.sdk.client import GraphClient

_END = object()


class Adapter:
    """Forwards everything to an asynchronous object, and waits."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return self._adapt(getattr(self._target, name))

    def __repr__(self) -> str:
        return repr(self._target).removeprefix("Async")

    def __str__(self) -> str:
        return str(self._target)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._forward(self._target.__call__)(*args, **options)

    def __len__(self) -> int:
        return len(self._target)

    def __enter__(self) -> Any:
        return self._adapt(self._target.__aenter__())

    def __exit__(self, *raised: object) -> None:
        self._wait(self._target.__aexit__(*raised))

    def _adapt(self, value: Any) -> Any:
        if inspect.iscoroutine(value):
            return self._adapt(self._wait(value))
        if inspect.ismethod(value):
            return self._forward(value)
        if hasattr(value, "__anext__"):
            return self._iterate(value)
        if type(value).__name__.startswith("Async"):
            return self if value is self._target else Adapter(value, self._loop)
        return value

    def _forward(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            plain = [each._target if isinstance(each, Adapter) else each for each in args]
            return self._adapt(method(*plain, **options))

        return call

    def _iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        async def find_next() -> Any:
            return await anext(items, _END)

        while (item := self._wait(find_next())) is not _END:
            yield item

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(300)


@contextmanager
def awaiting(url: str, *, graph: str) -> Iterator[GraphClient]:
    """The asynchronous client of a server, as a blocking one."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        opened = asyncio.run_coroutine_threadsafe(_open(url, graph), loop).result(300)
        with Adapter(opened, loop) as adapter:
            yield cast("GraphClient", adapter)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


async def _open(url: str, graph: str) -> omnigraph.AsyncGraph:
    return await omnigraph.aopen(url, graph=graph)
