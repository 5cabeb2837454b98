"""Positions at which a test breaks a write, and the ways to break it.

A failpoint is a position in the stream of calls to the stores of a graph, or in the steps that an
attempt announces; the product does not know failpoints. `At` names a position, a `Trigger` waits
for it, and an `Act` says what happens there: the store fails, the process dies, is killed, is
interrupted or waits for its release; or the test calls any function of its own at that moment.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Final

from omnigraph.errors import StorageFailure
from omnigraph.testing.faults import Crash, When

STEP: Final = "step"
"""The prefix of a step of an attempt, where a call to a store has its own name: `step publish`."""

LIST: Final = "objects.list"
QUEUE: Final = "volatile.list"
"""Before a writer takes a lease, it looks whether other writers queue for it."""
PUT: Final = "objects.put_over"
DELETE: Final = "objects.delete"
COMMIT: Final = "tables.commit_exact"
COMPACT: Final = "tables.single_step.commit_compaction"
SWAP: Final = "tables.single_step.swap_rows"
RESTORE: Final = "tables.restore"
FORK: Final = "tables.fork"
CLEAR: Final = "tables.clear_branch"
CREATE: Final = "tables.stage_create"
APPLY: Final = f"{STEP} apply"
PUBLISH: Final = f"{STEP} publish"
PROMOTE: Final = f"{STEP} promote"
DISARM: Final = f"{STEP} disarm"
PURGE: Final = "tables.single_step.delete_versions"


@dataclass(frozen=True, slots=True)
class At:
    """The n-th call of one name, before or after it happens."""

    call: str
    nth: int = 1
    when: When = When.BEFORE
    since: str | None = None
    """Count only from the first call of this name on."""


# ── what happens there ───────────────────────────────────────────────────────────────────────────

Act = Callable[[str], object]
"""Receives the name of the position."""


def fail(where: str) -> None:
    """The store fails, and the process lives on."""
    raise StorageFailure("carry out", subject=where, reason="the test said so")


def crash(where: str) -> None:
    """The process dies, as far as the product can tell."""
    raise Crash(where)


def kill(where: str) -> None:  # noqa: ARG001 - the process ends here
    """The process dies for real: no handler runs, nothing is unwound."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt(where: str) -> None:
    """The user presses Ctrl-C."""
    raise KeyboardInterrupt(where)


PATIENCE_S: Final = 30.0
"""How long a thread of a test waits for another one."""


class Pause:
    """A thread that arrives waits until the test releases it."""

    def __init__(self) -> None:
        self._arrived = Event()
        self._released = Event()

    def __call__(self, where: str) -> None:
        self._arrived.set()
        if not self._released.wait(PATIENCE_S):
            raise AssertionError(f"the test did not release {where}")

    def await_arrival(self) -> None:
        if not self._arrived.wait(PATIENCE_S):
            raise AssertionError("no thread arrived")

    def release(self) -> None:
        self._released.set()


@dataclass
class Trigger:
    """Watches for one position and acts there `times` times in a row, then never again.

    Give it to `watch_stores`, and its `observe` to a write context. After a crash every call
    crashes.
    """

    at: At
    act: Act
    times: int = 1
    seen: int = 0
    fired: int = 0
    _is_dead: bool = False
    _is_counting: bool = False
    _lock: Lock = field(default_factory=Lock)

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        if self._is_dead:
            raise Crash(call)
        self._arrive(call, When.BEFORE)

    def after(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        self._arrive(call, When.AFTER)

    def observe(self, step: str) -> None:
        """Only the first word of a step counts; the table that follows does not."""
        self.before(f"{STEP} {step.partition(' ')[0]}", is_write=False)

    def _arrive(self, call: str, when: When) -> None:
        with self._lock:
            self._is_counting |= self.at.since in (None, call)
            if not self._is_counting or (call, when) != (self.at.call, self.at.when):
                return
            self.seen += 1
            if not 0 <= self.seen - self.at.nth < self.times:
                return
            self.fired += 1
        try:
            self.act(f"{when.value} {call}")
        except Crash:
            self._is_dead = True
            raise
