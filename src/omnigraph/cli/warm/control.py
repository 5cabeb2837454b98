"""Starting, stopping and describing the helper of this user."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from omnigraph.cli.warm import messages
from omnigraph.cli.warm.place import connect, find_socket, is_supported, make_folder
from omnigraph.cli.warm.surroundings import READ_AT_START
from omnigraph.errors import HelperUnusable, UsageError

IDLE_S = 600.0
IDLE = "OMNIGRAPH_WARM_IDLE"
START_S_MAX = 60.0

KEPT = ("HOME", "PATH", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
"""With those that libraries read at their start, all variables that a helper gets: no secrets."""


@dataclass(frozen=True, slots=True)
class HelperStatus:
    """A helper that runs."""

    pid: int
    commands: int
    """How many it has started."""
    running: int
    idle_s: int
    """Seconds since the last command."""
    ends_after_s: int
    """So many idle seconds end it."""


def check_supported() -> None:
    """Raises UsageError."""
    if not is_supported():
        raise UsageError(f"a helper needs Linux or macOS; this is {sys.platform}")


def find_helper() -> HelperStatus | None:
    """The helper that runs for this installation, if there is one."""
    return _ask(messages.STATUS)


def start_helper(idle_s: float | None = None) -> HelperStatus:
    """Start a helper and wait until it listens; one that runs is left alone.

    Raises HelperUnusable, UsageError.
    """
    check_supported()
    found = find_helper()
    if found is not None:
        return found
    problem = make_folder(os.path.dirname(find_socket()))
    if problem is not None:
        raise HelperUnusable(problem)
    process = _spawn(_idle_s(idle_s), stderr=subprocess.PIPE)
    assert process.stderr is not None
    limit = threading.Timer(START_S_MAX, process.kill)
    limit.start()
    with process.stderr as stream:
        said = stream.read()  # to the end: a helper closes its streams when it listens
    limit.cancel()
    process.returncode = 0  # nothing waits for it
    found = _await_helper()
    if found is None:
        said_last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise HelperUnusable(said_last[0] if said_last else "it ended at once")
    return found


def stop_helper() -> bool:
    """End the helper; commands that run go on. Returns whether there was one."""
    check_supported()
    return _ask(messages.DOWN) is not None


def spawn_quietly() -> None:
    """Start a helper in the background. A failure has no effect but that commands stay cold."""
    try:
        _spawn(_idle_s(None), stderr=subprocess.DEVNULL).returncode = 0  # it is not waited for
    except (OSError, UsageError):
        pass


def _spawn(idle_s: float, *, stderr: int) -> "subprocess.Popen[bytes]":
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or name.startswith(READ_AT_START)
    }
    return subprocess.Popen(  # noqa: S603 - this interpreter, this package
        [sys.executable, "-P", "-m", "omnigraph.cli.warm.helper", str(idle_s)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        cwd="/",
        env=kept,
        start_new_session=True,
    )


def _idle_s(given: float | None) -> float:
    """Raises UsageError."""
    text = os.environ.get(IDLE)
    try:
        idle_s = given if given is not None else float(text) if text else IDLE_S
    except ValueError:
        raise UsageError(f"{IDLE} is a number of seconds, not '{text}'") from None
    if not 0 < idle_s < 1e9:
        raise UsageError("the idle time of a helper is a positive number of seconds")
    return idle_s


def _await_helper() -> HelperStatus | None:
    """Another process may have started it at the same time, and it may still be importing."""
    end = time.monotonic() + START_S_MAX
    while True:
        found = find_helper()
        if found is not None or time.monotonic() > end or not _is_starting():
            return found
        time.sleep(0.05)  # noqa: TID251 - waits for another process


def _is_starting() -> bool:
    """Does a helper hold the lock?"""
    import fcntl

    try:
        with open(f"{find_socket()}.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _ask(word: bytes) -> HelperStatus | None:
    connection = connect(find_socket()) if is_supported() else None
    if connection is None:
        return None
    with connection:
        try:
            messages.send_request(connection, word, [], [])
            reply = messages.Replies(connection).next()
        except OSError:
            return None
    if reply is None or reply[0] != messages.FINE:
        return None
    return HelperStatus(*reply[1])
