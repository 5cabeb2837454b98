"""Requests that do not depend on each other are sent together (D30).

A request to a bucket takes tens of milliseconds, whatever it asks for. A local disk answers in
microseconds, and a thread would cost more than it saves: there the calls run in sequence.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from functools import cache
from typing import Final, TypeVar

T = TypeVar("T")

REQUESTS_IN_PARALLEL: Final = 32
"""Of all operations of the process together."""

_depth: ContextVar[int] = ContextVar("depth", default=0)
"""How many pools the running call is inside. Each depth has a pool of its own, so a call never
waits for a thread that waits for it."""


def run_together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run calls in parallel and return when all have ended. Raises the first failure, by position.

    The calls see the context variables of the caller.
    """
    first, *others = calls
    depth = _depth.get()
    pool = _pool(os.getpid(), depth)
    running = [pool.submit(copy_context().run, _run_inside, each, depth) for each in others]
    try:
        answers = [first()]
    finally:
        wait(running)
    return answers + [each.result() for each in running]


def _run_inside(call: Callable[[], T], depth: int) -> T:
    _depth.set(depth + 1)
    return call()


@cache
def _pool(process_id: int, depth: int) -> ThreadPoolExecutor:  # noqa: ARG001 - keys of the cache
    """One pool for each process: the threads of a pool do not survive a fork."""
    return ThreadPoolExecutor(REQUESTS_IN_PARALLEL, thread_name_prefix="omnigraph-requests")
