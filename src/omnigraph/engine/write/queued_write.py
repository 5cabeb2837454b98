"""A write that waits for its group, and the answer that its caller waits for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.write.mutate import WriteOutcome, WriteRequest, WriteTask
from omnigraph.ids import TableKey


@dataclass(eq=False, slots=True)
class QueuedWrite:
    """One write between its call and its answer. The call waits; another thread answers."""

    schema: ActiveSchema
    task: WriteTask
    request: WriteRequest
    seen: Mapping[TableKey, Pin | None]
    """The tables that it updates or deletes from, as the branch showed them at the call."""
    size_bytes: int
    is_withdrawn: bool = False
    """Was the call interrupted? The write then takes no part in a group that is not armed yet."""
    retries: int = 0
    """How often its group failed because the branch had changed."""
    _answer: WriteOutcome | BaseException | None = None
    _is_answered: Event = field(default_factory=Event)

    @property
    def is_answered(self) -> bool:
        return self._is_answered.is_set()

    def succeed(self, outcome: WriteOutcome) -> None:
        self._decide(outcome)

    def fail(self, error: BaseException) -> None:
        self._decide(error)

    def _decide(self, answer: WriteOutcome | BaseException) -> None:
        """The first answer counts: what fails after a publish takes no success back."""
        if not self.is_answered:
            self._answer = answer
            self._is_answered.set()

    def wait(self) -> WriteOutcome:
        """Raises what the write failed with."""
        self._is_answered.wait()
        if isinstance(self._answer, BaseException):
            raise self._answer
        assert self._answer is not None, "an answered write has an answer"
        return self._answer
