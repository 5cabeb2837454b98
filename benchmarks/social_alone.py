"""Questions in a process of their own, which imports only the program that it asks.

`social.py` starts it. So the peak of memory is that of one program, and a first answer meets
nothing that another program left behind.
"""

# ruff: noqa: PLC0415 - only the program that is asked is imported
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RUNS = 3

Given = tuple[str, dict[str, object]]
"""A question as the text for one program, and its parameters."""

Prepare = Callable[[Given], Callable[[], object]]
"""Prepares a question; what it returns answers it."""


@dataclass(frozen=True)
class Asked:
    program: str
    folder: str
    questions: Sequence[Given]
    is_processor: bool
    """Is processor time of all threads measured, and not the clock?"""


@dataclass(frozen=True)
class Alone:
    """What one process measured."""

    opened: float
    """Seconds, after the imports."""
    runs: Sequence[Sequence[float]]
    """The seconds of each run of each question."""
    imported: float
    peak: float
    """Megabytes after the imports, and at the peak."""


@dataclass(frozen=True)
class Touched:
    """What the operators of ours did in the first run of a fresh process."""

    rows: int
    requests: int
    nbytes: int
    """Of the store, whose files that are mapped make no requests."""


def ask_alone(asked: Asked) -> Alone:
    return Alone(**_start(asked))


def ask_touched(asked: Asked) -> Touched:
    """Raises AssertionError unless it is one question for ours."""
    assert asked.program == "explained"
    assert len(asked.questions) == 1
    return Touched(**_start(asked))


def _start(asked: Asked) -> Any:
    command = [sys.executable, __file__, json.dumps(asdict(asked))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


# ── in that process ──────────────────────────────────────────────────────────────────────────────


def _ours(folder: str) -> Callable[[], Prepare]:
    from omnigraph.engine.opening import open_graph
    from omnigraph.sdk.embedded.graph import LocalGraph

    def opened() -> Prepare:
        graph = LocalGraph(open_graph(f"{folder}/g"))

        def prepare(given: Given) -> Callable[[], object]:
            statement = graph.prepare(given[0])
            return lambda: statement(given[1]).arrow().to_pydict()

        return prepare

    return opened


def _ladybug(folder: str) -> Callable[[], Prepare]:
    import ladybug

    def opened() -> Prepare:
        connection: Any = ladybug.Connection(ladybug.Database(f"{folder}/ladybug.db"))

        def prepare(given: Given) -> Callable[[], object]:
            statement = connection.prepare(given[0])
            return lambda: [tuple(row) for row in connection.execute(statement, given[1])]

        return prepare

    return opened


def _measure(asked: Asked) -> Alone:
    clock = time.process_time if asked.is_processor else time.perf_counter
    opener = {"omnigraph": _ours, "ladybug": _ladybug}[asked.program](asked.folder)
    imported = _peak_megabytes()
    begun = clock()
    prepare = opener()
    opened = clock() - begun
    runs = []
    for each in asked.questions:
        answer, seconds = prepare(each), []
        for _ in range(RUNS):
            begun = clock()
            answer()
            seconds.append(clock() - begun)
        runs.append(seconds)
    return Alone(opened, runs, imported, _peak_megabytes())


def _explain(asked: Asked) -> Touched:
    from omnigraph.engine.opening import open_graph
    from omnigraph.sdk.embedded.graph import LocalGraph

    ((text, values),) = asked.questions
    found = LocalGraph(open_graph(f"{asked.folder}/g")).explain(text, values, analyze=True)
    sums = (
        sum(int(str(each[name])) for each in found.steps) for name in ("rows", "io", "io_bytes")
    )
    return Touched(*sums)


def _peak_megabytes() -> float:
    """Of this program alone: `getrusage` counts the process that started it, too."""
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


if __name__ == "__main__" and len(sys.argv) > 1:
    wanted = Asked(**json.loads(sys.argv[1]))
    print(json.dumps(asdict((_explain if wanted.program == "explained" else _measure)(wanted))))
