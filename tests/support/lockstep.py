"""Threads in lock-step: each runs only when a scheduler lets it, so a seed repeats a run.

The product knows nothing of it. While `in_lockstep` is in force, the names `Lock`, `RLock`,
`Condition`, `Event`, `Thread` and `monotonic` in the modules of the product stand for the ones
below. A thread that would wait hands the turn back to the scheduler, and says what it waits for.

At any moment one thread of the simulation runs. So a lock needs no lock.
"""

import importlib
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from threading import Semaphore
from types import ModuleType
from typing import Final, Protocol

import omnigraph.commit
import omnigraph.engine
import omnigraph.storage

FOR_EVER: Final = 1 << 62
PACKAGES: Final = (omnigraph.commit, omnigraph.engine, omnigraph.storage)


class Scheduler(Protocol):
    """Who lets threads run, by its own clock."""

    now_ms: int
    turn: Semaphore
    """Released by the thread that ran, when it waits or has ended."""
    running: "Strand | None"


class Home(Protocol):
    """The process of a thread."""

    is_dead: bool
    frozen_until_ms: int

    def start(self, work: Callable[[], object], name: str) -> "Strand": ...
    def die_if_dead(self) -> None: ...


class Strand:
    """A thread that runs only when the scheduler lets it."""

    def __init__(
        self, scheduler: Scheduler, home: Home, work: Callable[[], object], name: str
    ) -> None:
        self.scheduler = scheduler
        self.home = home
        self.name = name
        self.go = Semaphore(0)
        self.is_over = False
        self._wakes_ms = scheduler.now_ms
        self._awaited: Callable[[], bool] | None = None
        threading.Thread(target=self._live, args=(work,), name=name, daemon=True).start()

    def _live(self, work: Callable[[], object]) -> None:
        self._park()
        try:
            work()
        finally:
            self.is_over = True
            self.scheduler.turn.release()

    def _park(self) -> None:
        assert self.go.acquire(timeout=600), "the simulation ended without this thread"

    @property
    def wakes_ms(self) -> int:
        """When it can go on, unless another thread changes that."""
        if self.home.is_dead:
            return 0  # it finds out, and ends
        is_awaited_there = self._awaited is not None and self._awaited()
        return max(0 if is_awaited_there else self._wakes_ms, self.home.frozen_until_ms)

    def hand_over(self) -> None:
        """Let the scheduler choose who goes on."""
        self.scheduler.turn.release()
        self._park()

    def sleep_ms(self, duration_ms: int) -> None:
        self._wakes_ms = self.scheduler.now_ms + duration_ms
        self.hand_over()

    def wait(self, awaited: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until it is so, or for so long. Raises if the process dies meanwhile."""
        if not awaited():
            patience_ms = FOR_EVER if timeout_s is None else round(timeout_s * 1000)
            self._wakes_ms = min(self.scheduler.now_ms + patience_ms, FOR_EVER)
            self._awaited = awaited
            self.hand_over()
            self._awaited, self._wakes_ms = None, self.scheduler.now_ms
            self.home.die_if_dead()
        return awaited()


# ── what the modules of the product get instead ──────────────────────────────────────────────────


class Primitives:
    """The primitives of `threading`, for the threads of one scheduler.

    The thread that starts the simulation, and judges it, is none of them: it never has to wait.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    @property
    def me(self) -> object:
        """The thread that asks."""
        return self.scheduler.running or self

    def wait(self, awaited: Callable[[], bool], timeout_s: float | None = None) -> bool:
        strand = self.scheduler.running
        if strand is None:
            assert awaited(), "nobody is left who could change that"
            return True
        return strand.wait(awaited, timeout_s)

    def replacements(self) -> dict[str, tuple[object, object]]:
        """By name: what a module imports, and what it gets."""
        steppeds = (SteppedLock, SteppedRLock, SteppedCondition, SteppedEvent, SteppedThread)
        found: dict[str, tuple[object, object]] = {
            each.__name__.removeprefix("Stepped"): (
                getattr(threading, each.__name__.removeprefix("Stepped")),
                partial(each, self),
            )
            for each in steppeds
        }
        return {**found, "monotonic": (time.monotonic, lambda: self.scheduler.now_ms / 1000)}


class SteppedLock:
    """`Lock`. Whoever releases it, it is free: a thread may release what another one acquired."""

    def __init__(self, primitives: Primitives) -> None:
        self._primitives = primitives
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002
        patience_s = 0 if not blocking else None if timeout < 0 else timeout
        if self._is_held and patience_s == 0:
            return False
        if not self._primitives.wait(lambda: not self._is_held, patience_s):
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *failure: object) -> None:
        self.release()


class SteppedRLock:
    """`RLock`: a thread that holds it may acquire it again."""

    def __init__(self, primitives: Primitives) -> None:
        self._primitives = primitives
        self._inner = SteppedLock(primitives)
        self._owner: object = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002
        me = self._primitives.me
        if self._owner is not me:
            if not self._inner.acquire(blocking, timeout):
                return False
            self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth <= 0:
            self.release_all()

    def release_all(self) -> None:
        self._owner, self._depth = None, 0
        self._inner.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *failure: object) -> None:
        self.release()


class SteppedCondition(SteppedRLock):
    """`Condition`, with a lock of its own."""

    def __init__(self, primitives: Primitives) -> None:
        super().__init__(primitives)
        self._waiting: list[list[bool]] = []

    def wait(self, timeout: float | None = None) -> bool:
        told = [False]
        self._waiting.append(told)
        self.release_all()
        try:
            return self._primitives.wait(lambda: told[0], timeout)
        finally:
            self._waiting = [each for each in self._waiting if each is not told]
            self.acquire()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        assert timeout is None, "nobody waits so here"
        while not predicate():
            self.wait()
        return True

    def notify(self, n: int = 1) -> None:
        for each in self._waiting[:n]:
            each[0] = True

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class SteppedEvent:
    """`Event`."""

    def __init__(self, primitives: Primitives) -> None:
        self._primitives = primitives
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._primitives.wait(self.is_set, timeout)


class SteppedThread:
    """`Thread`: another strand of the process that starts it."""

    def __init__(
        self,
        primitives: Primitives,
        *,
        target: Callable[..., object],
        args: tuple[object, ...] = (),
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        del daemon  # every strand is one: a simulation ends when its threads have ended
        self._primitives = primitives
        self._work: Callable[[], object] = lambda: target(*args)
        self._name = name
        self._strand: Strand | None = None

    def start(self) -> None:
        running = self._primitives.scheduler.running
        assert running is not None, "only a process of the simulation starts threads"
        self._strand = running.home.start(self._work, self._name)

    def is_alive(self) -> bool:
        return self._strand is not None and not self._strand.is_over

    def join(self, timeout: float | None = None) -> None:
        self._primitives.wait(lambda: not self.is_alive(), timeout)


@contextmanager
def in_lockstep(scheduler: Scheduler) -> Iterator[None]:
    """Let the product use the primitives of this scheduler."""
    replacements = Primitives(scheduler).replacements()
    changed = [
        (module, name, known)
        for module in _modules()
        for name, (known, _) in replacements.items()
        if vars(module).get(name) is known
    ]
    for module, name, _ in changed:
        setattr(module, name, replacements[name][1])
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


@cache
def _modules() -> tuple[ModuleType, ...]:
    """Every module of the product that may run, imported before names are replaced."""
    names = [
        each.name
        for package in PACKAGES
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return tuple(importlib.import_module(each) for each in sorted(names))
