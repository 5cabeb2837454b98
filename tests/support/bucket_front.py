"""The front of a bucket: a process that passes requests on, is killed, frozen and started anew.

The bucket behind it keeps its objects in memory, so it must live. A client cannot tell the two: its
requests are lost before or after their effect, its connections break, and for a while nothing
listens at the address.
"""

import os
import random  # noqa: TID251 - a run is repeated by its seed
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from support.slow_bucket import SlowBucket


def main() -> None:
    port, target = sys.argv[1:]
    with SlowBucket(target, delay_s=0, port=int(port)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


def _start(port: int, target: str) -> "subprocess.Popen[str]":
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, str(port), target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": ":".join(each for each in sys.path if each)},
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


class DyingFront:
    """`endpoint` takes the place of the bucket's; `calm` ends the deaths."""

    def __init__(self, target: str, seed: int, *, lives_s: tuple[float, float]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self._target = target
        self._lives_s = lives_s
        self._chance = random.Random(seed)
        self._child = _start(self._port, target)
        self._over = Event()
        self.deaths = 0
        self.freezes = 0
        self._thread = Thread(target=self._torment, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def torment(self) -> None:
        self._thread.start()

    def calm(self) -> None:
        """The front lives from now on."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _torment(self) -> None:
        while not self._over.wait(self._chance.uniform(*self._lives_s)):
            if self._chance.random() < 0.4:
                os.kill(self._child.pid, signal.SIGSTOP)
                self._over.wait(self._chance.uniform(0.1, 3))
                os.kill(self._child.pid, signal.SIGCONT)
                self.freezes += 1
                continue
            self.end()
            self._over.wait(self._chance.uniform(0, 1))
            self._child = _start(self._port, self._target)
            self.deaths += 1

    def end(self) -> None:
        self._child.kill()
        self._child.communicate()


@contextmanager
def dying_front(target: str, seed: int, *, lives_s: tuple[float, float]) -> Iterator[DyingFront]:
    front = DyingFront(target, seed, lives_s=lives_s)
    try:
        yield front
    finally:
        front.calm()
        front.end()


if __name__ == "__main__":
    main()
