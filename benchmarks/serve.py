"""A server under load: mixed reads and writes from many connections, and a worker killed meanwhile.

Every write has a key and a row of its own. At the end every write that was acknowledged is looked
for in the history and in the rows; none may be missing, and none may be there twice.

    python benchmarks/serve.py --seconds 60 --connections 64 --workers 2 --kill
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread

import httpx
from measure import RESULTS, Figure, percentile, report

import omnigraph

SCHEMA = "node Note { text: String  writer: I32 }\nnode Person { name: String @key  age: I32? }"
READ = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
WRITE = "query w($t: String, $w: I32) { insert Note { text: $t, writer: $w } }"
RUN = "import sys; from omnigraph.cli.app import run; sys.exit(run(sys.argv[1:]))"
PEOPLE = 1000


@dataclass
class Tally:
    """What all connections saw."""

    latencies: dict[str, list[float]] = field(default_factory=lambda: {"read": [], "write": []})
    statuses: Counter[int] = field(default_factory=Counter)
    acknowledged: dict[str, str] = field(default_factory=dict)
    """The commit of each write, by the text it wrote."""
    lost_answers: int = 0
    lock: Lock = field(default_factory=Lock)


@contextmanager
def serving(root: str, folder: Path, workers: int) -> Iterator[tuple[str, Path]]:
    log = folder / "server.log"
    with log.open("w") as noise:
        server = subprocess.Popen(
            [
                sys.executable,
                "-c",
                RUN,
                "serve",
                f"--graph=g={root}",
                "--unauthenticated",
                "--bind=127.0.0.1:0",
                f"--workers={workers}",
            ],
            stdout=subprocess.PIPE,
            stderr=noise,
            text=True,
            env={**os.environ, "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "4096"},
        )
        assert server.stdout is not None
        url = f"http://{server.stdout.readline().strip().partition('=')[2]}"
        while True:
            try:
                httpx.get(f"{url}/healthz", timeout=2).raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.2)
        try:
            yield f"{url}/graphs/g", log
        finally:
            server.terminate()
            server.wait(60)
            server.stdout.close()


def converse(url: str, number: int, over: Event, tally: Tally, write_share: int) -> None:
    """One connection: `write_share` of ten requests write."""
    with httpx.Client(timeout=60) as client:
        turn = number  # so that they do not all write at the same moment
        while not over.is_set():
            turn += 1
            if turn % 10 < write_share:
                write(client, url, f"{number}-{turn}", number, tally)
            else:
                read(client, url, turn, tally)


def read(client: httpx.Client, url: str, turn: int, tally: Tally) -> None:
    body = {"query": READ, "params": {"n": f"p{turn % PEOPLE}"}}
    start = time.perf_counter()
    try:
        answer = client.post(f"{url}/query", json=body)
    except httpx.TransportError:
        with tally.lock:
            tally.lost_answers += 1
        return
    with tally.lock:
        tally.latencies["read"].append(time.perf_counter() - start)
        tally.statuses[answer.status_code] += 1


def write(client: httpx.Client, url: str, text: str, number: int, tally: Tally) -> None:
    """Asked for again with its key until there is an answer."""
    body = {"query": WRITE, "params": {"t": text, "w": number}}
    start = time.perf_counter()
    for _ in range(100):
        try:
            answer = client.post(f"{url}/mutate", json=body, headers={"Idempotency-Key": text})
        except httpx.TransportError:
            with tally.lock:
                tally.lost_answers += 1
            time.sleep(0.05)
            continue
        with tally.lock:
            tally.statuses[answer.status_code] += 1
        if answer.status_code == 409 and answer.json().get("retryable"):
            time.sleep(0.05)
            continue
        if answer.status_code == 200:
            with tally.lock:
                tally.latencies["write"].append(time.perf_counter() - start)
                tally.acknowledged[text] = answer.json()["commit"]["graph_commit_id"]
        return


def kill_one(log: Path) -> None:
    pids = re.findall(r"worker (\d+) started", log.read_text())
    os.kill(int(pids[-1]), signal.SIGKILL)


def find_losses(root: str, tally: Tally) -> dict[str, int]:
    """Compare what was acknowledged with the history and with the rows."""
    graph = omnigraph.open(root)
    commits = {each.id for each in graph.commits()}
    rows = graph.query("query q() { match { $n: Note } return { $n.text } }").rows()
    texts = Counter(str(row["n.text"]) for row in rows)
    return {
        "acknowledged": len(tally.acknowledged),
        "missing in the history": len(set(tally.acknowledged.values()) - commits),
        "missing rows": len(set(tally.acknowledged) - texts.keys()),
        "rows written twice": sum(count > 1 for count in texts.values()),
        "answers 5xx": sum(n for status, n in tally.statuses.items() if status >= 500),
        "answers that got lost": tally.lost_answers,
    }


def measure(options: argparse.Namespace, folder: Path) -> tuple[Tally, dict[str, int]]:
    graph = omnigraph.init(folder / "g", SCHEMA)
    graph.insert("Person", [{"name": f"p{at}", "age": at} for at in range(PEOPLE)])
    tally, over = Tally(), Event()
    with serving(graph.uri, folder, options.workers) as (url, log):
        threads = [
            Thread(target=converse, args=(url, at, over, tally, options.write_share))
            for at in range(options.connections)
        ]
        for thread in threads:
            thread.start()
        time.sleep(options.seconds / 2)
        if options.kill:
            kill_one(log)
        time.sleep(options.seconds / 2)
        over.set()
        for thread in threads:
            thread.join()
    return tally, find_losses(graph.uri, tally)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write-share", type=int, default=2, help="writes among ten requests")
    parser.add_argument("--kill", action="store_true", help="kill a worker in the middle")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally, losses = measure(options, Path(folder))
    floor = percentile(tally.latencies["read"], 0.5)
    figures = [
        Figure(
            f"{kind} p{round(share * 100)}, {len(latencies)} answers",
            percentile(latencies, share),
            baseline="read p50",
            ratio=percentile(latencies, share) / floor,
        )
        for kind, latencies in tally.latencies.items()
        if latencies
        for share in (0.5, 0.99)
    ]
    report("serve", figures)
    for name, count in losses.items():
        print(f"{name}: {count}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "serve_losses.json").write_text(json.dumps(losses, indent=2) + "\n")
    wrong = [name for name in losses if "missing" in name or "twice" in name or "5xx" in name]
    if any(losses[name] for name in wrong):
        sys.exit(1)


if __name__ == "__main__":
    main()
