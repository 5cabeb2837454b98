"""A rolling restart: writers of two versions of this program on one graph, killed and replaced.

    python -m support.rolling --old OTHER_CHECKOUT/src --rounds 20 --seed 0

Two workers write at once, at first both by the old sources. In every round one of them is killed
with SIGKILL at a random moment and started anew, half of the time by the other version, so each
version recovers the writes of the other. At the end this version counts: every acknowledged row is
there once, a row that was not acknowledged is there with its edge or not at all.
"""

import argparse
import os
import random  # noqa: TID251 - a run is repeated by its seed
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import omnigraph

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"

WRITER = """
import sys
import omnigraph
root, prefix = sys.argv[1:]
graph = omnigraph.open(root)
program = (
    'query w($n: String) { insert Person { name: $n } insert Knows { from: $n, to: "root" } }'
)
number = 0
while True:
    name = f"{prefix}-{number}"
    print("begin", name, flush=True)
    try:
        graph.mutate(program, params={"n": name})
        print("done", name, flush=True)
    except omnigraph.errors.OmnigraphError as error:
        print("refused" if not error.retryable else "busy", name, type(error).__name__, flush=True)
    number += 1
"""


@dataclass
class Worker:
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def start(root: Path, sources: Path, log: Path) -> Worker:
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    command = [sys.executable, "-c", WRITER, str(root), log.stem]
    with log.open("wb") as out, log.with_suffix(".err").open("wb") as err:
        return Worker(subprocess.Popen(command, stdout=out, stderr=err, env=environment), log)


def roll(old: Path, rounds: int, seed: int) -> dict[str, int]:
    draw = random.Random(seed)
    new = Path(omnigraph.__file__).parents[1]
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "g.omni"
        omnigraph.init(root, SCHEMA).insert("Person", [{"name": "root"}])
        logs: list[Path] = []

        def begin(sources: Path) -> Worker:
            kind = "old" if sources == old else "new"
            logs.append(Path(scratch) / f"{kind}{len(logs)}.log")
            return start(root, sources, logs[-1])

        workers = [begin(old), begin(old)]
        for number in range(rounds):
            time.sleep(draw.uniform(2.0, 5.0))  # noqa: TID251 - real processes take real time
            at = draw.randrange(2)
            workers[at].kill()
            # Halfway through, both versions are equally likely; at the end the new one is.
            workers[at] = begin(new if draw.random() < (number + 1) / rounds else old)
        for each in workers:
            each.kill()
        return judge(root, logs)


def judge(root: Path, logs: list[Path]) -> dict[str, int]:
    lines = [each.split() for log in logs for each in log.read_text().splitlines()]
    done = {words[1] for words in lines if words[0] == "done"}
    refused = {words[1] for words in lines if words[0] == "refused"}
    graph = omnigraph.open(root)
    people = graph.query("query q() { match { $p: Person } return { $p.name } }").pandas()
    names = [each for each in people.iloc[:, 0] if each != "root"]
    edges = graph.query(
        "query q() { match { $p: Person $p knows $q } return { $p.name, count($q) } }"
    ).pandas()
    linked = dict(zip(edges.iloc[:, 0], edges.iloc[:, 1], strict=True))
    assert not done - set(names), f"acknowledged and lost: {sorted(done - set(names))[:5]}"
    assert not refused & set(names), f"refused and there: {sorted(refused & set(names))[:5]}"
    assert len(names) == len(set(names)), "a row is there twice"
    assert linked == dict.fromkeys(names, 1), "a write is half there"
    findings = graph.doctor(deep=True)
    assert findings == [], findings
    errors = [log.with_suffix(".err").read_text() for log in logs]
    assert not any("Traceback" in each for each in errors), next(e for e in errors if e)
    return {
        "workers": len(logs),
        "old": sum(each.stem.startswith("old") for each in logs),
        "acknowledged": len(done),
        "busy": sum(words[0] == "busy" for words in lines),
        "refused": len(refused),
        "recoveries": len(graph.recoveries()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.stdout.write(f"{roll(given.old.resolve(), given.rounds, given.seed)}\n")
