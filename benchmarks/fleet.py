"""Many writers at once: ours with groups and without, doltlite, and Postgres as the ceiling.

All systems take turns in one run, on the same disk, with the same single writes. A machine whose
disk flushes for nearly nothing hides what groups are for: `--flush-ms 2` gives every system a disk
that takes so long, one flush or many at once. Over HTTP the client is wrk (`apt-get install wrk`).

    python benchmarks/fleet.py --seconds 10 --writers 1 4 16 64 --flush-ms 2
"""

import argparse
import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from fleet_disk import slow_flushes
from fleet_floor import run_floor
from fleet_http import Load, has_wrk, reads_beside_writes, run_http
from fleet_ours import Run, run_embedded
from fleet_rivals import has_doltlite, has_postgres, run_doltlite, run_postgres, serving_postgres
from fleet_work import Mix, Outcome
from measure import RESULTS, percentile
from moto.server import ThreadedMotoServer
from rich.console import Console
from rich.table import Table

from support.slow_bucket import SlowBucket

BUCKET_DELAY_S = 0.03
BUCKET = "fleet"


@dataclass(frozen=True, slots=True)
class Figures:
    """One row of the table."""

    place: str
    system: str
    mix: str
    writers: int
    writes_per_s: float
    p50_ms: float
    p99_ms: float
    counts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    ratio: float
    wanted: str
    met: bool


@dataclass
class Fleet:
    options: argparse.Namespace
    environment: Mapping[str, str]
    folder: Path
    rows: list[Figures] = field(default_factory=list)

    def add(self, place: str, system: str, mix: Mix, writers: int, of: Outcome) -> Figures:
        p50, p99 = (percentile(of.latencies_s, share) * 1000 for share in (0.5, 0.99))
        counts = {**of.counts, **({"retries": of.retries} if of.retries else {})}
        return self.keep(
            Figures(place, system, mix.value, writers, of.writes_per_s, p50, p99, counts)
        )

    def add_load(self, place: str, system: str, mix: Mix, writers: int, of: Load) -> Figures:
        counts = {"refused": float(of.failed)} if of.failed else {}
        row = Figures(
            place, system, mix.value, writers, of.per_s, of.p50 * 1000, of.p99 * 1000, counts
        )
        return self.keep(row)

    def keep(self, row: Figures) -> Figures:
        print(
            f"{row.place:10} {row.system:22} {row.mix:8} {row.writers:3}  "
            f"{row.writes_per_s:9.1f}/s  p50 {row.p50_ms:8.2f} ms  p99 {row.p99_ms:9.2f} ms  "
            + "  ".join(f"{name} {value:.1f}" for name, value in row.counts.items()),
            flush=True,
        )
        self.rows.append(row)
        return row

    def run(self, writers: int, mix: Mix, **more: Any) -> Run:
        name = f"{len(self.rows)}-{time.monotonic_ns()}"
        chosen = {"uri": str(self.folder / name), "seconds": self.options.seconds, **more}
        return Run(writers, mix, **chosen)

    def find(self, place: str, system: str, mix: Mix, writers: int) -> Figures | None:
        wanted = (place, system, mix.value, writers)
        found = (
            each
            for each in self.rows
            if (each.place, each.system, each.mix, each.writers) == wanted
        )
        return next(found, None)


# ── places ───────────────────────────────────────────────────────────────────────────────────────


def on_disk(fleet: Fleet) -> None:
    """Embedded systems, and Postgres on its socket, by turns."""
    with ExitStack() as stack:
        socket = (
            stack.enter_context(serving_postgres(fleet.environment)) if has_postgres() else None
        )
        for mix in fleet.options.mixes:
            for writers in fleet.options.writers:
                for durability in ("durable", "relaxed"):
                    for is_grouped in (True, False):
                        run = fleet.run(writers, mix, is_grouped=is_grouped, durability=durability)
                        name = f"{_ours(is_grouped=is_grouped)}, {durability}"
                        fleet.add("disk", name, mix, writers, run_embedded(run, fleet.environment))
                    if writers == 1 and mix is Mix.INSERTS:
                        _add_floor(fleet, durability)
                if has_doltlite():
                    folder = Path(fleet.run(writers, mix).uri)
                    folder.mkdir()
                    rival = run_doltlite(
                        writers, mix, fleet.options.seconds, folder, fleet.environment
                    )
                    fleet.add("disk", "doltlite", mix, writers, rival)
                if socket is not None:
                    rival = run_postgres(writers, mix, fleet.options.seconds, socket)
                    fleet.add("disk", "Postgres 15", mix, writers, rival)


def _add_floor(fleet: Fleet, durability: str) -> None:
    folder = Path(fleet.run(1, Mix.INSERTS).uri)
    folder.mkdir()
    seconds, is_durable = fleet.options.seconds, durability == "durable"
    floor = run_floor(seconds, folder, fleet.environment, durable=is_durable)
    fleet.add("disk", f"bare Lance, {durability}", Mix.INSERTS, 1, floor)


def over_http(fleet: Fleet) -> None:
    for mix in fleet.options.mixes:
        for writers in fleet.options.writers:
            for is_grouped in (True, False):
                # Without groups a write of many connections takes seconds, and must show it.
                seconds = max(fleet.options.seconds, writers / 4)
                run = fleet.run(writers, mix, is_grouped=is_grouped, seconds=seconds)
                load = run_http(run, fleet.environment)
                fleet.add_load("HTTP", _ours(is_grouped=is_grouped), mix, writers, load)
    most = max(fleet.options.writers)
    idle, busy, writes = reads_beside_writes(fleet.run(most, Mix.INSERTS), fleet.environment)
    fleet.add_load("HTTP", "reads, idle", Mix.INSERTS, 4, idle)
    fleet.add_load("HTTP", "reads beside writers", Mix.INSERTS, 4, busy)
    fleet.add_load("HTTP", "writers beside reads", Mix.INSERTS, most, writes)


def in_a_bucket(fleet: Fleet) -> None:
    with slow_bucket() as (options, requests):
        for writers in (1, max(fleet.options.writers)):
            for is_grouped in (True, False):
                seconds = max(fleet.options.seconds, 5)
                place = f"s3://{BUCKET}/{time.monotonic_ns()}"
                run = fleet.run(
                    writers,
                    Mix.INSERTS,
                    is_grouped=is_grouped,
                    seconds=seconds,
                    uri=place,
                    storage_options=options,
                )
                before = requests()
                outcome = run_embedded(run, {})
                made = len(outcome.latencies_s)
                outcome.counts["requests"] = (requests() - before) / made
                outcome.counts.pop("flushes")
                fleet.add("bucket", _ours(is_grouped=is_grouped), Mix.INSERTS, writers, outcome)


@contextmanager
def slow_bucket() -> Iterator[tuple[dict[str, str], Callable[[], int]]]:
    """A bucket that takes 30 ms for each request: its storage options, and a counter."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    made = urllib.request.Request(f"http://{host}:{port}/{BUCKET}", method="PUT")
    urllib.request.urlopen(made).close()
    with SlowBucket(f"http://{host}:{port}", delay_s=BUCKET_DELAY_S) as bucket:
        options = {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "aws_endpoint": bucket.endpoint,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
        yield options, lambda: len(bucket._done)  # noqa: SLF001 - a counter of a test tool
    server.stop()


def _ours(*, is_grouped: bool) -> str:
    return "ours" if is_grouped else "ours, group=off"


# ── targets ──────────────────────────────────────────────────────────────────────────────────────


def find_targets(fleet: Fleet) -> list[Target]:
    most, targets = max(fleet.options.writers), []

    def rate(place: str, system: str, writers: int) -> float | None:
        found = fleet.find(place, system, Mix.INSERTS, writers)
        return None if found is None else found.writes_per_s

    def compare(name: str, ours: float | None, other: float | None, least: float) -> None:
        if ours is not None and other:
            targets.append(Target(name, ours / other, f"≥ {least}", ours / other >= least))

    ours = rate("disk", "ours, durable", most)
    compare(
        f"{most} writers, disk: grouped / off",
        ours,
        rate("disk", "ours, group=off, durable", most),
        10,
    )
    best = max(
        (each.writes_per_s for each in fleet.rows if each.system == "doltlite"), default=None
    )
    compare(f"{most} writers, disk: ours / doltlite's best", ours, best, 5)
    compare(
        f"{most} connections, HTTP: grouped / off",
        rate("HTTP", "ours", most),
        rate("HTTP", "ours, group=off", most),
        8,
    )
    compare(
        f"bucket: {most} writers / one", rate("bucket", "ours", most), rate("bucket", "ours", 1), 20
    )
    alone = fleet.find("disk", "ours, durable", Mix.INSERTS, 1)
    rival = fleet.find("disk", "doltlite", Mix.INSERTS, 1)
    if alone is not None and rival is not None:
        ratio = alone.p50_ms / rival.p50_ms
        targets.append(
            Target("one durable insert, p50: ours / doltlite", ratio, "≤ 1.5", ratio <= 1.5)
        )
        floor = fleet.find("disk", "bare Lance, durable", Mix.INSERTS, 1)
        if floor is not None:
            targets.append(Target("  ours / bare Lance", alone.p50_ms / floor.p50_ms, "", met=True))
            targets.append(
                Target("  bare Lance / doltlite", floor.p50_ms / rival.p50_ms, "", met=True)
            )
    idle, busy = (
        fleet.find("HTTP", name, Mix.INSERTS, 4) for name in ("reads, idle", "reads beside writers")
    )
    if idle is not None and busy is not None:
        ratio = busy.p99_ms / idle.p99_ms
        targets.append(Target("reads, p99: beside writers / idle", ratio, "≤ 3", ratio <= 3))
    crowd, lone = (fleet.find("HTTP", "ours", Mix.INSERTS, each) for each in (most, 1))
    if crowd is not None and lone is not None:
        ratio = crowd.p99_ms / lone.p50_ms
        targets.append(Target(f"HTTP: p99 of {most} / p50 of one", ratio, "≤ 10", ratio <= 10))
    return targets


def measure_flush(folder: Path) -> float:
    """What one flush of a small new file takes here, in milliseconds."""
    taken = []
    for at in range(40):
        with (folder / f"flush-{at}").open("wb") as file:
            file.write(b"x" * 2000)
            start = time.perf_counter()
            file.flush()
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - start) * 1000)
    return median(taken)


def report(fleet: Fleet, flush_ms: float) -> None:
    table = Table(title="targets", title_justify="left")
    for heading in ("what", "ratio", "target", ""):
        table.add_column(heading, justify="right" if heading == "ratio" else "left")
    targets = find_targets(fleet)
    for each in targets:
        verdict = "met" if each.met else "MISSED"
        table.add_row(each.name, f"{each.ratio:.2f}", each.wanted, verdict if each.wanted else "")
    Console(width=120).print(table)
    added = fleet.options.flush_ms
    print(
        f"one flush takes {flush_ms:.2f} ms here"
        + (f", and {added} ms more by request" if added else "")
    )
    RESULTS.mkdir(exist_ok=True)
    document = {
        "flush_ms": flush_ms,
        "flush_ms_added": added,
        "rows": [{name: getattr(row, name) for name in Figures.__slots__} for row in fleet.rows],
        "targets": [{name: getattr(each, name) for name in Target.__slots__} for each in targets],
    }
    (RESULTS / "fleet.json").write_text(json.dumps(document, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--flush-ms", type=float, default=0, help="what a flush takes beside")
    parser.add_argument("--places", nargs="+", default=["disk", "http", "bucket"])
    parser.add_argument("--mixes", nargs="+", type=Mix, default=list(Mix))
    options = parser.parse_args()
    with TemporaryDirectory() as name, ExitStack() as stack:
        environment = (
            stack.enter_context(slow_flushes(options.flush_ms)) if options.flush_ms else {}
        )
        fleet = Fleet(options, environment, Path(name))
        flush_ms = measure_flush(fleet.folder)
        if "disk" in options.places:
            on_disk(fleet)
        if "http" in options.places:
            if has_wrk():
                over_http(fleet)
            else:
                print("HTTP is left out: apt-get install wrk")
        if "bucket" in options.places:
            in_a_bucket(fleet)
        report(fleet, flush_ms)


if __name__ == "__main__":
    main()
