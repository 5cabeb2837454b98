"""Several workers on one socket: start them, replace those that die, stop them.

Workers are fresh interpreters, never forks: Lance runs threads, and a forked child inherits their
locks without the threads that would release them.
"""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Thread
from types import FrameType
from typing import Final

from pydantic import TypeAdapter

from omnigraph.effects import REAL
from omnigraph.server.runtime.config_broadcast import ConfigBroadcast
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.state import ServerRuntime

STOPS: Final = (signal.SIGTERM, signal.SIGINT)
"""The signals that stop a server."""

GRACE_S: Final = 5
"""How much longer than its drain time a worker may take."""

FLAGS: Final = TypeAdapter(Flags)
"""How the supervisor passes flags to a worker."""

LOOK_MS: Final = 200
PAUSE_MS: Final = 2_000

logger = logging.getLogger(__name__)


class SignalCounts:
    """How often each signal arrived. The handlers only count: the code that they interrupt may hold
    any lock, even the lock of an `Event`.
    """

    stops = 0
    reloads = 0

    def install(self) -> None:
        """Install the handlers; no signal is lost after this."""
        for number in STOPS:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._reload)

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler
        self.stops += 1

    def _reload(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler
        self.reloads += 1


@dataclass
class Supervisor:
    flags: Flags
    broadcast: ConfigBroadcast
    listening: socket.socket
    environment: Mapping[str, str]
    signals: SignalCounts

    def run(self, count: int, runtime: ServerRuntime) -> None:
        """Keep `count` workers alive until a stop signal; then let them finish."""
        workers: list[subprocess.Popen[bytes]] = []
        reloads = self.signals.reloads
        while not self.signals.stops:
            if len(workers) < count:
                workers.append(self._start())
                continue
            self._rest(LOOK_MS)
            if self.signals.reloads > reloads:
                reloads = self.signals.reloads
                # A thread: opening a graph may take long, and a stop signal must not wait.
                Thread(target=runtime.try_reload, daemon=True).start()
            for worker in [each for each in workers if each.poll() is not None]:
                logger.warning(
                    "worker %d ended with %d; starting another", worker.pid, worker.returncode
                )
                workers.remove(worker)
                if worker.returncode > 0:
                    # It could not start, and the next one probably cannot, either: wait first.
                    self._rest(PAUSE_MS)
        self._stop(workers, runtime.current.settings.limits.drain_s)

    def _stop(self, workers: "list[subprocess.Popen[bytes]]", drain_s: int) -> None:
        """Let workers finish within their drain time; a second stop signal kills them."""
        # New connections are refused at once, instead of waiting in the backlog.
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for worker in workers:
            worker.terminate()
        with contextlib.suppress(
            FileNotFoundError
        ):  # a cleaner of temporary files may have removed it
            drain_s = self.broadcast.read()[1].settings.limits.drain_s
        deadline_ms = REAL.monotonic_ms() + 2_000 * (drain_s + GRACE_S)
        while any(each.poll() is None for each in workers):
            if self.signals.stops > 1 or REAL.monotonic_ms() > deadline_ms:
                for worker in workers:
                    worker.kill()
            REAL.sleep_ms(LOOK_MS // 4)

    def _rest(self, pause_ms: int) -> None:
        until_ms = REAL.monotonic_ms() + pause_ms
        while not self.signals.stops and REAL.monotonic_ms() < until_ms:
            REAL.sleep_ms(LOOK_MS // 4)

    def _start(self) -> "subprocess.Popen[bytes]":
        descriptor = self.listening.fileno()
        worker = subprocess.Popen(  # noqa: S603 - this very interpreter
            [
                sys.executable,
                "-m",
                "omnigraph.server.process.worker",
                str(os.getpid()),
                str(descriptor),
                str(self.broadcast.path),
                FLAGS.dump_json(self.flags).decode(),
            ],
            pass_fds=[descriptor],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
        )
        logger.info("worker %d started by %d", worker.pid, os.getpid())
        return worker
