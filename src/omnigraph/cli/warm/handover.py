"""A command of the client, run by the helper: what is handed over, and how signals reach it."""

import os
import signal
import socket
import sys

from omnigraph.cli.warm import messages
from omnigraph.cli.warm.messages import CommandRequest, Replies
from omnigraph.cli.warm.place import connect
from omnigraph.cli.warm.surroundings import find_installation, find_limits

TO_GROUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGWINCH, signal.SIGCONT)
"""What a terminal sends to a whole job. The child leads a group of its own."""
TO_CHILD = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
STOP = signal.SIGTSTP

UNKNOWN_END = 128 + signal.SIGKILL
"""The exit code if helper and child were both killed, so that neither could report."""


def hand_over(path: str, arguments: list[str]) -> int | None:
    """The exit code of the command; None if it did not begin, so that this process can run it."""
    try:
        for stream in (0, 1, 2):
            os.fstat(stream)  # before a file takes the number of a closed stream
        request = _describe_command(arguments)
        folder = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
        descriptors = [0, 1, 2, folder]
    except OSError:
        return None  # a closed stream, or a folder that cannot be opened
    connection = None if request is None else connect(path)
    if request is None or connection is None:
        return None
    forwarding = Forwarding(request.ignored)
    try:
        messages.send_request(connection, messages.RUN, request.fields(), descriptors)
    except OSError:
        forwarding.stop()
        return None
    return _await_end(connection, forwarding)


def _describe_command(arguments: list[str]) -> CommandRequest | None:
    if signal.pthread_sigmask(signal.SIG_BLOCK, []):
        return None
    umask = os.umask(0)
    os.umask(umask)
    handled = (*TO_GROUP, *TO_CHILD, STOP, signal.SIGCHLD)
    return CommandRequest(
        arguments=[os.fsencode(each) for each in arguments],
        environment=[name + b"=" + value for name, value in os.environb.items()],
        umask=umask,
        ignored=[each.value for each in handled if signal.getsignal(each) is signal.SIG_IGN],
        installation=os.fsencode(find_installation()),
        limits=os.fsencode(find_limits()),
    )


def _await_end(connection: socket.socket, forwarding: "Forwarding") -> int | None:
    replies = Replies(connection)
    has_begun = False
    while True:
        match replies.next():
            case messages.BEGUN, [child]:
                has_begun = True
                forwarding.begin(child)
            case messages.EXITED, [code]:
                return code
            case messages.KILLED, [number]:
                return _die_of(number)
            case _:
                forwarding.stop()
                return UNKNOWN_END if has_begun else None


def _die_of(number: int) -> int:
    """End as the child did, so that a shell sees the same."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    sys.stdout.flush()
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


class Forwarding:
    """Sends the signals of this process to the child, also those that came before it began."""

    def __init__(self, ignored: list[int]) -> None:
        self._child: int | None = None
        self._early: list[int] = []
        self._before = {
            each: signal.signal(each, self._stop if each == STOP else self._forward)
            for each in (*TO_GROUP, *TO_CHILD, STOP)
            if each not in ignored
        }

    def begin(self, child: int) -> None:
        self._child = child
        for each in self._early:
            self._send(each)

    def stop(self) -> None:
        """Handle signals as before; those that came meanwhile take effect now."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for each in self._early:
            os.kill(os.getpid(), each)

    def _forward(self, number: int, _frame: object) -> None:
        if self._child is None:
            self._early.append(number)
        else:
            self._send(number)

    def _stop(self, number: int, _frame: object) -> None:
        """Stop the child, then this process. The kernel would not stop an orphaned group."""
        if self._child is not None:
            self._send(signal.SIGSTOP)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # returns when the shell continues this job
        signal.signal(number, self._stop)
        if self._child is not None:
            self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        assert self._child is not None
        try:
            if number in TO_CHILD:
                os.kill(self._child, number)
            else:
                os.killpg(self._child, number)
        except ProcessLookupError:
            pass  # it has ended, and its exit code is on the way
