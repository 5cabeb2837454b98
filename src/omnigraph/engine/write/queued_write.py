"""A write that waits for its group, and the answer that its caller waits for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.write.mutate import WriteOutcome, WriteRequest, WriteTask
from omnigraph.ids import TableKey

INTERRUPTED_S: Final = 1.0
"""A signal that comes just before the caller sleeps wakes it so late: Python sees it only then."""


def _held() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


@dataclass(eq=False, slots=True)
class QueuedWrite:
    """One write between its call and its answer. The call waits; another thread answers."""

    schema: ActiveSchema
    task: WriteTask
    tables: Collection[TableKey]
    """Every table that the task may write."""
    request: WriteRequest
    seen: Mapping[TableKey, Pin | None]
    """The tables that it updates or deletes from, as the branch showed them at the call."""
    size_bytes: int
    is_taken: bool = False
    """Did a group take it? A write that was moved or put back waits again, and may be withdrawn."""
    is_withdrawn: bool = False
    """Was the call interrupted? The write then takes no part in a group that is not armed yet."""
    retries: int = 0
    """How often its group failed because the branch had changed."""
    _answer: WriteOutcome | BaseException | None = None
    _waits: Lock = field(default_factory=_held)
    """Held until there is an answer. An Event takes several times as long to make and to wait."""

    @property
    def is_answered(self) -> bool:
        return self._answer is not None

    def succeed(self, outcome: WriteOutcome) -> None:
        self._decide(outcome)

    def fail(self, error: BaseException) -> None:
        self._decide(error)

    def _decide(self, answer: WriteOutcome | BaseException) -> None:
        """The first answer counts: what fails after a publish takes no success back."""
        if not self.is_answered:
            self._answer = answer
            self._waits.release()

    def wait(self) -> WriteOutcome:
        """Raises what the write failed with."""
        while self._answer is None:
            self._waits.acquire(timeout=INTERRUPTED_S)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer
