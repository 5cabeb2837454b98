"""What every benchmark here needs: timing, a table of ratios, and a JSON file."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `ratio` is against `baseline`, both measured in the same run."""

    name: str
    seconds: float
    baseline: str | None = None
    ratio: float | None = None
    target: str | None = None
    met: bool | None = None


def best_of(runs: int, work: Callable[[], object]) -> float:
    """The fastest of several runs, in seconds: the one least disturbed by others."""
    return min(timed(work) for _ in range(runs))


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(benchmark: str, figures: Sequence[Figure]) -> None:
    """Print the table and write the JSON beside it."""
    table = Table(title=benchmark, title_justify="left")
    for heading in ("what", "ms", "against", "ratio", "target", ""):
        table.add_column(heading, justify="right" if heading in ("ms", "ratio") else "left")
    for each in figures:
        table.add_row(
            each.name,
            f"{each.seconds * 1000:,.2f}",
            each.baseline or "",
            "" if each.ratio is None else f"{each.ratio:.2f}",
            each.target or "",
            {True: "met", False: "MISSED", None: ""}[each.met],
        )
    Console(width=140).print(table)
    RESULTS.mkdir(exist_ok=True)
    document = [asdict(each) for each in figures]
    (RESULTS / f"{benchmark}.json").write_text(json.dumps(document, indent=2) + "\n")
