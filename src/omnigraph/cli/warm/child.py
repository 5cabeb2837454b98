"""The forked process: becomes the command of a client, and reports its exit code."""

import gc
import io
import os
import signal
import socket
import sys
import tempfile
import time
from typing import NoReturn

from omnigraph.cli.warm import messages
from omnigraph.cli.warm.ending import run_to_end
from omnigraph.cli.warm.messages import CommandRequest


def become_command(
    request: CommandRequest, descriptors: list[int], connection: socket.socket
) -> NoReturn:
    """Never returns. Until `begun` is sent nothing has happened, and the client may do it all."""
    try:
        os.setsid()
        _take_over(request, descriptors)
        messages.send_reply(connection, messages.BEGUN, os.getpid())
    except BaseException:  # noqa: BLE001 - the client runs the command itself
        os._exit(1)
    code = run_to_end()
    try:
        messages.send_reply(connection, messages.EXITED, code)
    except OSError:
        pass  # the client has gone
    os._exit(code)


def _take_over(request: CommandRequest, descriptors: list[int]) -> None:
    """Raises OSError."""
    for target, given in enumerate(descriptors[:3]):
        os.dup2(given, target)
    os.fchdir(descriptors[3])
    for each in descriptors:
        os.close(each)
    os.umask(request.umask)
    os.environ.clear()
    for variable in request.environment:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    time.tzset()
    tempfile.tempdir = None  # another environment may name another folder
    sys.argv = ["omnigraph", *(os.fsdecode(each) for each in request.arguments)]
    _take_signals(request.ignored)
    _open_streams()
    gc.enable()


def _take_signals(ignored: list[int]) -> None:
    """As Python sets them when it starts."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    for ignore in (*ignored, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignore, signal.SIG_IGN)
    if signal.SIGINT not in ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_streams() -> None:
    """As Python opens them when it starts; the encoding is that of the helper (`surroundings`)."""
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        raw.name = f"<{name}>"  # as messages show it
        buffer = io.BufferedReader(raw) if number == 0 else raw
        stream = io.TextIOWrapper(
            buffer if is_unbuffered or number == 0 else io.BufferedWriter(raw),
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=number == 2 or os.isatty(number),
            write_through=is_unbuffered,
        )
        if number:
            stream.mode = "w"  # type: ignore[misc] # as above
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
