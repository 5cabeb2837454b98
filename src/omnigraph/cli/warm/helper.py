"""The helper process: imports what commands need, listens, and forks for each command.

It ends when it is told to, when no command came for a while, when it is stale, or when its socket
is no longer its own. Commands that run then are not disturbed: it waits for them.
"""

import fcntl
import gc
import os
import selectors
import signal
import socket
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import IO

from omnigraph.cli.warm import messages
from omnigraph.cli.warm.child import become_command
from omnigraph.cli.warm.messages import WrongMessage, parse_command, receive_request, send_reply
from omnigraph.cli.warm.place import find_socket, is_own, make_folder
from omnigraph.cli.warm.surroundings import find_installation, find_limits

REQUEST_S_MAX = 5.0
"""How long a client may take to send its request. Others wait meanwhile."""
LOOK_S = 15.0
"""How often the helper looks if its socket is still its own."""

LANCE_THREAD = "lance_backgroun"
"""Linux keeps 15 characters of the name of a thread."""

PACKAGES = ("catalog", "compiler", "lang", "storage", "commit", "engine", "embed", "sdk", "cli")
ALSO = ("pipeline.load", "pipeline.local_load", "wire.causes", "wire.details")
NOT_LOADED = ("omnigraph.cli.commands.serve", "omnigraph.cli.commands.mcp", "omnigraph.cli.warm")
"""Modules that no command of a helper needs."""


def load_commands() -> None:
    """Import everything on the path of a command, and build what a command builds first."""
    from omnigraph.pandas_guard import declare_own_process, hide_pandas

    declare_own_process()
    hide_pandas()
    root = Path(__file__).parents[2]
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if not name.startswith(NOT_LOADED):
                import_module(name)
    for name in ALSO:
        import_module(f"omnigraph.{name}")
    _compile_once()


def _compile_once() -> None:
    """Load both grammars and whatever else the first program needs. Compiling does no I/O."""
    from omnigraph.catalog.build import compile_schema
    from omnigraph.compiler.compile import compile_query
    from omnigraph.lang.source import Source

    catalog = compile_schema(Source("<warm>", "node A { name: String @key }"))
    compile_query(Source("<warm>", "query q() { match { $a: A } return { $a.name } }"), catalog)


def find_runtime() -> bool:
    """(1) Does a thread of Lance run in this process? A fork would then crash now and then."""
    try:
        tasks = os.listdir("/proc/self/task")
        names = [Path(f"/proc/self/task/{each}/comm").read_text() for each in tasks]
    except OSError:
        return False  # not Linux
    return any(each.startswith(LANCE_THREAD) for each in names)


class Helper:
    """Accepts connections and watches over the children, in one thread."""

    def __init__(
        self, path: str, lock: IO[str], idle_s: float, installation: str, limits: str
    ) -> None:
        self._path = path
        self._lock = lock
        self._idle_s = idle_s
        self._installation = os.fsencode(installation)
        self._limits = os.fsencode(limits)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, socket.socket] = {}
        """By the process id of the child that runs the command."""
        self._left: set[int] = set()
        """Children whose clients have gone."""
        self._is_ending = False
        self._count = 0
        self._used_at = time.monotonic()

    def listen(self) -> None:
        """Raises OSError."""
        if os.path.lexists(self._path):
            os.unlink(self._path)  # of a helper that was killed: the lock is held by this one
        before = os.umask(0o177)
        self._listener.bind(self._path)
        os.umask(before)
        self._listener.listen(128)
        self._inode = os.stat(self._path).st_ino
        self._wakeup, wake = socket.socketpair()
        self._wake = wake
        for each in (self._wakeup, wake, self._listener):
            each.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def serve(self) -> None:
        while not self._is_ending or self._clients:
            for key, _ in self._selector.select(self._wait_s()):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wakeup:
                    self._wakeup.recv(4096)
                else:
                    self._client_left(key.fd)
            self._reap()
            if self._is_idle() or not self._is_own_socket():
                self._end()

    def _wait_s(self) -> float:
        return min(LOOK_S, max(0.05, self._used_at + self._idle_s - time.monotonic()))

    def _is_idle(self) -> bool:
        return not self._clients and time.monotonic() - self._used_at >= self._idle_s

    def _is_own_socket(self) -> bool:
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def _is_current(self) -> bool:
        """Is the code still that which was imported? A client may differ for other reasons."""
        return os.fsencode(find_installation()) == self._installation

    def _end(self) -> None:
        """Listen no more. `serve` returns when the last command has ended."""
        if self._is_ending:
            return
        self._is_ending = True
        if self._is_own_socket():
            os.unlink(self._path)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        try:
            if is_own(connection):
                connection.settimeout(REQUEST_S_MAX)
                self._answer(connection, *receive_request(connection))
                return
        except (OSError, WrongMessage):
            pass
        connection.close()

    def _answer(
        self, connection: socket.socket, word: bytes, fields: list[bytes], descriptors: list[int]
    ) -> None:
        """Closes the descriptors, and the connection unless a command begins."""
        try:
            if word == messages.RUN:
                if self._run(connection, fields, descriptors):
                    return
            elif word in (messages.DOWN, messages.STATUS):
                idle = round(time.monotonic() - self._used_at)
                facts = (os.getpid(), self._count, len(self._clients), idle, round(self._idle_s))
                send_reply(connection, messages.FINE, *facts)
                if word == messages.DOWN:
                    self._end()
        finally:
            for each in descriptors:
                os.close(each)
        connection.close()

    def _run(self, connection: socket.socket, fields: list[bytes], descriptors: list[int]) -> bool:
        """Fork for a command. Raises WrongMessage, OSError."""
        request = parse_command(fields)
        is_same = request.installation == self._installation and request.limits == self._limits
        if find_runtime() or not (is_same or self._is_current()):
            self._end()
            send_reply(connection, messages.STALE)
            return False
        if not is_same or len(descriptors) != messages.DESCRIPTORS:
            send_reply(connection, messages.DECLINED)
            return False
        connection.settimeout(None)
        self._count += 1
        self._used_at = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lance warns of every fork; (1) is the reason
            child = os.fork()
        if child == 0:
            try:
                self._let_go()
                become_command(request, descriptors, connection)
            finally:
                os._exit(1)
        self._clients[child] = connection
        self._selector.register(connection, selectors.EVENT_READ)
        return True

    def _let_go(self) -> None:
        """In a child: close what belongs to the helper and to other commands."""
        self._selector.close()
        self._lock.close()  # the lock itself stays with the helper
        for each in (self._listener, self._wakeup, self._wake, *self._clients.values()):
            each.close()

    def _client_left(self, descriptor: int) -> None:
        """A client that is killed takes its command along. Otherwise the command has ended."""
        for child, connection in self._clients.items():
            if connection.fileno() == descriptor:
                os.kill(child, signal.SIGKILL)  # the child is not reaped yet, so the id is its own
                self._selector.unregister(connection)
                self._left.add(child)
                return

    def _reap(self) -> None:
        while self._clients:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            connection = self._clients.pop(child, None)
            if connection is None:
                continue
            self._used_at = time.monotonic()
            if child in self._left:
                self._left.remove(child)
            else:
                self._selector.unregister(connection)
            _report(connection, status)
            connection.close()


def _report(connection: socket.socket, status: int) -> None:
    """What the child did not report itself, because a signal ended it."""
    try:
        if os.WIFSIGNALED(status):
            send_reply(connection, messages.KILLED, os.WTERMSIG(status))
        else:
            send_reply(connection, messages.EXITED, os.WEXITSTATUS(status))
    except OSError:
        pass  # the client has gone


def main(idle_s: float) -> None:
    """Run a helper, unless there is one. Writes its problem, if there is one, to standard error."""
    path = find_socket()
    problem = make_folder(os.path.dirname(path))
    if problem is not None:
        sys.exit(problem)
    with open(f"{path}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another helper has just been started
        # Described before anything is imported: what changes afterwards makes it stale.
        installation, limits = find_installation(), find_limits()
        gc.disable()
        load_commands()
        if find_runtime():
            sys.exit("a thread of Lance runs after the imports, so the helper cannot fork")
        gc.collect()
        gc.freeze()
        helper = Helper(path, lock, idle_s, installation, limits)
        helper.listen()
        _leave_terminal()
        helper.serve()


def _leave_terminal() -> None:
    """Close the streams that this process was started with. `up` waits for that."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(nothing, each)
    os.close(nothing)


if __name__ == "__main__":
    main(float(sys.argv[1]))
