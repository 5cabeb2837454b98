"""Servers that are told to stop: at any moment of their lives, once or twice, alone or all at once.

Real processes. Their temporary files lie in a folder of the test, which has to be empty in the end.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.effects import REAL
from omnigraph.ids import MAIN, TableKey
from omnigraph.storage.stores import open_stores

SCHEMA = "node Person { name: String @key }"
RUN = "import sys; from omnigraph.cli.app import run; sys.exit(run(sys.argv[1:]))"
SOON_S = 120
"""Long enough for a process to end on a busy machine, and shorter than `DRAIN`."""

DRAIN = "drain_s: 600"

TELL = """
import os, signal, sys

kind, file, name = os.environ["TELL_AT"].split()

def look(frame, event, arg):
    code = frame.f_code
    is_there = event == "call" and code.co_name == name and code.co_filename.endswith(file)
    if is_there or event == "c_call" and file == "C" and arg.__name__ == name:
        sys.setprofile(None)
        os.kill(os.getppid() if kind == "worker" else os.getpid(), signal.SIGTERM)

class Finder:
    # Looking at every call makes imports slow. This one comes after all that take long.
    def find_spec(self, name, path, target=None):
        if name == "omnigraph.server.process.connection":
            sys.setprofile(look)

if (kind == "worker") == ("omnigraph.server.process.worker" in " ".join(sys.orig_argv)):
    sys.meta_path.insert(0, Finder())
    if file.startswith("omnigraph/"):
        sys.setprofile(look)
"""
"""Run by the interpreter before anything else: has a server told to stop when it comes to a place,
or the crew of a worker when that comes to it.
"""


def wait_for(what: Callable[[], bool], timeout_s: int = 300) -> None:
    deadline_ms = REAL.monotonic_ms() + timeout_s * 1000
    while not what():
        assert REAL.monotonic_ms() < deadline_ms, "it did not happen in time"
        REAL.sleep_ms(10)


class Server:
    """A server in a process of its own, and in a group of its own."""

    def __init__(self, folder: Path, workers: int, **environment: str) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.out = folder / "out"
        (folder / "tmp").mkdir()
        serve = ["serve", f"--config={folder / 'server.yaml'}", f"--workers={workers}"]
        with self.out.open("w") as out, self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", RUN, *serve],
                stdout=out,
                stderr=log,
                env={**os.environ, "TMPDIR": str(folder / "tmp"), **environment},
                start_new_session=True,
            )

    @property
    def port(self) -> int:
        found = re.search(r"LISTEN_ADDR=.*:(\d+)\n", self.out.read_text())
        return 0 if found is None else int(found[1])

    def find(self, pattern: str) -> list[int]:
        return [int(each) for each in re.findall(pattern, self.log.read_text())]

    @property
    def workers(self) -> list[int]:
        return self.find(r"worker (\d+) started")

    @property
    def answering(self) -> list[int]:
        return self.find(r"process \[(\d+)\]")

    def await_answering(self, count: int) -> None:
        wait_for(lambda: self.log.read_text().count("startup complete") >= count)

    def dial(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def is_busy(self) -> bool:
        """Is it answering somebody besides whoever asks this?"""
        numbers = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=60).text
        return "omnigraph_requests_inflight 2.0" in numbers

    def refuses(self) -> bool:
        try:
            self.dial().close()
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            pass  # it was closed in this very moment
        return False

    def tell(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def await_end(self) -> int:
        """How it ended; and nothing of it may be left."""
        code = self.process.wait(SOON_S)
        wait_for(lambda: not any(map(is_alive, self.workers)), SOON_S)
        assert not list((self.folder / "tmp").glob("omnigraph-server-*"))
        assert not self.port or self.refuses()
        assert "Traceback" not in self.log.read_text()
        return code

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    omnigraph.init(tmp_path / "g", SCHEMA)
    started: list[Server] = []

    def start(workers: int, limits: str = DRAIN, **environment: str) -> Server:
        (tmp_path / "server.yaml").write_text(
            "version: 1\nbind: 127.0.0.1:0\nunauthenticated: true\n"
            f"graphs: {{ g: {{ uri: g }} }}\nlimits: {{ {limits} }}"
        )
        folder = tmp_path / str(len(started))
        folder.mkdir()
        (folder / "server.yaml").symlink_to(tmp_path / "server.yaml")
        (folder / "g").symlink_to(tmp_path / "g")
        started.append(Server(folder, workers, **environment))
        return started[-1]

    yield start
    for each in started:
        each.kill()


ALONE = [
    "omnigraph/cli/app.py run",
    "server/runtime/state.py __init__",
    "server/process/run.py listen",
    "server/process/run.py announce",
    "server/process/run.py answer_from",
    "C collect",
    "asyncio/runners.py run",
    "server/process/run.py answer",
    "uvicorn/server.py serve",
    "uvicorn/server.py startup",
    "server/app.py _live",
    "uvicorn/server.py main_loop",
    "server/process/run.py _watch",
]

CREW = [
    "server/process/supervisor.py install",
    "tempfile.py mkdtemp",
    "server/runtime/state.py share",
    "server/process/run.py announce",
    "server/process/supervisor.py run",
    "subprocess.py _execute_child",
    "server/process/supervisor.py _rest",
]

WORKER = [
    "omnigraph/__init__.py <module>",
    "server/process/worker.py main",
    "server/process/run.py answer_from",
    "C collect",
    "uvicorn/server.py serve",
    "uvicorn/server.py main_loop",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        *(("alone", each) for each in ALONE),
        *(("crew", each) for each in CREW),
        *(("worker", each) for each in WORKER),
    ],
)
def test_a_server_that_is_told_to_stop_while_it_starts_ends(
    start: Start, tmp_path: Path, kind: str, place: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(TELL)
    source = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    server = start(
        1 if kind == "alone" else 2,
        PYTHONPATH=os.pathsep.join(source),
        TELL_AT=f"{kind} {place}",
    )
    server.process.wait(300)  # as long as it takes to come to the place
    assert server.await_end() in (0, -signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_told_to_stop_ends_whatever_its_age(start: Start, workers: int) -> None:
    for age_ms in (0, 200, 900, 2200):
        server = start(workers)
        REAL.sleep_ms(age_ms)
        server.tell()
        assert server.await_end() in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_a_server_that_is_told_to_stop_while_a_worker_is_replaced_ends(start: Start) -> None:
    moments: list[Callable[[Server], bool]] = [
        lambda server: "starting another" in server.log.read_text(),
        lambda server: len(server.answering) > 2,
    ]
    for moment in moments:
        server = start(2)
        server.await_answering(2)
        os.kill(server.workers[0], signal.SIGKILL)
        wait_for(lambda moment=moment, server=server: moment(server))  # type: ignore[misc]
        server.tell()
        assert server.await_end() == 0


HEAD = (
    b"POST /graphs/g/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\n\r\n"
)


def begin_request(server: Server, count: int) -> socket.socket:
    """A request that is under way: the server waits for the rest of its body."""
    server.await_answering(count)
    caller = server.dial()
    caller.sendall(HEAD + b"{")
    wait_for(server.is_busy)
    return caller


@pytest.mark.parametrize("workers", [1, 2])
def test_whoever_calls_while_a_server_drains_is_refused_at_once(start: Start, workers: int) -> None:
    server = start(workers)
    with begin_request(server, workers) as caller:
        server.tell()
        wait_for(server.refuses, SOON_S)
        for _ in range(20):
            assert server.refuses()
        assert server.process.poll() is None, "somebody is still being answered"
        caller.sendall(b"}")
        assert caller.recv(65_536).startswith(b"HTTP/1.1 422")
        while caller.recv(65_536):
            """What is left of the answer; then the connection ends."""
    assert server.await_end() == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_told_twice_ends_at_once(start: Start, workers: int) -> None:
    server = start(workers)
    with begin_request(server, workers):
        server.tell()
        wait_for(server.refuses, SOON_S)
        assert server.process.poll() is None
        server.tell()
        assert server.await_end() in (0, -signal.SIGTERM)


def test_all_processes_may_be_told_together(start: Start) -> None:
    """A terminal tells all of them, and so do some that manage services. That is once."""
    server = start(2)
    with begin_request(server, 2) as caller:
        os.killpg(server.process.pid, signal.SIGINT)
        os.killpg(server.process.pid, 0)
        wait_for(server.refuses, SOON_S)
        for pid in server.workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        caller.sendall(b"}")
        assert caller.recv(65_536).startswith(b"HTTP/1.1 422")
    assert server.await_end() == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_request_that_does_not_end_is_not_waited_for_longer_than_said(
    start: Start, tmp_path: Path, workers: int
) -> None:
    graph = omnigraph.open(tmp_path / "g")
    stores = open_stores(graph.uri, REAL)
    server = start(workers, "drain_s: 1")
    server.await_answering(workers)
    body = b'{"type":"Person","rows":[{"name":"Ada"}],"mode":"insert"}'
    with (
        acquire_write_locks(WriteContext(stores, Bases(stores)), MAIN, [TableKey("node:Person")]),
        server.dial() as caller,
    ):
        caller.sendall(
            HEAD.replace(b"/query", b"/rows").replace(b": 2", b": %d" % len(body)) + body
        )
        wait_for(server.is_busy)
        server.tell()
        assert server.await_end() == (0 if workers > 1 else -signal.SIGALRM)
        answer = caller.recv(65_536).lower()
    assert answer.startswith(b"http/1.1 503")
    assert b"retry-after: 1\r\n" in answer
    assert b'"retryable": true' in answer


def test_a_worker_whose_crew_is_killed_ends(start: Start) -> None:
    server = start(2)
    wait_for(lambda: len(server.workers) == 2)
    os.kill(server.process.pid, signal.SIGKILL)
    wait_for(lambda: not any(map(is_alive, server.workers)))
