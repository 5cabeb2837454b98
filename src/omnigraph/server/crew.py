"""Several workers on one socket: starting them, starting others for those that die, stopping them.

Workers are fresh interpreters, never forks: the table format keeps threads, and a forked child
inherits their locks without the threads that would open them.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Final

from pydantic import TypeAdapter

from omnigraph.server.serving import Host
from omnigraph.server.settings import Flags

DRAIN_S: Final = 30
"""How long requests under way may take when the server is told to stop, and then jobs."""

FLAGS: Final = TypeAdapter(Flags)
"""How flags are handed to a worker."""

LOOK_S: Final = 0.2
PAUSE_S: Final = 2

logger = logging.getLogger(__name__)


@dataclass
class Crew:
    flags: Flags
    generations: Path
    listening: socket.socket
    environment: Mapping[str, str]
    _stopping: Event = field(default_factory=Event)
    _reloading: Event = field(default_factory=Event)

    def run(self, count: int, host: Host) -> None:
        """Keep so many workers alive until told to stop; then let them finish."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._reload)
        workers = [self._start() for _ in range(count)]
        while not self._stopping.wait(LOOK_S):
            if self._reloading.is_set():
                self._reloading.clear()
                host.try_reload()
            for at, worker in enumerate(workers):
                if worker.poll() is not None:
                    logger.warning(
                        "worker %d ended with %d; starting another", worker.pid, worker.returncode
                    )
                    if worker.returncode > 0:
                        # It could not start. Another one says the same, and need not at once.
                        self._stopping.wait(PAUSE_S)
                    workers[at] = self._start()
        for worker in workers:
            worker.terminate()
        for worker in workers:
            try:
                worker.wait(2 * DRAIN_S + 5)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        descriptor = self.listening.fileno()
        worker = subprocess.Popen(  # noqa: S603 - this very interpreter
            [
                sys.executable,
                "-m",
                "omnigraph.server.worker",
                str(descriptor),
                str(self.generations),
                FLAGS.dump_json(self.flags).decode(),
            ],
            pass_fds=[descriptor],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
        )
        logger.info("worker %d started by %d", worker.pid, os.getpid())
        return worker

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler
        self._stopping.set()

    def _reload(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler
        self._reloading.set()
