"""A fair queue among all processes, made of ticket objects in the store.

1. A waiter writes a ticket. The oldest live ticket is first. A newcomer that finds a ticket joins.
2. The queue is only a courtesy. A compare-and-swap decides every race that the queue orders, so a
   process that cannot read the queue loses time and nothing else.
3. A waiter polls the less often, the more tickets are ahead of it: polling takes time from the
   writers that are served.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from omnigraph.commit.leases.owner import Owner, is_dead
from omnigraph.effects import Effects
from omnigraph.errors import StorageFailure
from omnigraph.storage.objects import Listed, Objects

POLL_MS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Ticket:
    """A position in the queue. Tickets sort by the time they were written."""

    number: str
    owner: Owner

    def encode(self) -> str:
        owner = self.owner
        return f"{self.number}~{owner.pid}~{owner.pid_start}~{owner.boot_id}~{owner.host}"


def decode_ticket(name: str) -> Ticket | None:
    """None for a name that is not a ticket."""
    parts = name.split("~", 4)
    if len(parts) != 5 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    number, pid, pid_start, boot_id, host = parts
    return Ticket(number, Owner(host, boot_id, int(pid), int(pid_start)))


@dataclass(frozen=True, slots=True)
class FairQueue:
    """One queue, as one process sees it."""

    objects: Objects
    effects: Effects
    owner: Owner
    prefix: str
    patience_ms: int
    """No process waits longer than this. The process of an older ticket has died."""
    poll_ms: int
    """The polling interval of the first waiter."""

    def is_empty(self) -> bool:
        return not self.objects.list(self.prefix)

    @contextmanager
    def join(self) -> Iterator[Ticket]:
        """Write a ticket, and delete it at the end."""
        ticket = Ticket(self.effects.new_id(), self.owner)
        key = f"{self.prefix}/{ticket.encode()}"
        self.objects.put_new(key, b"{}")
        try:
            yield ticket
        finally:
            self.objects.delete(key)

    def count_ahead(self, ticket: Ticket) -> int:
        """The number of live tickets that are older. Deletes the tickets of dead processes."""
        ahead = 0
        for listed in self.objects.list(self.prefix):
            other = decode_ticket(listed.key.rpartition("/")[2])
            if other is None or other.number >= ticket.number:
                continue
            if not is_dead(other.owner) and not self._is_expired(listed):
                ahead += 1
            else:
                # A dead ticket would make every later writer join the queue for ever.
                self.objects.delete(listed.key)
        return ahead

    def sleep(self, ahead: int) -> None:
        """Wait until the next poll, given the number of tickets ahead."""
        self.effects.sleep_ms(min(self.poll_ms * (1 + 2 * ahead), POLL_MS_MAX))

    def _is_expired(self, listed: Listed) -> bool:
        if self.effects.now_ms() - listed.modified_ms < self.patience_ms // 2:
            return False
        return self.objects.clock_ms() - listed.modified_ms > self.patience_ms


class FairBackoff:
    """Backs off from a contended swap by joining a fair queue.

    Entering passes straight through while the queue is empty. A writer that finds a ticket, or
    that was refused once, joins the queue and stays in it until the exit. A queue that cannot be
    read or joined is ignored.
    """

    def __init__(self, queue: FairQueue | None, *, wait_ms_max: int = 0) -> None:
        self._queue = queue
        self._wait_ms_max = wait_ms_max
        self._tickets = ExitStack()
        self._has_joined = False
        self._is_empty: bool | None = None

    def look(self) -> None:
        """Look for tickets, unless that was done before."""
        with suppress(StorageFailure):
            if self._queue is not None and self._is_empty is None:
                self._is_empty = self._queue.is_empty()

    def __enter__(self) -> Self:
        self.look()
        if self._is_empty is False:
            self.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(StorageFailure):
            self._tickets.close()

    def wait(self) -> None:
        """Join the queue, unless that was done before, and wait until no ticket is ahead.

        The wait ends after `wait_ms_max`, because the queue is only a courtesy.
        """
        queue = self._queue
        if queue is None or self._has_joined:
            return
        self._has_joined = True
        with suppress(StorageFailure):
            ticket = self._tickets.enter_context(queue.join())
            deadline_ms = queue.effects.monotonic_ms() + self._wait_ms_max
            while (
                ahead := queue.count_ahead(ticket)
            ) and queue.effects.monotonic_ms() < deadline_ms:
                queue.sleep(ahead)
