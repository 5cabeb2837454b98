"""The process that writes, described well enough to tell on the same machine if it is dead."""

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_STAT_BYTES_MAX: Final = 4096
"""More than `/proc/{pid}/stat` ever holds."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process. The kernel reuses a pid; a pid with its boot and its start time is unique."""

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
    """A running process of this machine."""
    return Owner(socket.gethostname(), _boot_id(), pid, _start_of(pid) or 0)


def is_dead(owner: Owner) -> bool:
    """Is the process certainly dead? Always False for a process of another machine."""
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
    """When a process started; None if it does not run. A zombie process does not run."""
    try:
        # Not with a Path: a writer that waits for a lease calls this every few milliseconds.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None if Path("/proc/self").exists() else _start_without_proc(pid)
    try:
        told = os.read(descriptor, _STAT_BYTES_MAX)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    # The name of the program stands in parentheses and may hold spaces; later fields do not.
    fields = told.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _start_without_proc(pid: int) -> int | None:
    """Without /proc only the pid can be checked, and every start time counts as 0."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0
