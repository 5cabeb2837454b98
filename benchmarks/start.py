"""How long a command takes from the shell: by itself, and through the helper of `omnigraph up`.

Cold commands are measured in processor time, against `python -c "import lance"` in the same
interpreter: whatever is installed there, such as pandas, costs both. Warm commands are measured by
the clock, which is what a caller waits for. All of them take turns, so the ratios hold on a busy
machine; the milliseconds do not.

    PYTHONPATH=tests python benchmarks/start.py [--rounds 7]
"""

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import Figure, report

import omnigraph

COMMAND = [sys.executable, "-m", "omnigraph"]
LANCE = [sys.executable, "-c", "import lance"]
HIDE = "from omnigraph import pandas_guard as g; g.declare_own_process(); g.hide_pandas()"
BARE_LANCE = [sys.executable, "-c", f"{HIDE}; import lance"]
QUERY = "query q() { match { $p: P } return { $p.name } limit 10 }"
ROWS = 10

_numbers = itertools.count()


@dataclass
class Times:
    """Processor time and time by the clock of every run, in seconds."""

    processor: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)


def run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent, clock


def query(folder: Path) -> list[str]:
    return [*COMMAND, "query", str(folder / "g"), "-e", QUERY]


def mutate(folder: Path) -> list[str]:
    """Ten new rows, as one mutation."""
    names = [f"m{next(_numbers)}" for _ in range(ROWS)]
    inserts = "\n".join(f'insert P {{ name: "{each}" }}' for each in names)
    return [*COMMAND, "mutate", str(folder / "g"), "-e", f"query a() {{ {inserts} }}"]


def load(folder: Path) -> list[str]:
    """Ten new rows, from a file."""
    path = folder / "rows.jsonl"
    lines = [{"type": "P", "data": {"name": f"l{next(_numbers)}"}} for _ in range(ROWS)]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return [*COMMAND, "load", str(folder / "g"), "--data", str(path), "--mode", "merge"]


WORK: Mapping[str, Callable[[Path], list[str]]] = {
    "import lance": lambda _: LANCE,
    "import lance, pandas hidden": lambda _: BARE_LANCE,
    "query": query,
    "mutate": mutate,
    "load": load,
}


def measure(folder: Path, names: Sequence[str], rounds: int, warm: str) -> dict[str, Times]:
    environment = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
    environment |= {"XDG_RUNTIME_DIR": str(folder), "OMNIGRAPH_WARM": warm}
    times = {name: Times() for name in names}
    for number in range(rounds + 1):
        for name, each in times.items():
            spent, clock = run(WORK[name](folder), environment)
            if number:  # the first round writes bytecode and fills the cache of the disk
                each.processor.append(spent)
                each.clock.append(clock)
    return times


def measure_warm(folder: Path, rounds: int) -> dict[str, Times]:
    environment = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
    environment["XDG_RUNTIME_DIR"] = str(folder)
    subprocess.run([*COMMAND, "up"], env=environment, check=True, capture_output=True)
    try:
        return measure(folder, ("query", "mutate", "load"), rounds, "")
    finally:
        subprocess.run([*COMMAND, "down"], env=environment, check=True, capture_output=True)


def cold_figures(cold: Mapping[str, Times]) -> list[Figure]:
    spent = {name: min(each.processor) for name, each in cold.items()}
    lance, bare = spent["import lance"], spent["import lance, pandas hidden"]
    figures = [
        Figure("import lance, processor", lance),
        Figure("import lance with pandas hidden, processor", bare),
    ]
    for name in ("query", "mutate", "load"):
        target = 1.3 if name == "query" else None
        ratio = spent[name] / lance
        figures += [
            Figure(
                f"{name}, cold, processor",
                spent[name],
                "import lance",
                ratio,
                None if target is None else f"≤ {target}",
                None if target is None else ratio <= target,
            ),
            Figure(f"{name}, cold, processor", spent[name], "… pandas hidden", spent[name] / bare),
            Figure(f"{name}, cold, clock", statistics.median(cold[name].clock)),
        ]
    ratio = spent["load"] / spent["mutate"]
    text = f"load of {ROWS} rows, cold, processor"
    return [*figures, Figure(text, spent["load"], "mutate of them", ratio, "≤ 2", ratio <= 2)]


def warm_figures(cold: Mapping[str, Times], warm: Mapping[str, Times]) -> list[Figure]:
    figures = []
    for name, each in warm.items():
        clock = statistics.median(each.clock)
        is_query = name == "query"
        figures.append(
            Figure(
                f"{name}, warm, clock",
                clock,
                "cold",
                clock / statistics.median(cold[name].clock),
                "≤ 250 ms" if is_query else None,
                clock <= 0.25 if is_query else None,
            )
        )
        figures.append(Figure(f"{name}, warm, clock, best", min(each.clock)))
    load_s, mutate_s = (statistics.median(warm[name].clock) for name in ("load", "mutate"))
    ratio = load_s / mutate_s
    text = f"load of {ROWS} rows, warm, clock"
    return [*figures, Figure(text, load_s, "mutate of them", ratio, "≤ 2", ratio <= 2)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="og", dir="/tmp") as name:
        folder = Path(name)
        graph = omnigraph.init(str(folder / "g"), "node P { name: String @key }")
        graph.insert("P", [{"name": f"p{number}"} for number in range(100)])
        cold = measure(folder, list(WORK), rounds, "0")
        warm = measure_warm(folder, rounds)
    report("start", [*cold_figures(cold), *warm_figures(cold, warm)])


if __name__ == "__main__":
    main()
