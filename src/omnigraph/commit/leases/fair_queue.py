"""Waiting in line, among all processes.

Whoever waits leaves a ticket; the oldest live ticket is next; whoever comes when there are tickets
gets in line too. A line is a courtesy and proves nothing: whatever it leads to is decided by
compare-and-swap, and somebody who cannot see the line loses nothing but time.

Looking costs time that those who are served need. The further back one stands, the seldomer one
looks: long before it matters one has moved up, and looks more often again.
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
    """A place in line. Tickets sort by the time they were drawn."""

    number: str
    owner: Owner

    def encode(self) -> str:
        owner = self.owner
        return f"{self.number}~{owner.pid}~{owner.pid_start}~{owner.boot_id}~{owner.host}"


def decode_ticket(name: str) -> Ticket | None:
    """None for a name that is no ticket of ours."""
    parts = name.split("~", 4)
    if len(parts) != 5 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    number, pid, pid_start, boot_id, host = parts
    return Ticket(number, Owner(host, boot_id, int(pid), int(pid_start)))


@dataclass(frozen=True, slots=True)
class FairQueue:
    """One line, as one process stands in it."""

    objects: Objects
    effects: Effects
    owner: Owner
    prefix: str
    patience_ms: int
    """Nobody waits longer than this; an older ticket was left by somebody who died out of sight."""
    poll_ms: int
    """How often whoever is next looks."""

    def is_empty(self) -> bool:
        return not self.objects.list(self.prefix)

    @contextmanager
    def stand(self) -> Iterator[Ticket]:
        """Be in line."""
        ticket = Ticket(self.effects.new_id(), self.owner)
        key = f"{self.prefix}/{ticket.encode()}"
        self.objects.put_new(key, b"{}")
        try:
            yield ticket
        finally:
            self.objects.delete(key)

    def count_ahead(self, ticket: Ticket) -> int:
        """How many are to be served before this ticket."""
        ahead = 0
        for listed in self.objects.list(self.prefix):
            other = decode_ticket(listed.key.rpartition("/")[2])
            if other is None or other.number >= ticket.number:
                continue
            if not is_dead(other.owner) and not self._is_forgotten(listed):
                ahead += 1
            else:
                # Or everybody after it would have to stand in line for ever.
                self.objects.delete(listed.key)
        return ahead

    def sleep(self, ahead: int) -> None:
        """Until it is worth looking again, with so many ahead."""
        self.effects.sleep_ms(min(self.poll_ms * (1 + 2 * ahead), POLL_MS_MAX))

    def _is_forgotten(self, listed: Listed) -> bool:
        if self.effects.now_ms() - listed.modified_ms < self.patience_ms // 2:
            return False
        return self.objects.clock_ms() - listed.modified_ms > self.patience_ms


class Turn:
    """One way through a line: straight on while nobody is in it, and in line from then on.

    A line that cannot be read or joined is passed by.
    """

    def __init__(self, line: FairQueue | None, *, wait_ms_max: int = 0) -> None:
        self._line = line
        self._wait_ms_max = wait_ms_max
        self._standing = ExitStack()
        self._is_standing = False

    def __enter__(self) -> Self:
        with suppress(StorageFailure):
            if self._line is not None and not self._line.is_empty():
                self.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(StorageFailure):
            self._standing.close()

    def wait(self) -> None:
        """Get in line, unless we stand there already, and wait until we are next, for a while."""
        line = self._line
        if line is None or self._is_standing:
            return
        self._is_standing = True
        with suppress(StorageFailure):
            ticket = self._standing.enter_context(line.stand())
            deadline_ms = line.effects.monotonic_ms() + self._wait_ms_max
            while (ahead := line.count_ahead(ticket)) and line.effects.monotonic_ms() < deadline_ms:
                line.sleep(ahead)
