"""Real servers in processes of their own: several workers, signals, kills."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.effects import REAL
from omnigraph.errors import ServerFailure
from omnigraph.ids import MAIN, TableKey
from omnigraph.server.process.run import WATCH_S
from omnigraph.server.runtime.tokens import FILE, INLINE, SINGLE
from omnigraph.storage.stores import open_stores

SCHEMA = "node Note { text: String }\nnode Person { name: String @key }"
SECRET = "a-secret-nobody-may-see"
POLICY = """
version: 1
groups: { all: [ada] }
rules: [{ id: r, allow: { actors: { group: all }, actions: [read, change, admin] } }]
"""


def wait_for(what: Callable[[], bool], timeout_s: int = 300) -> None:
    deadline = REAL.monotonic_ms() + timeout_s * 1000
    while not what():
        assert REAL.monotonic_ms() < deadline, "it did not happen in time"
        REAL.sleep_ms(50)


class Server:
    def __init__(self, folder: Path, *arguments: str) -> None:
        self.graph = omnigraph.init(folder / "g", SCHEMA)
        (folder / "policy.yaml").write_text(POLICY)
        self.tokens = folder / "tokens.json"
        self.tokens.write_text(json.dumps({"ada": SECRET}))
        self.log = (folder / "server.log").open("w+")
        run = "import sys; from omnigraph.cli.app import run; sys.exit(run(sys.argv[1:]))"
        places = [f"--graph=g={self.graph.uri}", f"--policy=g={folder / 'policy.yaml'}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", run, "serve", *places, "--bind=127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, FILE: str(self.tokens)},
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.url = f"http://{line.strip().partition('=')[2]}"
        wait_for(self.answers)

    def answers(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/healthz", timeout=60).status_code == 200
        return False

    def connect(self, token: str = SECRET) -> omnigraph.RemoteGraph:
        return omnigraph.connect(self.url, graph="g", token=token)

    def workers(self) -> list[int]:
        return [int(pid) for pid in re.findall(r"worker (\d+) started", self.read_log())]

    def read_log(self) -> str:
        self.log.flush()
        return Path(self.log.name).read_text()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(300)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()
        return code


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, "--workers=2")
    yield server
    server.stop()


@pytest.mark.slow
def test_writes_repeated_through_kills_leave_each_effect_once(crew: Server) -> None:
    """Every write is asked for three times with one key, while workers are killed."""
    names = [f"n{at}" for at in range(12)]

    def write(name: str) -> str:
        seen = set()
        with crew.connect() as graph:
            for _ in range(3):
                for attempt in range(20):
                    try:
                        result = graph.insert("Note", [{"text": name}], idempotency_key=name)
                    except ServerFailure:
                        assert attempt < 19
                        REAL.sleep_ms(200)
                    else:
                        break
                assert result.commit is not None
                seen.add(result.commit.id)
        assert len(seen) == 1
        return seen.pop()

    with ThreadPoolExecutor(4) as threads:
        writing = [threads.submit(write, name) for name in names]
        for _ in range(2):
            REAL.sleep_ms(400)
            os.kill(crew.workers()[-1], signal.SIGKILL)
        commits = {each.result() for each in writing}
    assert len(commits) == len(names)
    rows = crew.graph.query("query q() { match { $n: Note } return { $n.text } }").rows()
    assert sorted(str(row["n.text"]) for row in rows) == sorted(names)
    assert {each.id for each in crew.graph.commits()} >= commits
    check_reload_and_shutdown(crew)


def kill_all(crew: Server) -> None:
    for pid in crew.workers():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def replace_all(crew: Server) -> None:
    """Kill every worker, and wait for others to answer."""
    kill_all(crew)
    wait_for(crew.answers)


@pytest.mark.slow
def test_workers_come_back_when_what_they_serve_does(crew: Server, tmp_path: Path) -> None:
    (tmp_path / "g").rename(tmp_path / "away")
    kill_all(crew)
    wait_for(lambda: "a worker cannot start" in crew.read_log())
    REAL.sleep_ms(1000)
    assert len(crew.workers()) <= 6, "they are started again with a pause between"
    (tmp_path / "away").rename(tmp_path / "g")
    wait_for(crew.answers)
    with crew.connect() as graph:
        assert graph.branches.list() == ("main",)


def check_reload_and_shutdown(crew: Server) -> None:
    """All workers follow a SIGHUP, a bad configuration changes nothing, and no token was told."""
    crew.tokens.write_text(json.dumps({"ada": "another-secret"}))
    crew.process.send_signal(signal.SIGHUP)

    def every_worker_follows() -> bool:
        answers = [
            httpx.get(
                f"{crew.url}/graphs/g/branches",
                headers={"Authorization": f"Bearer {SECRET}"},
                timeout=60,
            ).status_code
            for _ in range(12)
        ]
        return set(answers) == {401}

    wait_for(every_worker_follows)
    crew.tokens.write_text("{")
    crew.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "refused" in crew.read_log())
    # Those that are started now serve by what was in force, not by what the file says.
    replace_all(crew)
    with crew.connect("another-secret") as graph:
        assert graph.branches.list() == ("main",)
        assert "another-secret" not in repr(graph) + repr(vars(graph))
    crew.process.terminate()
    assert crew.process.wait(300) == 0
    log = crew.read_log()
    assert SECRET not in log
    assert "another-secret" not in log
    for line in log.splitlines():
        json.loads(line)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_server_outlives_the_shell_that_started_it_and_not_its_jobs(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    graph.branches.create("b")
    graph.insert("Person", [{"name": "Bo"}], branch="b")
    graph.insert("Person", [{"name": "Ada"}])
    stores = open_stores(graph.uri, REAL)
    somebody = WriteContext(stores, Bases(stores))
    run = "import sys; from omnigraph.cli.app import run; sys.exit(run(sys.argv[1:]))"
    serve = [sys.executable, "-c", run, "serve", f"--graph=g={graph.uri}", "--unauthenticated"]
    log = tmp_path / "server.log"
    background = f"{shlex.join(serve)} --bind=127.0.0.1:0 >{log} 2>&1 & echo $!"
    shell = subprocess.run(["sh", "-c", background], capture_output=True, text=True, check=True)
    server = int(shell.stdout)
    try:
        wait_for(lambda: "startup complete" in log.read_text())
        REAL.sleep_ms(3 * int(WATCH_S * 1000))
        url = log.read_text().partition("LISTEN_ADDR=")[2].split()[0]
        assert httpx.get(f"http://{url}/healthz", timeout=60).status_code == 200
        with acquire_write_locks(somebody, MAIN, [TableKey("node:Person")]):
            for _ in range(3):
                taken = httpx.post(
                    f"http://{url}/branches/merge",
                    json={"source": "b"},
                    headers={"Prefer": "respond-async"},
                    timeout=60,
                )
                assert taken.status_code == 202
            os.kill(server, signal.SIGTERM)
            wait_for(lambda: "Finished server process" in log.read_text())
    finally:
        with suppress(ProcessLookupError):
            os.kill(server, 0 if "Finished" in log.read_text() else signal.SIGKILL)
        wait_for(lambda: not is_alive(server))
    ended = [json.loads(each.read_text()) for each in (tmp_path / "g/__jobs").glob("*.json")]
    assert sorted(each["state"] for each in ended) == ["interrupted", "succeeded", "succeeded"]


def test_a_server_that_must_not_start_says_why_and_ends(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    run = "import sys; from omnigraph.cli.app import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", run, "serve", f"--graph=g={graph.uri}", "--bind=127.0.0.1:0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1
    assert "there are no tokens" in done.stderr
    for name in (SINGLE, FILE, INLINE, "--unauthenticated"):
        assert name in done.stderr
    assert done.stdout == ""


def test_the_server_of_one_graph_is_started_with_its_path(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "art_of.omni", SCHEMA)
    run = "from omnigraph.cli.commands.serve import main; main()"
    command = [sys.executable, "-c", run, graph.uri, "--unauthenticated", "--bind=127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        url = f"http://{server.stdout.readline().strip().partition('=')[2]}"
        for address in ("/branches", "/graphs/art-of/branches"):
            assert httpx.get(url + address, timeout=60).json()["branches"] == ["main"]
        server.terminate()
        assert server.wait(300) == 0
