"""Who is writing: enough about a process to tell, on the same machine, whether it still lives."""

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_STAT_BYTES_MAX: Final = 4096
"""More than the kernel ever tells of a process."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process. A number alone is reused; with the boot and the start time it is not."""

    host: str
    boot_id: str
    pid: int
    pid_start: int
    """Clock ticks from boot to the start of the process."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    return _process(os.getpid())


@cache
def _process(pid: int) -> Owner:
    return find_process(pid)


def find_process(pid: int) -> Owner:
    """A process of this machine, as it is now."""
    return Owner(socket.gethostname(), _boot_id(), pid, _start_of(pid) or 0)


def is_dead(owner: Owner) -> bool:
    """Is it certain that the process is gone? Of another machine nothing is certain."""
    if owner.host != socket.gethostname():
        return False
    if owner.boot_id != _boot_id():
        return bool(owner.boot_id and _boot_id())
    return _start_of(owner.pid) != owner.pid_start


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _start_of(pid: int) -> int | None:
    """When a process started; None if it does not run. A zombie has ended, only nobody asked."""
    try:
        # Not by way of a Path: whoever waits for a lease asks all the time.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None if Path("/proc/self").exists() else _start_without_proc(pid)
    try:
        told = os.read(descriptor, _STAT_BYTES_MAX)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    # The name stands in parentheses and may hold spaces; the fields after it do not.
    fields = told.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _start_without_proc(pid: int) -> int | None:
    """Without /proc only the number can be asked about, and every start counts as 0."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0
