"""A social network with skew, beside an embedded graph database and an SQL engine.

Twenty-five questions of the kinds that LDBC asks (`social_questions`), over the same rows in all
three programs (`social_data`). Answers are compared before anything is timed. Warm: in turns in one
process; every round has another order, because the threads of one program and what it left in the
processor's caches burden the next one. Alone: each question in a fresh process of its own, after
the graph was opened (`social_alone`). After its load each program may tidy up: ours runs
`optimize`, ladybug and DuckDB have built their indexes.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice, permutations
from pathlib import Path
from statistics import median
from typing import Any

from measure import Figure, report, timed
from query import rounded
from social_alone import Asked, ask_alone, ask_touched
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

WARM_MAX, POINT_MAX, ALONE_MAX, MEAN_MAX, SQL_MAX, MEMORY_MAX = 1.0, 2.0, 3.0, 0.5, 1.2, 1.2
PROGRAMS = ("omnigraph", "ladybug")

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
        for turn in islice(cycle(permutations(answers)), rounds):
            for name in turn:
                seconds[name].append(timed(answers[name], clock))
        ours, bugs, ducks = (median(each) for each in seconds.values())
        ratios.append(ours / bugs)
        yield Figure(question.name, ours)
        yield against("ladybug", ours, bugs, POINT_MAX if question.is_point_read else WARM_MAX)
        yield against("duckdb", ours, ducks, SQL_MAX if question.name.startswith("all") else None)
    mean = mean_of(ratios)
    met = mean <= MEAN_MAX
    yield Figure("geometric mean, warm", 0.0, "ladybug", mean, f"≤ {MEAN_MAX}", met)


def mean_of(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


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


def measure_alone(
    folder: Path, network: Network, only: str, *, is_processor: bool
) -> Iterator[Figure]:
    """Each question in a fresh process of each program; then all of them in one, for its memory."""
    parameters = Parameters(network)
    first, third = [], []
    for question in chosen(only):
        ours, bugs = (
            ask_alone(asked(program, folder, parameters, [question], is_processor=is_processor))
            for program in PROGRAMS
        )
        first.append(ours.runs[0][0] / bugs.runs[0][0])
        third.append(ours.runs[0][-1] / bugs.runs[0][-1])
        yield Figure(f"{question.name}, alone, first", ours.runs[0][0])
        yield against("ladybug", ours.runs[0][0], bugs.runs[0][0], ALONE_MAX)
        yield Figure("  third", ours.runs[0][-1])
        yield against("ladybug", ours.runs[0][-1], bugs.runs[0][-1], ALONE_MAX)
        touched = ask_touched(asked("explained", folder, parameters, [question]))
        said = f"  {touched.rows:,} rows, {touched.requests} requests, {touched.nbytes:,} bytes"
        yield Figure(f"{said}; open", ours.opened)
        yield against("ladybug", ours.opened, bugs.opened, None)
    yield Figure("geometric mean, alone, first", 0.0, "ladybug", mean_of(first))
    yield Figure("geometric mean, alone, third", 0.0, "ladybug", mean_of(third))
    yield from measure_memory(folder, parameters, only)


def measure_memory(folder: Path, parameters: Parameters, only: str) -> Iterator[Figure]:
    ours, bugs = (
        ask_alone(asked(program, folder, parameters, chosen(only))) for program in PROGRAMS
    )
    ratio = ours.peak / bugs.peak
    said = f"peak {ours.peak:.0f} MB, {ours.imported:.0f} after imports"
    theirs = f"ladybug: {bugs.peak:.0f}, {bugs.imported:.0f}"
    yield Figure(said, 0.0, theirs, ratio, f"≤ {MEMORY_MAX}", ratio <= MEMORY_MAX)


def asked(
    program: str,
    folder: Path,
    parameters: Parameters,
    questions: Sequence[Question],
    *,
    is_processor: bool = False,
) -> Asked:
    texts = [
        each.cypher if program == "ladybug" else parameters.program(each) for each in questions
    ]
    given = list(zip(texts, map(parameters.of, questions), strict=True))
    return Asked(program, str(folder), given, is_processor)


# ── the run ──────────────────────────────────────────────────────────────────────────────────────


def chosen(only: str) -> Sequence[Question]:
    return [each for each in QUESTIONS if each.name.startswith(only)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, default=1_200)
    parser.add_argument("--rounds", type=int, default=6, help="six are every order once")
    parser.add_argument("--only", default="", help="questions whose name starts so")
    parser.add_argument("--no-alone", action="store_true", help="leave out the fresh processes")
    parser.add_argument("--folder", type=Path, help="where to keep the data for another run")
    parser.add_argument("--processor", action="store_true", help="processor time, of all threads")
    given = parser.parse_args()
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
            figures += measure_alone(folder, network, given.only, is_processor=given.processor)
        report("social", figures)


if __name__ == "__main__":
    main()
