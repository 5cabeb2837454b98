"""Coroutines run to their end in this thread, without an event loop.

The client of a server is written once, as coroutines. On a `BlockingTransport` a coroutine never
waits: the transport blocks the thread and returns. Such a coroutine runs to its end at the first
step, so the blocking client needs no event loop, no thread and no second implementation.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Core = TypeVar("Core")
Core_co = TypeVar("Core_co", covariant=True)


class Facade(Protocol[Core_co]):
    """An object whose methods run those of an asynchronous one."""

    @property
    def _core(self) -> Core_co: ...


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine on a blocking transport does not wait")


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """The items of an asynchronous iterator that never waits; closed with this iterator."""
    try:
        while True:
            try:
                item = run(_next(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            run(close())


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


def blocking(
    method: Callable[Concatenate[Core, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Facade[Core], P], T]:
    """The method of a facade that runs a method of its core, with the same parameters."""

    @wraps(method)
    def call(self: Facade[Core], /, *args: P.args, **options: P.kwargs) -> T:
        return run(method(self._core, *args, **options))

    return call


def blocking_iterator(
    method: Callable[Concatenate[Core, P], AsyncIterator[T]],
) -> Callable[Concatenate[Facade[Core], P], Iterator[T]]:
    """The same for a method that returns an asynchronous iterator."""

    @wraps(method)
    def call(self: Facade[Core], /, *args: P.args, **options: P.kwargs) -> Iterator[T]:
        return iterate(method(self._core, *args, **options))

    return call
