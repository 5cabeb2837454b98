"""A social network with skew, beside an embedded graph database and an SQL engine.

Twenty-five questions of the kinds that LDBC asks (`social_questions`), over the same rows in all
three programs (`social_data`). Answers are compared before anything is timed. Warm: in turns in one
process. Alone: each question in a fresh process of its own, after the graph was opened.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
from measure import Figure, report, timed
from query import rounded
from social_data import (
    EDGES_PER_PERSON,
    Network,
    make_network,
    open_duckdb,
    open_ladybug,
    store_network,
)
from social_questions import QUESTIONS, Parameters, Question

from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import Settings
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

Answer = Callable[[], list[tuple[Any, ...]]]

WARM_MAX, POINT_MAX, ALONE_MAX, MEAN_MAX, SQL_MAX = 1.0, 2.0, 3.0, 0.5, 1.2
PROGRAMS = ("omnigraph", "ladybug")
RUNS_ALONE = 3

WARM_RUNS = 12
"""After so many, ours has decided between look-ups and whole tables."""


def open_ours(folder: Path) -> LocalGraph:
    return LocalGraph(
        open_graph(str(folder / "g"), settings=Settings(durability=Durability.RELAXED))
    )


def ask_ours(graph: LocalGraph, parameters: Parameters, question: Question) -> Answer:
    statement = graph.prepare(parameters.program(question))
    values = parameters.of(question)

    def answer() -> list[tuple[Any, ...]]:
        columns = statement(values).arrow().to_pydict().values()
        return list(zip(*columns, strict=True))

    return answer


def ask_ladybug(connection: Any, parameters: Parameters, question: Question) -> Answer:
    prepared, values = connection.prepare(question.cypher), parameters.of(question)
    return lambda: [tuple(row) for row in connection.execute(prepared, values)]


def ask_duckdb(connection: Any, parameters: Parameters, question: Question) -> Answer:
    values = parameters.of(question) or None
    return lambda: connection.execute(question.sql, values).fetchall()


# ── warm ─────────────────────────────────────────────────────────────────────────────────────────


def measure_warm(
    folder: Path, network: Network, rounds: int, only: str, clock: Callable[[], float]
) -> Iterator[Figure]:
    parameters = Parameters(network)
    graph, bug, duck = open_ours(folder), open_ladybug(folder), open_duckdb(folder)
    ratios = []
    for question in chosen(only):
        answers = {
            "omnigraph": ask_ours(graph, parameters, question),
            "ladybug": ask_ladybug(bug, parameters, question),
            "duckdb": ask_duckdb(duck, parameters, question),
        }
        check(question, answers)
        seconds: dict[str, list[float]] = {name: [] for name in answers}
        for _ in range(rounds):
            for name, answer in answers.items():
                seconds[name].append(timed(answer, clock))
        ours, bugs, ducks = (median(each) for each in seconds.values())
        ratios.append(ours / bugs)
        yield Figure(question.name, ours)
        yield against("ladybug", ours, bugs, POINT_MAX if question.is_point_read else WARM_MAX)
        yield against("duckdb", ours, ducks, SQL_MAX if question.name.startswith("all") else None)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    met = mean <= MEAN_MAX
    yield Figure("geometric mean, warm", 0.0, "ladybug", mean, f"≤ {MEAN_MAX}", met)


def check(question: Question, answers: dict[str, Answer]) -> None:
    """Three equal answers, and each program warmed up."""
    found = {name: sorted(map(rounded, answer())) for name, answer in answers.items()}
    assert found["omnigraph"] == found["ladybug"] == found["duckdb"], (question.name, found)
    for name, answer in answers.items():
        for _ in range(WARM_RUNS if name == "omnigraph" else 1):
            answer()


def against(other: str, ours: float, theirs: float, ratio_max: float | None) -> Figure:
    ratio = ours / theirs
    met = None if ratio_max is None else ratio <= ratio_max
    target = None if ratio_max is None else f"≤ {ratio_max}"
    return Figure(f"  against {other}", theirs, other, ratio, target, met)


# ── alone ────────────────────────────────────────────────────────────────────────────────────────


def measure_alone(folder: Path, persons: int, only: str) -> Iterator[Figure]:
    """Open, first and third answer, and the peak of memory, each in a process of its own."""
    for question in chosen(only):
        found = {name: run_alone(folder, persons, name, question) for name in PROGRAMS}
        ours, bugs = found["omnigraph"], found["ladybug"]
        for at, when in ((1, "first"), (-2, "third")):
            yield Figure(f"{question.name}, alone, {when}", ours[at])
            yield against("ladybug", ours[at], bugs[at], ALONE_MAX)
        yield Figure(f"  open {ours[0]:.2f} s, peak {ours[-1]:.0f} MB", ours[0], "ladybug's peak")
        yield against("ladybug", ours[-1] / 1000, bugs[-1] / 1000, SQL_MAX)


def run_alone(folder: Path, persons: int, program: str, question: Question) -> list[float]:
    command = [sys.executable, __file__, "--folder", str(folder), "--persons", str(persons)]
    done = subprocess.run(
        [*command, "--alone", program, question.name], check=True, capture_output=True, text=True
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def answer_alone(folder: Path, program: str, name: str) -> None:
    """Print seconds to open, seconds of each answer, and the peak of memory in megabytes."""
    question = next(each for each in QUESTIONS if each.name == name)
    parameters = Parameters(stored_network(folder))
    opened: list[Any] = []
    open_it, ask = (open_ours, ask_ours) if program == "omnigraph" else (open_ladybug, ask_ladybug)
    opening = timed(lambda: opened.append(open_it(folder)))
    answer = ask(opened[0], parameters, question)
    seconds = [timed(answer) for _ in range(RUNS_ALONE)]
    print(json.dumps([opening, *seconds, peak_megabytes()]))


def peak_megabytes() -> float:
    """Of this program alone: `getrusage` counts the process that started it, too."""
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


# ── the run ──────────────────────────────────────────────────────────────────────────────────────


def chosen(only: str) -> Sequence[Question]:
    return [each for each in QUESTIONS if each.name.startswith(only)]


def stored_network(folder: Path) -> Network:
    """The tables that parameters are taken from, as the run stored them."""
    names = ("Knows", "ReplyTo", "PostTag", "PartOf")
    return Network({}, {name: pq.read_table(folder / f"{name}.parquet") for name in names}, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, default=1_200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="questions whose name starts so")
    parser.add_argument("--no-alone", action="store_true", help="leave out the fresh processes")
    parser.add_argument("--folder", type=Path, help="where to keep the data for another run")
    parser.add_argument(
        "--processor", action="store_true", help="processor time of the warm runs, of all threads"
    )
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone is not None:
        answer_alone(given.folder, *given.alone)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        network = make_network(given.persons)
        if not (folder / "done").exists():
            store_network(folder, network)
            (folder / "done").touch()
        print(f"{network.edge_count:,} edges, about {EDGES_PER_PERSON} for each person")
        clock = time.process_time if given.processor else time.perf_counter
        figures = list(measure_warm(folder, network, given.rounds, given.only, clock))
        if not given.no_alone:
            figures += measure_alone(folder, given.persons, given.only)
        report("social", figures)


if __name__ == "__main__":
    main()
